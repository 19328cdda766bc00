//! The audit: who changed what. It can be read, and nothing else.

use axum::Json;
use axum::extract::State;
use lineclear::store::{AuditFilter, AuditId, AuditView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::page::{Page, cursor, limit};
use super::shape::{Asked, Id, id, time};
use crate::App;
use crate::problem::Problem;

/// Something that was done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entry {
    id: Id,
    at: String,
    /// `token:NAME`, `session:NAME`, `proxy:USER`, `cli:USER`, or `local` where the server asks nobody.
    who: String,
    token_id: Option<Id>,
    /// The operation, by its name in this document.
    action: String,
    /// What it was done to.
    target: String,
    request_id: String,
    /// The status of the answer. None: it is not over, or the server died with it, and it may have been done or not. 499: its
    /// client went away before it was over.
    status: Option<u16>,
    finished_at: Option<String>,
    /// What it was before, and what it is now, where that is known.
    #[schema(value_type = Option<Object>)]
    details: Option<Box<RawValue>>,
}

impl Entry {
    fn of(view: AuditView) -> Entry {
        Entry {
            id: Id::of(view.id),
            at: time(view.at),
            who: view.entry.who,
            token_id: view.entry.token.map(Id::of),
            action: view.entry.action,
            target: view.entry.target,
            request_id: view.entry.request_id,
            status: view.status,
            finished_at: view.finished_at.map(time),
            details: view.details.and_then(|text| RawValue::from_string(text).ok()),
        }
    }
}

/// Which entries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Of this person or token, as entries have it: `token:ci`.
    who: Option<String>,
    /// Of this operation.
    action: Option<String>,
    /// Not before; RFC 3339.
    since: Option<String>,
    /// How many at most: 1 to 1,000, and 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Lists changes that people and programs made, newest first.
#[utoipa::path(
    get, path = "/audit", operation_id = "list_audit", tag = "audit", params(Which), security(("token" = ["admin"])),
    responses((status = 200, body = Page<Entry>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Which>) -> Result<Json<Page<Entry>>, Problem> {
    let asked = asked.0;
    let since = asked.since.as_deref().map(|text| {
        let at: Result<jiff::Timestamp, _> = text.parse();
        at.map(lineclear_model::Micros::from).map_err(|_| {
            Problem::malformed(
                "since",
                format!(
                    "{text:?} is no time; write it as 2026-03-29T02:30:00Z, not after {}",
                    lineclear_model::text::MOMENT_MAX
                ),
            )
        })
    });
    if [&asked.who, &asked.action].into_iter().flatten().any(|text| text.contains('\0')) {
        return Err(Problem::malformed("query", "nobody and nothing has U+0000 in its name"));
    }
    let filter = AuditFilter { who: asked.who, action: asked.action, since: since.transpose()? };
    let before = cursor(asked.cursor.as_deref(), |text| id(text, "").ok().map(AuditId))?;
    let page = state.reading.audit(&filter, before, limit(asked.limit)?).await?;
    Ok(Json(Page::new(page.items.into_iter().map(Entry::of).collect(), page.next.map(|id| id.to_string()))))
}
