//! The list of jobs, with a search.

pub(super) mod cancel;
pub(super) mod detail;
pub(super) mod enqueue;
mod executions;
pub(super) mod retry;
mod timeline;

use lineclear::read::JobView;
use lineclear::store::JobId;
use lineclear_model::query::Query;
use lineclear_model::{JobState, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::components::{self, between, escape_query, moment, number};
use super::{Page, Region, Tab, View, export};
use crate::api::json_types::id;
use crate::api::pagination::cursor;
use crate::problem::Problem;

const ROWS: u32 = 50;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    #[serde(default)]
    q: String,
    cursor: Option<String>,
}

/// Quick filters.
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
    let ListParams { q, cursor: from } = view.params()?;
    let query = match Query::parse(&q) {
        Ok(query) => query,
        Err(bad) => return Ok(invalid_search(view, &q, &bad.to_string())),
    };
    let before = cursor(from.as_deref(), |text| id(text, "").ok().map(JobId))?;
    let found = view.app.reading.search(&query, before, ROWS).await?;
    let next = found.next.map(|next| view.link(&format!("/jobs?q={}&cursor={next}", escape_query(&q))));
    let is_first = before.is_none();
    let list = html! {
        @if found.items.is_empty() { (no_jobs(view, &q, is_first, next.is_some())) }
        @else { (table(view, &found.items, &q)) }
        nav.pager aria-label="Pages" {
            @if !is_first { a.button href=(view.link(&format!("/jobs?q={}", escape_query(&q)))) { "Newest" } }
            @if let Some(next) = &next { a.button rel="next" href=(next) { "Older" } }
            span.muted { (number(found.rows_scanned)) " rows scanned" @if next.is_none() { ", end of the list" } }
        }
    };
    let title = if q.is_empty() { "Jobs".to_owned() } else { format!("{q} · Jobs") };
    let regions = vec![Region::new("head", head(view, &q)), Region::new("list", list)];
    // Older pages do not update: rows would move under the reader.
    Ok(Page { title, tab: Tab::Jobs, regions, live: is_first })
}

/// The search of an export, which has all pages.
pub(super) fn query(view: &View<'_>) -> Result<Query, Problem> {
    let ListParams { q, .. } = view.params()?;
    Query::parse(&q).map_err(|bad| Problem::malformed("query_language", bad.to_string()))
}

fn head(view: &View<'_>, q: &str) -> Markup {
    html! {
        div.bar {
            h1 { "Jobs" }
            nav.pills aria-label="States" {
                @for (word, of) in PILLS {
                    a.pill href=(view.link(&format!("/jobs?q={}", escape_query(of)))) aria-current=[(of == q.trim()).then_some("true")] { (word) }
                }
            }
            (export::links(view, "/jobs"))
        }
    }
}

/// An invalid search: where it is wrong, without losing what was typed.
fn invalid_search(view: &View<'_>, q: &str, why: &str) -> Page {
    let html = html! {
        (head(view, q))
        div.card.refusal role="alert" {
            h2 { "Invalid search" }
            p { code { (q) } }
            p.wrong { (why) }
            p.muted { "Fields: state, kind, group, manifest, tag, route, node, origin, error, fingerprint, reason, id, claims, duration, since, until. A space is AND, a comma is OR, - is NOT, a trailing * matches any ending." }
        }
    };
    Page { title: "Jobs".to_owned(), tab: Tab::Jobs, regions: vec![Region::new("list", html)], live: false }
}

fn table(view: &View<'_>, jobs: &[JobView], q: &str) -> Markup {
    let can_operate = view.can(Scope::Operate);
    html! {
        form #bulk method="get" action=(view.link("/bulk-operations/new")) {
        @if can_operate { (selection(view, q)) }
        div.scroll { table.list {
            thead { tr {
                @if can_operate { th.check scope="col" { span.hidden { "Select" } } }
                th scope="col" { "State" } th scope="col" { "Job" } th scope="col" { "Name" } th scope="col" { "Group" }
                th scope="col" { "Node" } th scope="col" { "Accepted" } th scope="col" { "Ended" } th.number scope="col" { "Claims" } th scope="col" { "Error" }
            } }
            tbody { @for job in jobs { (row(view, job, can_operate)) } }
        } }
        }
    }
}

/// Bulk operations on the selected jobs, or on all that the search finds.
fn selection(view: &View<'_>, q: &str) -> Markup {
    let all = if q.trim().is_empty() { "id:>0" } else { q };
    let matching = |action: &str, word: &str| {
        html! { a href=(view.link(&format!("/bulk-operations/new?action={action}&q={}", escape_query(all)))) { (word) } }
    };
    html! {
        div.bar.selection {
            button type="submit" name="action" value="cancel" { "Cancel selected" }
            button type="submit" name="action" value="retry" { "Retry selected" }
            span.muted.matching { "All matching: " (matching("cancel", "cancel")) " · " (matching("retry", "retry")) " · " (matching("revive", "revive")) " · " (matching("acknowledge", "acknowledge")) }
        }
    }
}

fn row(view: &View<'_>, job: &JobView, can_operate: bool) -> Markup {
    let over = job.finished_at.filter(|_| job.state != JobState::Dead);
    html! {
        tr data-key=(job.id) {
            @if can_operate { td.check { input type="checkbox" name="id" value=(job.id) aria-label={ "Job " (job.id) }; } }
            td { (components::state(job.state)) }
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
            td.error { @if let Some(error) = &job.last_error { (components::first_line(error)) } }
        }
    }
}

fn no_jobs(view: &View<'_>, q: &str, is_first: bool, is_more: bool) -> Markup {
    if is_more {
        return components::empty_state(
            "No match in these rows",
            html! { p { "A search scans 10,000 rows at a time, newest first. Choose Older to continue." } },
        );
    }
    if q.is_empty() && is_first {
        return components::empty_state(
            "No jobs yet",
            html! { p { "This list has all jobs: waiting, running, dead and finished." } (components::cli_hint("lineclear job enqueue hello --input '{}'")) },
        );
    }
    components::empty_state(
        "No matching jobs",
        html! { p { "No stored job matches " code { (q) } ". Completed jobs are deleted after the retention time." } p { a.button href=(view.link("/jobs")) { "All jobs" } } },
    )
}
