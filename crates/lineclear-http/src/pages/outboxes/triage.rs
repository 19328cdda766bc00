//! Replays or discards dead messages, after a confirmation.

use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::{name_of, path};
use crate::App;
use crate::api::json_types::{PathParam, id};
use crate::api::outboxes::{self as api};
use crate::api::triage::{IDS_MAX, Triage};
use crate::audit::AuditDetails;
use crate::pages::components::count;
use crate::pages::confirm::{Confirmation, FormBody, page};
use crate::pages::triage::{Of, TriageForm};
use crate::pages::{Page, Tab, View};
use crate::problem::Problem;

impl Triage {
    /// The verb, its consequence, and whether it cannot be undone.
    fn words(self) -> (&'static str, &'static str, bool) {
        match self {
            Triage::Replay => (
                "replay",
                "They are delivered again, with a new budget of attempts. A receiver may have got some of them: it knows them by their delivery id.",
                false,
            ),
            Triage::Discard => {
                ("discard", "They are deleted and never delivered. They cannot be restored.", true)
            }
        }
    }
}

/// The chosen messages; none: all. A struct cannot parse a repeated parameter.
fn chosen(view: &View<'_>) -> Result<Vec<String>, Problem> {
    let pairs: Vec<(String, String)> = view.params()?;
    let mut ids = Vec::new();
    for (name, value) in pairs {
        if name != "id" {
            return Err(Problem::malformed("query", format!("unknown parameter {name:?}")));
        }
        id(&value, "message")?;
        ids.push(value);
    }
    if ids.len() > IDS_MAX {
        return Err(Problem::malformed("query", format!("at most {IDS_MAX} messages")));
    }
    Ok(ids)
}

/// `GET /outbox/{name}/replay` and `/discard`.
pub(in crate::pages) async fn confirm(
    view: &View<'_>,
    segment: &str,
    triage: Triage,
) -> Result<Page, Problem> {
    let name = &name_of(segment);
    let ids = chosen(view)?;
    let outbox = api::open(view.app, name).await?;
    let (verb, consequence, danger) = triage.words();
    let dead = crate::database_outboxes::in_time(outbox.counts()).await.map_err(api::failed)?.dead;
    let which = match ids.as_slice() {
        [] => format!("all {} dead messages of {name}", count(dead)),
        [one] => format!("message {one} of {name}"),
        all => format!("{} messages of {name}", all.len()),
    };
    let verb_upper = if danger { "Discard" } else { "Replay" };
    let cli = if ids.is_empty() {
        format!("lineclear outbox {verb} {name} --all")
    } else {
        format!("lineclear outbox {verb} {name} {}", ids.join(" "))
    };
    Ok(page(
        view,
        Confirmation {
            title: format!("{verb_upper} {which}?"),
            what: html! {
                @if ids.is_empty() && dead == 0 { p { "There are none now." } }
                p { (consequence) }
                p.muted { "A message that is not dead any more is left as it is." }
            },
            fields: html! { input type="hidden" name="ids" value=(ids.join(",")); },
            button: if danger { "Discard" } else { "Replay" },
            danger,
            cli,
            back: path(name),
            tab: Tab::Outbox,
        },
    ))
}

pub(in crate::pages) async fn replay(
    State(app): State<App>,
    audit: AuditDetails,
    PathParam(name): PathParam,
    FormBody(form): FormBody<TriageForm>,
) -> Result<Response, Problem> {
    form.submit(&app, &audit, Of::Outbox(&name), Triage::Replay).await
}

pub(in crate::pages) async fn discard(
    State(app): State<App>,
    audit: AuditDetails,
    PathParam(name): PathParam,
    FormBody(form): FormBody<TriageForm>,
) -> Result<Response, Problem> {
    form.submit(&app, &audit, Of::Outbox(&name), Triage::Discard).await
}
