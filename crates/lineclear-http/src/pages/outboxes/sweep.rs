//! Replays or discards dead messages, after a confirmation.

use axum::extract::State;
use axum::response::Response;
use maud::html;
use serde::Deserialize;

use super::path;
use crate::App;
use crate::api::json_types::{PathParam, id};
use crate::api::outboxes::sweep::{IDS_MAX, Sweep, SweepBody, run};
use crate::api::outboxes::{self as api};
use crate::audit::AuditDetails;
use crate::pages::components::count;
use crate::pages::confirm::{Confirmation, FormBody, page, redirect};
use crate::pages::{Page, Tab, View};
use crate::problem::Problem;

/// Requests of one action on all messages, 1,000 each.
const ROUNDS_MAX: usize = 20;

impl Sweep {
    /// The verb, its consequence, and whether it cannot be undone.
    fn words(self) -> (&'static str, &'static str, bool) {
        match self {
            Sweep::Replay => (
                "replay",
                "They are delivered again, with a new budget of attempts. A receiver may have got some of them: it knows them by their delivery id.",
                false,
            ),
            Sweep::Discard => {
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
pub(in crate::pages) async fn confirm(view: &View<'_>, name: &str, sweep: Sweep) -> Result<Page, Problem> {
    let ids = chosen(view)?;
    let outbox = api::open(view.app, name).await?;
    let (verb, consequence, danger) = sweep.words();
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

/// The form.
#[derive(Default, Deserialize)]
pub(in crate::pages) struct SweepForm {
    #[serde(default)]
    ids: String,
}

async fn sweep(
    app: &App,
    audit: &AuditDetails,
    name: &str,
    form: &SweepForm,
    what: Sweep,
) -> Result<Response, Problem> {
    let ids: Vec<String> = form.ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
    let mut body = SweepBody { all: ids.is_empty(), ids, after: None };
    let mut total = 0;
    for _ in 0..ROUNDS_MAX {
        let swept = run(app, audit, name, &body, what).await?;
        total += swept.count;
        audit.add("count", serde_json::json!(total));
        let Some(next) = swept.next else { break };
        body.after = Some(next);
    }
    Ok(redirect(app, &path(name)))
}

pub(in crate::pages) async fn replay(
    State(app): State<App>,
    audit: AuditDetails,
    name: PathParam,
    form: FormBody<SweepForm>,
) -> Result<Response, Problem> {
    sweep(&app, &audit, &name.0, &form.0, Sweep::Replay).await
}

pub(in crate::pages) async fn discard(
    State(app): State<App>,
    audit: AuditDetails,
    name: PathParam,
    form: FormBody<SweepForm>,
) -> Result<Response, Problem> {
    sweep(&app, &audit, &name.0, &form.0, Sweep::Discard).await
}
