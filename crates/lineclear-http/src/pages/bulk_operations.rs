//! Bulk operations: confirmed with a count, undone before they start, watched while they run.

mod mode;

use axum::extract::State;
use axum::response::Response;
use lineclear::store::{BulkAction, BulkOperation, BulkOperationId, BulkStatus};
use lineclear_model::query::Query;
use lineclear_model::{JobState, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::components::{self, cli_hint, moment, number};
use super::confirm::{Confirmation, FormBody, page as confirm_page, redirect};
use super::{Page, Region, Tab, View, export};
use crate::App;
use crate::api::bulk_operations::{self as api, BulkOperationBody};
use crate::api::json_types::{PathParam, id};
use crate::api::pagination::cursor;
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::idempotency::KeyedBody;
use crate::problem::Problem;

const ROWS: u32 = 50;
/// The delay before it starts, in which it can be undone.
const UNDO_MS: u64 = 8_000;

/// The action and its jobs: a search, or the selected ones.
#[derive(Default)]
struct NewParams {
    action: String,
    q: String,
    mode: String,
}

/// The selected jobs come as repeated `id` parameters, which a struct cannot parse.
fn new_params(view: &View<'_>) -> Result<NewParams, Problem> {
    let pairs: Vec<(String, String)> = view.params()?;
    let (mut params, mut ids) = (NewParams::default(), Vec::new());
    for (name, value) in pairs {
        match name.as_str() {
            "action" => params.action = value,
            "q" => params.q = value,
            "mode" => params.mode = value,
            "id" => ids.push(value),
            _ => return Err(Problem::malformed("query", format!("unknown parameter {name:?}"))),
        }
    }
    if !ids.is_empty() {
        params.q = format!("id:{}", ids.join(","));
    }
    Ok(params)
}

/// `GET /bulk-operations/new`: the count, before anything changes.
pub(super) async fn confirm(view: &View<'_>) -> Result<Page, Problem> {
    let NewParams { action: word, q, mode: mode_word } = new_params(view)?;
    let action = BulkAction::from_word(&word).ok_or_else(|| {
        Problem::malformed("action", "`action` must be one of cancel, retry, revive, acknowledge")
    })?;
    let chosen_mode = mode::chosen_word(&mode_word, action)?;
    if q.trim().is_empty() {
        return Err(Problem::malformed("q", "select jobs, or search for some; id:>0 finds all jobs"));
    }
    let query = Query::parse(&q).map_err(|bad| Problem::malformed("query_language", bad.to_string()))?;
    let counted = view.app.reading.count(&action.of(query)).await?;
    let many =
        if counted.is_exact { number(counted.count) } else { format!("at least {}", number(counted.count)) };
    let jobs = if counted.count == 1 { "job" } else { "jobs" };
    let (what, button) = match action {
        BulkAction::Cancel => (
            "Waiting jobs end; running jobs are told to stop. A cancelled job cannot be restored, only run again as a new job.",
            "Cancel them",
        ),
        BulkAction::Retry => (
            "Jobs that wait for their next attempt become due now; awaiting dead letters are revived; acknowledged and finished jobs run again as new jobs.",
            "Retry them",
        ),
        BulkAction::Revive => (
            "The dead letters are resolved, and the jobs run again. Their failure counts are reset. Only awaiting dead letters are included.",
            "Revive them",
        ),
        BulkAction::Acknowledge => (
            "The dead letters are resolved without running the jobs again, and their manifests continue. Only awaiting dead letters are included.",
            "Acknowledge them",
        ),
    };
    let back = if q.starts_with("state:dead") {
        "/dead-letters".to_owned()
    } else {
        format!("/jobs?q={}", components::escape_query(&q))
    };
    Ok(confirm_page(
        view,
        Confirmation {
            title: format!("{} {many} {jobs}?", title(action)),
            what: html! {
                p { "Jobs that " code { (q) } " finds and the action applies to: " strong { (many) } "." }
                p { (what) }
                p.muted { "It starts after " (UNDO_MS / 1_000) " seconds. Until then, you can undo it." }
            },
            fields: html! {
                input type="hidden" name="action" value=(action.as_str());
                input type="hidden" name="q" value=(q);
                @if mode::has_choice(action) { (mode::choice(chosen_mode)) }
                div.field { label for="reason" { "Note" } input #reason name="reason" maxlength="500" placeholder="optional reason"; }
            },
            button,
            danger: action == BulkAction::Cancel,
            cli: format!(
                "lineclear bulk-operation start {} -q {}{}",
                action.as_str(),
                components::shell_quote(&q),
                mode::option(chosen_mode)
            ),
            back,
            tab: if matches!(action, BulkAction::Revive | BulkAction::Acknowledge) {
                Tab::DeadLetters
            } else {
                Tab::Jobs
            },
        },
    ))
}

const fn title(action: BulkAction) -> &'static str {
    match action {
        BulkAction::Cancel => "Cancel",
        BulkAction::Retry => "Retry",
        BulkAction::Revive => "Revive",
        BulkAction::Acknowledge => "Acknowledge",
    }
}

#[derive(Deserialize)]
pub(super) struct NewForm {
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
    caller: Caller,
    audit: AuditDetails,
    FormBody(form): FormBody<NewForm>,
) -> Result<Response, Problem> {
    let reason = Some(form.reason).filter(|reason| !reason.trim().is_empty());
    let (mode, over_ms) = mode::parse(&form.mode, &form.over)?;
    let body = BulkOperationBody {
        action: form.action,
        q: form.q,
        dry_run: false,
        reason,
        starts_in_ms: Some(UNDO_MS),
        mode,
        over_ms,
    };
    let reply = api::start(&state, &caller, &audit, KeyedBody { key: None, body }).await?;
    Ok(redirect(
        &state,
        &reply.bulk_operation().map_or("/bulk-operations".to_owned(), |id| format!("/bulk-operations/{id}")),
    ))
}

pub(super) async fn cancel(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<Response, Problem> {
    let (app, to) = (state.0.clone(), format!("/bulk-operations/{}", path.0));
    drop(api::cancel(state, audit, path).await?);
    Ok(redirect(&app, &to))
}

/// `GET /bulk-operations/{id}`.
pub(super) async fn page(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let found = view.app.reading.bulk_operation(BulkOperationId(id(text, "bulk operation")?)).await?;
    let operation = found.ok_or_else(|| Problem::not_found(format_args!("bulk operation {text}")))?;
    let canary = match operation.canary {
        Some(job) => view.app.reading.job(job).await?.map(|detail| detail.job.state),
        None => None,
    };
    let title = format!("{} {} jobs", title(operation.action), number(operation.total));
    let html = card(view, &operation, canary);
    Ok(Page { title, tab: Tab::Jobs, regions: vec![Region::new("operation", html)], live: true })
}

fn card(view: &View<'_>, operation: &BulkOperation, canary: Option<JobState>) -> Markup {
    let handled = operation.done + operation.skipped;
    let is_open = matches!(operation.status, BulkStatus::Waiting | BulkStatus::Running);
    html! {
        div.bar { h1 { (title(operation.action)) " " (number(operation.total)) @if !operation.total_is_exact { " or more" } " jobs" } (status(operation.status)) }
        section.card {
            p { progress.wide value=(handled) max=(operation.total.max(1)) {} " " strong { (number(operation.done)) } " done" @if operation.skipped > 0 { ", " (number(operation.skipped)) " skipped" } }
            @match operation.status {
                BulkStatus::Waiting => p { "It starts " (moment(operation.starts_at)) ". Nothing has changed yet." },
                BulkStatus::Running if operation.waits_for_canary => {}
                BulkStatus::Running => p { "Running, 200 jobs at a time. Changes cannot be undone." },
                BulkStatus::Done => p { "Done " @if let Some(at) = operation.finished_at { (moment(at)) } "." },
                BulkStatus::Cancelled => p { "Stopped " @if let Some(at) = operation.finished_at { (moment(at)) } @if operation.done == 0 { ", before it changed anything" } "." },
            }
            (mode::card(view, operation, canary))
            @if is_open && view.can(Scope::Operate) {
                form.buttons method="post" action=(view.link(&format!("/bulk-operations/{}/cancel", operation.id))) {
                    button.danger type="submit" { @if operation.status == BulkStatus::Waiting { "Undo" } @else { "Stop" } }
                }
            }
            dl.facts {
                div.fact { dt { "jobs" } dd { a href=(view.link(&format!("/jobs?q={}", components::escape_query(&operation.q)))) { code { (operation.q) } } } }
                div.fact { dt { "by" } dd { (operation.created_by) } }
                div.fact { dt { "created" } dd { (moment(operation.created_at)) } }
                @if let Some(reason) = &operation.reason { div.fact { dt { "note" } dd { (reason) } } }
            }
            @if is_open { (cli_hint(&format!("lineclear bulk-operation watch {}", operation.id))) (cli_hint(&format!("lineclear bulk-operation cancel {}", operation.id))) }
            @else { (cli_hint(&format!("lineclear bulk-operation get {}", operation.id))) }
        }
        p { a.button href=(view.link("/bulk-operations")) { "All bulk operations" } }
    }
}

fn status(status: BulkStatus) -> Markup {
    let class = match status {
        BulkStatus::Waiting => "scheduled",
        BulkStatus::Running => "running",
        BulkStatus::Done => "completed",
        BulkStatus::Cancelled => "cancelled",
    };
    html! { span class={ "badge " (class) } { span.glyph aria-hidden="true" { (components::glyph(class)) } " " (status.as_str()) } }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    cursor: Option<String>,
}

/// Checks the parameters of an export.
pub(super) fn check(view: &View<'_>) -> Result<(), Problem> {
    view.params::<ListParams>().map(drop)
}

/// `GET /bulk-operations`.
pub(super) async fn list(view: &View<'_>) -> Result<Page, Problem> {
    let params: ListParams = view.params()?;
    let before = cursor(params.cursor.as_deref(), |text| id(text, "").ok().map(BulkOperationId))?;
    let page = view.app.reading.bulk_operations(before, ROWS).await?;
    let html = html! {
        div.bar { h1 { "Bulk operations" } (export::links(view, "/bulk-operations")) }
        @if page.items.is_empty() {
            (components::empty_state("No bulk operations yet", html! { p { "Select jobs in a list, or change all jobs that a search finds." } (cli_hint("lineclear bulk-operation start cancel -q 'kind:mail.*'")) }))
        } @else {
            div.scroll { table.list {
                thead { tr { th scope="col" { "State" } th scope="col" { "Action" } th scope="col" { "Jobs" } th.number scope="col" { "Done" } th.number scope="col" { "Of" } th scope="col" { "By" } th scope="col" { "Created" } } }
                tbody { @for operation in &page.items { tr data-key=(operation.id) {
                    td { (status(operation.status)) }
                    td { a href=(view.link(&format!("/bulk-operations/{}", operation.id))) { (title(operation.action)) " #" (operation.id) } }
                    td.error { code { (operation.q) } }
                    td.number { (number(operation.done)) } td.number { (number(operation.total)) @if !operation.total_is_exact { "+" } }
                    td { (operation.created_by) } td { (moment(operation.created_at)) }
                } } }
            } }
        }
        nav.pager aria-label="Pages" { @if let Some(next) = page.next { a.button rel="next" href=(view.link(&format!("/bulk-operations?cursor={next}"))) { "Older" } } }
    };
    Ok(Page {
        title: "Bulk operations".to_owned(),
        tab: Tab::Jobs,
        regions: vec![Region::new("list", html)],
        live: before.is_none(),
    })
}
