//! The form that replays or discards dead messages or parked events.

use axum::response::Response;
use serde::Deserialize;

use super::confirm::redirect;
use crate::App;
use crate::api::triage::{Triage, TriageBody};
use crate::api::{outboxes, subscriptions};
use crate::audit::AuditDetails;
use crate::problem::Problem;

/// Requests of one form on all items, 1,000 each.
const ROUNDS_MAX: usize = 20;

/// The chosen ids, with commas between them; empty: all.
#[derive(Default, Deserialize)]
pub(in crate::pages) struct TriageForm {
    #[serde(default)]
    ids: String,
}

/// What the form is about: one outbox or one subscription, by its name.
pub(in crate::pages) enum Of<'a> {
    Outbox(&'a str),
    Subscription(&'a str),
}

impl TriageForm {
    /// Runs the action page by page, records in the audit how many items it changed, and returns to a page.
    pub(super) async fn submit(
        &self,
        app: &App,
        audit: &AuditDetails,
        of: Of<'_>,
        triage: Triage,
    ) -> Result<Response, Problem> {
        let ids: Vec<String> = self.ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
        let mut body = TriageBody { all: ids.is_empty(), ids, after: None };
        let mut total = 0;
        for _ in 0..ROUNDS_MAX {
            let changed = match of {
                Of::Outbox(name) => outboxes::triage::run(app, audit, name, &body, triage).await?,
                Of::Subscription(name) => subscriptions::triage::run(app, audit, name, &body, triage).await?,
            };
            total += changed.count;
            audit.add("count", serde_json::json!(total));
            let Some(next) = changed.next else { break };
            body.after = Some(next);
        }
        Ok(redirect(
            app,
            &match of {
                Of::Outbox(name) => super::outboxes::path(name),
                Of::Subscription(name) => super::subscriptions::path(name),
            },
        ))
    }
}
