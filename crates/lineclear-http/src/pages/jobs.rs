//! Jobs: found by a search, page by page, newest first.

use lineclear::read::JobView;
use lineclear::store::JobId;
use lineclear_model::query::Query;
use lineclear_model::{JobState, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::part::{self, between, escaped, moment, number};
use super::{Page, Region, Tab, View, export};
use crate::api::page::cursor;
use crate::api::shape::id;
use crate::problem::Problem;

const ROWS: u32 = 50;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    #[serde(default)]
    q: String,
    cursor: Option<String>,
}

/// States that have a link of their own.
const PILLS: [(&str, &str); 7] = [
    ("all", ""),
    ("waiting", "state:waiting"),
    ("running", "state:running"),
    ("retrying", "state:retrying"),
    ("dead", "state:dead"),
    ("completed", "state:completed"),
    ("cancelled", "state:cancelled"),
];

pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let Which { q, cursor: from } = view.asked()?;
    let query = match Query::parse(&q) {
        Ok(query) => query,
        Err(bad) => return Ok(explained(view, &q, &bad.to_string())),
    };
    let before = cursor(from.as_deref(), |text| id(text, "").ok().map(JobId))?;
    let found = view.app.reading.search(&query, before, ROWS).await?;
    let next = found.next.map(|next| view.link(&format!("/jobs?q={}&cursor={next}", escaped(&q))));
    let is_first = before.is_none();
    let list = html! {
        @if found.items.is_empty() { (nothing(view, &q, is_first, next.is_some())) }
        @else { (table(view, &found.items, &q)) }
        nav.pager aria-label="Pages" {
            @if !is_first { a.button href=(view.link(&format!("/jobs?q={}", escaped(&q)))) { "Newest" } }
            @if let Some(next) = &next { a.button rel="next" href=(next) { "Older" } }
            span.muted { "looked through " (number(found.looked)) " rows" @if next.is_none() { "; that was all" } }
        }
    };
    let title = if q.is_empty() { "Jobs".to_owned() } else { format!("{q} · Jobs") };
    let regions = vec![Region::new("head", head(view, &q)), Region::new("list", list)];
    // A page further back does not change by itself: rows would move while they are read.
    Ok(Page { title, tab: Tab::Jobs, regions, live: is_first })
}

/// What is looked for, for a file of it: all of it, wherever the page begins.
pub(super) fn query(view: &View<'_>) -> Result<Query, Problem> {
    let Which { q, .. } = view.asked()?;
    Query::parse(&q).map_err(|bad| Problem::malformed("query_language", bad.to_string()))
}

fn head(view: &View<'_>, q: &str) -> Markup {
    html! {
        div.bar {
            h1 { "Jobs" }
            nav.pills aria-label="States" {
                @for (word, of) in PILLS {
                    a.pill href=(view.link(&format!("/jobs?q={}", escaped(of)))) aria-current=[(of == q.trim()).then_some("true")] { (word) }
                }
            }
            (export::links(view, "/jobs"))
        }
    }
}

/// A search that cannot be read says where, and loses nothing of what was typed.
fn explained(view: &View<'_>, q: &str, why: &str) -> Page {
    let html = html! {
        (head(view, q))
        div.card.refusal role="alert" {
            h2 { "This search cannot be read" }
            p { code { (q) } }
            p.wrong { (why) }
            p.muted { "Fields: state, kind, group, manifest, tag, route, node, origin, error, fingerprint, reason, id, claims, duration, since, until. Space is AND, comma is OR, - is NOT, * at the end is any ending." }
        }
    };
    Page { title: "Jobs".to_owned(), tab: Tab::Jobs, regions: vec![Region::new("list", html)], live: false }
}

fn table(view: &View<'_>, jobs: &[JobView], q: &str) -> Markup {
    let may = view.may(Scope::Operate);
    html! {
        form #bulk method="get" action=(view.link("/batches/new")) {
        @if may { (selection(view, q)) }
        div.scroll { table.list {
            thead { tr {
                @if may { th.check scope="col" { span.hidden { "Select" } } }
                th scope="col" { "State" } th scope="col" { "Job" } th scope="col" { "What" } th scope="col" { "Group" }
                th scope="col" { "Node" } th scope="col" { "Accepted" } th scope="col" { "Ended" } th.number scope="col" { "Claims" } th scope="col" { "Error" }
            } }
            tbody { @for job in jobs { (row(view, job, may)) } }
        } }
        }
    }
}

/// What can be done to many: to those that are selected, or to all that the search finds.
fn selection(view: &View<'_>, q: &str) -> Markup {
    let all = if q.trim().is_empty() { "id:>0" } else { q };
    let matching = |action: &str, word: &str| {
        html! { a href=(view.link(&format!("/batches/new?action={action}&q={}", escaped(all)))) { (word) } }
    };
    html! {
        div.bar.selection {
            button type="submit" name="action" value="cancel" { "Cancel selected" }
            button type="submit" name="action" value="retry" { "Try selected again" }
            span.muted.matching { "All that match: " (matching("cancel", "cancel")) " · " (matching("retry", "try again")) " · " (matching("revive", "revive")) " · " (matching("acknowledge", "acknowledge")) }
        }
    }
}

fn row(view: &View<'_>, job: &JobView, may: bool) -> Markup {
    let over = job.finished_at.filter(|_| job.state != JobState::Dead);
    html! {
        tr data-key=(job.id) {
            @if may { td.check { input type="checkbox" name="id" value=(job.id) aria-label={ "Job " (job.id) }; } }
            td { (part::state(job.state)) }
            td { a href=(view.link(&format!("/jobs/{}", job.id))) { (job.id) } }
            td {
                (job.manifest_key.as_deref().unwrap_or(&job.kind))
                @if job.manifest_key.as_deref().is_some_and(|key| key != job.kind) { span.muted { " " (job.kind) } }
            }
            td { (job.group.as_deref().unwrap_or("–")) }
            td { (job.node_name.as_deref().unwrap_or("–")) }
            td { (moment(job.created_at)) }
            td title=[over.map(|over| format!("{} after it was due", between(job.due_at, over)))] { @if let Some(at) = job.finished_at { (moment(at)) } @else { "–" } }
            td.number { (job.claim_no) }
            td.error { @if let Some(error) = &job.last_error { (part::line(error)) } }
        }
    }
}

fn nothing(view: &View<'_>, q: &str, is_first: bool, is_more: bool) -> Markup {
    if is_more {
        return part::empty(
            "Nothing among these rows",
            html! { p { "A search looks through ten thousand rows at a time, from new to old. Older looks on." } },
        );
    }
    if q.is_empty() && is_first {
        return part::empty(
            "No job yet",
            html! { p { "Every job that was accepted is here: waiting, running, dead and over." } (part::cli("lineclear job enqueue hello --input '{}'")) },
        );
    }
    part::empty(
        "No job fits",
        html! { p { "Nothing that is kept fits " code { (q) } ". What completed is kept for a while only." } p { a.button href=(view.link("/jobs")) { "All jobs" } } },
    )
}
