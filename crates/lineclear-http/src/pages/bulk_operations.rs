//! The same done to many jobs: asked with a count first, taken back while it has not begun, watched while it goes on.

use axum::extract::State;
use axum::response::Response;
use lineclear::store::{Action, Batch, BatchId, BatchStatus};
use lineclear_model::query::Query;
use lineclear_model::{JobState, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::action::{Ask, Filled, done, page as ask_page};
use super::part::{self, cli, moment, number};
use super::{Page, Region, Tab, View, batch_mode, export};
use crate::App;
use crate::access::Who;
use crate::api::batches::{self as api, BatchBody};
use crate::api::page::cursor;
use crate::api::shape::{At, id};
use crate::audit::Note;
use crate::once::Keyed;
use crate::problem::Problem;

const ROWS: u32 = 50;
/// So long it can be taken back.
const UNDO_MS: u64 = 8_000;

/// What is to be done to which: by a search, or to jobs that were selected.
#[derive(Default)]
struct Which {
    action: String,
    q: String,
    mode: String,
}

/// A list of selected jobs comes as `id` many times, which no struct takes.
fn which(view: &View<'_>) -> Result<Which, Problem> {
    let pairs: Vec<(String, String)> = view.asked()?;
    let (mut which, mut ids) = (Which::default(), Vec::new());
    for (name, value) in pairs {
        match name.as_str() {
            "action" => which.action = value,
            "q" => which.q = value,
            "mode" => which.mode = value,
            "id" => ids.push(value),
            _ => return Err(Problem::malformed("query", format!("{name} is not known here"))),
        }
    }
    if !ids.is_empty() {
        which.q = format!("id:{}", ids.join(","));
    }
    Ok(which)
}

/// `GET /batches/new`: how many it would be, before anything is done.
pub(super) async fn ask(view: &View<'_>) -> Result<Page, Problem> {
    let Which { action: word, q, mode } = which(view)?;
    let action = Action::from_word(&word)
        .ok_or_else(|| Problem::malformed("action", "choose one: cancel, retry, revive or acknowledge"))?;
    let mode = batch_mode::asked(&mode, action)?;
    if q.trim().is_empty() {
        return Err(Problem::malformed("q", "select jobs first, or search for some; id:>0 is all of them"));
    }
    let query = Query::parse(&q).map_err(|bad| Problem::malformed("query_language", bad.to_string()))?;
    let counted = view.app.reading.count(&action.of(query)).await?;
    let many =
        if counted.is_exact { number(counted.count) } else { format!("at least {}", number(counted.count)) };
    let jobs = if counted.count == 1 { "job" } else { "jobs" };
    let (what, button) = match action {
        Action::Cancel => (
            "Those that wait are over; those that run are asked to end. A cancelled job cannot be brought back, only run again as a new one.",
            "Cancel them",
        ),
        Action::Retry => (
            "Those that wait for their next try become due now; dead letters that await a person are revived; those that rest, and what is over, run again as new jobs.",
            "Try them again",
        ),
        Action::Revive => (
            "Their dead letters are resolved, and they run again with no failures counted. Only those that await a person are meant.",
            "Revive them",
        ),
        Action::Acknowledge => (
            "Their dead letters rest: nobody waits for them any more, and their manifests go on. Only those that await a person are meant.",
            "Acknowledge them",
        ),
    };
    let back = if q.starts_with("state:dead") {
        "/dead-letters".to_owned()
    } else {
        format!("/jobs?q={}", part::escaped(&q))
    };
    Ok(ask_page(
        view,
        Ask {
            title: format!("{} {many} {jobs}?", title(action)),
            what: html! {
                p { "Jobs that " code { (q) } " finds now, and that can be treated so: " strong { (many) } "." }
                p { (what) }
                p.muted { "It begins after " (UNDO_MS / 1_000) " seconds, until which it can be undone without a trace." }
            },
            fields: html! {
                input type="hidden" name="action" value=(action.as_str());
                input type="hidden" name="q" value=(q);
                @if batch_mode::has_choice(action) { (batch_mode::choice(mode)) }
                div.field { label for="reason" { "Note" } input #reason name="reason" maxlength="500" placeholder="why; kept with it"; }
            },
            button,
            danger: action == Action::Cancel,
            cli: format!(
                "lineclear batch start {} -q {}{}",
                action.as_str(),
                part::quoted(&q),
                batch_mode::option(mode)
            ),
            back,
            tab: if matches!(action, Action::Revive | Action::Acknowledge) { Tab::Dead } else { Tab::Jobs },
        },
    ))
}

const fn title(action: Action) -> &'static str {
    match action {
        Action::Cancel => "Cancel",
        Action::Retry => "Try again",
        Action::Revive => "Revive",
        Action::Acknowledge => "Acknowledge",
    }
}

#[derive(Deserialize)]
pub(super) struct Given {
    action: String,
    q: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    over: String,
}

pub(super) async fn create(
    state: State<App>,
    who: Who,
    note: Note,
    Filled(given): Filled<Given>,
) -> Result<Response, Problem> {
    let reason = Some(given.reason).filter(|reason| !reason.trim().is_empty());
    let (mode, over_ms) = batch_mode::chosen(&given.mode, &given.over)?;
    let body = BatchBody {
        action: given.action,
        q: given.q,
        dry_run: false,
        reason,
        starts_in_ms: Some(UNDO_MS),
        mode,
        over_ms,
    };
    let reply = api::make_one(&state, &who, &note, Keyed { once: None, body }).await?;
    Ok(done(&state, &reply.batch().map_or("/batches".to_owned(), |batch| format!("/batches/{batch}"))))
}

pub(super) async fn cancel(state: State<App>, note: Note, at: At) -> Result<Response, Problem> {
    let (app, to) = (state.0.clone(), format!("/batches/{}", at.0));
    drop(api::cancel(state, note, at).await?);
    Ok(done(&app, &to))
}

/// `GET /batches/{id}`.
pub(super) async fn one(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let found = view.app.reading.batch(BatchId(id(text, "batch")?)).await?;
    let batch = found.ok_or_else(|| Problem::not_found(format_args!("batch {text}")))?;
    let canary = match batch.canary {
        Some(job) => view.app.reading.job(job).await?.map(|detail| detail.job.state),
        None => None,
    };
    let title = format!("{} {} jobs", title(batch.action), number(batch.total));
    let html = shown(view, &batch, canary);
    Ok(Page { title, tab: Tab::Jobs, regions: vec![Region::new("batch", html)], live: true })
}

fn shown(view: &View<'_>, batch: &Batch, canary: Option<JobState>) -> Markup {
    let treated = batch.done + batch.skipped;
    let is_open = matches!(batch.status, BatchStatus::Waiting | BatchStatus::Running);
    html! {
        div.bar { h1 { (title(batch.action)) " " (number(batch.total)) @if !batch.total_is_exact { " or more" } " jobs" } (status(batch.status)) }
        section.card {
            p { progress.wide value=(treated) max=(batch.total.max(1)) {} " " strong { (number(batch.done)) } " done" @if batch.skipped > 0 { ", " (number(batch.skipped)) " could not be treated any more" } }
            @match batch.status {
                BatchStatus::Waiting => p { "It begins " (moment(batch.starts_at)) ". Until then nothing is done." },
                BatchStatus::Running if batch.waits_for_canary => {}
                BatchStatus::Running => p { "It goes on, 200 jobs at a time. What is done stays done." },
                BatchStatus::Done => p { "Done " @if let Some(at) = batch.finished_at { (moment(at)) } "." },
                BatchStatus::Cancelled => p { "Stopped " @if let Some(at) = batch.finished_at { (moment(at)) } @if batch.done == 0 { ", before anything was done" } "." },
            }
            (batch_mode::shown(view, batch, canary))
            @if is_open && view.may(Scope::Operate) {
                form.buttons method="post" action=(view.link(&format!("/batches/{}/cancel", batch.id))) {
                    button.danger type="submit" { @if batch.status == BatchStatus::Waiting { "Undo" } @else { "Stop" } }
                }
            }
            dl.facts {
                div.fact { dt { "jobs" } dd { a href=(view.link(&format!("/jobs?q={}", part::escaped(&batch.q)))) { code { (batch.q) } } } }
                div.fact { dt { "by" } dd { (batch.created_by) } }
                div.fact { dt { "asked" } dd { (moment(batch.created_at)) } }
                @if let Some(reason) = &batch.reason { div.fact { dt { "note" } dd { (reason) } } }
            }
            @if is_open { (cli(&format!("lineclear batch watch {}", batch.id))) (cli(&format!("lineclear batch cancel {}", batch.id))) }
            @else { (cli(&format!("lineclear batch get {}", batch.id))) }
        }
        p { a.button href=(view.link("/batches")) { "All bulk operations" } }
    }
}

fn status(status: BatchStatus) -> Markup {
    let class = match status {
        BatchStatus::Waiting => "scheduled",
        BatchStatus::Running => "running",
        BatchStatus::Done => "completed",
        BatchStatus::Cancelled => "cancelled",
    };
    html! { span class={ "badge " (class) } { span.glyph aria-hidden="true" { (part::glyph(class)) } " " (status.as_str()) } }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    cursor: Option<String>,
}

/// Whether the address of a list can be read.
pub(super) fn check(view: &View<'_>) -> Result<(), Problem> {
    view.asked::<From>().map(drop)
}

/// `GET /batches`.
pub(super) async fn list(view: &View<'_>) -> Result<Page, Problem> {
    let asked: From = view.asked()?;
    let before = cursor(asked.cursor.as_deref(), |text| id(text, "").ok().map(BatchId))?;
    let page = view.app.reading.batches(before, ROWS).await?;
    let html = html! {
        div.bar { h1 { "Bulk operations" } (export::links(view, "/batches")) }
        @if page.items.is_empty() {
            (part::empty("No bulk operation yet", html! { p { "Select jobs in a list, or do something to all that a search finds." } (cli("lineclear batch start cancel -q 'kind:mail.*'")) }))
        } @else {
            div.scroll { table.list {
                thead { tr { th scope="col" { "State" } th scope="col" { "What" } th scope="col" { "Jobs" } th.number scope="col" { "Done" } th.number scope="col" { "Of" } th scope="col" { "By" } th scope="col" { "Asked" } } }
                tbody { @for batch in &page.items { tr data-key=(batch.id) {
                    td { (status(batch.status)) }
                    td { a href=(view.link(&format!("/batches/{}", batch.id))) { (title(batch.action)) " #" (batch.id) } }
                    td.error { code { (batch.q) } }
                    td.number { (number(batch.done)) } td.number { (number(batch.total)) @if !batch.total_is_exact { "+" } }
                    td { (batch.created_by) } td { (moment(batch.created_at)) }
                } } }
            } }
        }
        nav.pager aria-label="Pages" { @if let Some(next) = page.next { a.button rel="next" href=(view.link(&format!("/batches?cursor={next}"))) { "Older" } } }
    };
    Ok(Page {
        title: "Bulk operations".to_owned(),
        tab: Tab::Jobs,
        regions: vec![Region::new("list", html)],
        live: before.is_none(),
    })
}
