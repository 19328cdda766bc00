//! Pause, resume, skip, reset and rebuild, each after a confirmation.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::path;
use crate::App;
use crate::api::json_types::PathParam;
use crate::api::subscriptions::change::{
    PauseBody, REASON_BYTES_MAX, ResetBody, SkipBody, run_pause, run_reset, run_resume, run_skip,
};
use crate::api::subscriptions::rebuild::{Verb, run};
use crate::api::subscriptions::{self as api};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::database_subscriptions::Shown;
use crate::pages::components::shell_quote;
use crate::pages::confirm::{self, Confirmation, FormBody, redirect};
use crate::pages::{Page, Tab, View};
use crate::problem::Problem;

/// An action on a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pause,
    Resume,
    Skip,
    Reset,
    Rebuild,
    Swap,
    Cancel,
}

impl Action {
    fn from_path(verb: &str) -> Option<Action> {
        Some(match verb {
            "pause" => Action::Pause,
            "resume" => Action::Resume,
            "skip" => Action::Skip,
            "reset" => Action::Reset,
            "rebuild" => Action::Rebuild,
            "swap" => Action::Swap,
            "cancel-rebuild" => Action::Cancel,
            _ => return None,
        })
    }

    /// The question before the name, the button, and whether it cannot be undone.
    fn words(self) -> (&'static str, &'static str, bool) {
        match self {
            Action::Pause => ("Pause", "Pause", false),
            Action::Resume => ("Resume", "Resume", false),
            Action::Skip => ("Skip an event of", "Skip", true),
            Action::Reset => ("Reset", "Reset", true),
            Action::Rebuild => ("Rebuild", "Rebuild", false),
            Action::Swap => ("Swap the versions of", "Swap", true),
            Action::Cancel => ("Cancel the rebuild of", "Cancel the rebuild", true),
        }
    }

    /// The command after `lineclear subscription`.
    fn cli(self, name: &str, shown: &Shown) -> String {
        let name = shell_quote(name);
        match (self, shown.view.failed_position) {
            (Action::Pause, _) => format!("pause {name}"),
            (Action::Resume, _) => format!("resume {name}"),
            (Action::Skip, Some(position)) => format!("skip {name} --position {position}"),
            (Action::Skip, None) => format!("skip {name}"),
            (Action::Reset, _) => format!("reset {name} --to POSITION"),
            (Action::Rebuild, _) => format!("rebuild {name}"),
            (Action::Swap, _) => format!("rebuild {name} --swap"),
            (Action::Cancel, _) => format!("rebuild {name} --cancel"),
        }
    }

    /// What will happen.
    fn consequence(self, shown: &Shown) -> Markup {
        let no_node = shown.active().is_none();
        html! {
            @match (self, shown.view.failed_position) {
                (Action::Pause, _) => p { "It handles no events until it is resumed. A page that is being handled is undone, and handled again then." },
                (Action::Resume, _) => p { "It goes on after position " (shown.view.position) ", with a new budget of attempts." },
                (Action::Skip, Some(position)) => {
                    p { "The event " strong { (position) } " is never handled. It stays in the log." }
                    @if let Some(error) = &shown.view.last_error { pre.wrong { (error) } }
                }
                (Action::Skip, None) => p { "It fails at no event now, so there is none to skip." },
                (Action::Reset, _) => {
                    p { "It is at " strong { (shown.view.position) } "; the last event of the log is " (shown.view.head) "." }
                    p.wrong { "What its handler has written is not touched: events that it handles again have their effects again, and events that are left out have none." }
                }
                (Action::Rebuild, _) => p { "The next version reads the log from its start, with the handler of its program, which must write each version into tables of its own. The active version goes on meanwhile." },
                (Action::Swap, _) => p { "The rebuild takes the place of the active version as soon as it has caught up." },
                (Action::Cancel, _) => p { "The active version is as it was. What the rebuild has written in its own tables stays there." },
            }
            @if self == Action::Rebuild && no_node { p.wrong { "No node runs this subscription now: the rebuild begins when its program starts it." } }
        }
    }

    fn fields(self, shown: &Shown) -> Markup {
        html! {
            @match self {
                Action::Pause => div.field { label for="reason" { "Reason" } input #reason name="reason" maxlength=(REASON_BYTES_MAX) placeholder="shown with the subscription, and kept in the audit"; },
                Action::Skip => @if let Some(position) = shown.view.failed_position { input type="hidden" name="position" value=(position); },
                Action::Reset => div.field { label for="to" { "Go on after" } input #to name="to" required autocomplete="off" placeholder="beginning, end, or a position"; },
                Action::Rebuild => div.field { label { input type="checkbox" name="on_request" value="true"; " Swap on request only" } },
                Action::Resume | Action::Swap | Action::Cancel => {},
            }
        }
    }
}

/// `GET /subscriptions/{name}/pause` and the others.
pub(in crate::pages) async fn page(view: &View<'_>, name: &str, verb: &str) -> Result<Page, Problem> {
    let action = Action::from_path(verb).ok_or_else(|| Problem::not_found("such page"))?;
    let (_, shown) = api::find(view.app, name).await?;
    let (question, button, danger) = action.words();
    Ok(confirm::page(
        view,
        Confirmation {
            title: format!("{question} {name}?"),
            what: action.consequence(&shown),
            fields: action.fields(&shown),
            button,
            danger,
            cli: format!("lineclear subscription {}", action.cli(name, &shown)),
            back: path(name),
            tab: Tab::Outbox,
        },
    ))
}

#[derive(Deserialize)]
pub(in crate::pages) struct RebuildForm {
    #[serde(default)]
    on_request: bool,
}

pub(in crate::pages) async fn pause(
    State(app): State<App>,
    caller: Caller,
    audit: AuditDetails,
    name: PathParam,
    form: FormBody<PauseBody>,
) -> Result<Response, Problem> {
    run_pause(&app, &caller, &audit, &name.0, form.0).await?;
    Ok(redirect(&app, &path(&name.0)))
}

pub(in crate::pages) async fn resume(
    State(app): State<App>,
    audit: AuditDetails,
    name: PathParam,
) -> Result<Response, Problem> {
    run_resume(&app, &audit, &name.0).await?;
    Ok(redirect(&app, &path(&name.0)))
}

pub(in crate::pages) async fn skip(
    State(app): State<App>,
    audit: AuditDetails,
    name: PathParam,
    form: FormBody<SkipBody>,
) -> Result<Response, Problem> {
    run_skip(&app, &audit, &name.0, form.0).await?;
    Ok(redirect(&app, &path(&name.0)))
}

pub(in crate::pages) async fn reset(
    State(app): State<App>,
    audit: AuditDetails,
    name: PathParam,
    form: FormBody<ResetBody>,
) -> Result<Response, Problem> {
    run_reset(&app, &audit, &name.0, &form.0).await?;
    Ok(redirect(&app, &path(&name.0)))
}

pub(in crate::pages) async fn rebuild(
    State(app): State<App>,
    audit: AuditDetails,
    name: PathParam,
    form: FormBody<RebuildForm>,
) -> Result<Response, Problem> {
    run(&app, &audit, &name.0, Verb::Begin { on_request: form.0.on_request }).await?;
    Ok(redirect(&app, &path(&name.0)))
}

pub(in crate::pages) async fn swap(
    State(app): State<App>,
    audit: AuditDetails,
    name: PathParam,
) -> Result<Response, Problem> {
    run(&app, &audit, &name.0, Verb::Swap).await?;
    Ok(redirect(&app, &path(&name.0)))
}

pub(in crate::pages) async fn cancel_rebuild(
    State(app): State<App>,
    audit: AuditDetails,
    name: PathParam,
) -> Result<Response, Problem> {
    run(&app, &audit, &name.0, Verb::Cancel).await?;
    Ok(redirect(&app, &path(&name.0)))
}
