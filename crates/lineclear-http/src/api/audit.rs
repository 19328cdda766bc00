//! The audit log. It is read-only.

use axum::Json;
use axum::extract::State;
use lineclear::store::{AuditFilter, AuditId, AuditView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::api::json_types::{Id, QueryParams, id, time};
use crate::api::pagination::{Page, cursor, limit};
use crate::problem::Problem;

/// A change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditEntry {
    id: Id,
    at: String,
    /// `token:NAME`, `session:NAME`, `proxy:USER`, `cli:USER`, or `local` on an open server.
    who: String,
    token_id: Option<Id>,
    /// The operation id in this document.
    action: String,
    /// The parameters of the path.
    target: String,
    request_id: String,
    /// The status of the response. Null: the request is not over, or the server crashed, and the change may have happened. 499: the client
    /// disconnected.
    status: Option<u16>,
    finished_at: Option<String>,
    /// Details, such as the values before and after.
    #[schema(value_type = Option<Object>)]
    details: Option<Box<RawValue>>,
}

impl AuditEntry {
    fn of(view: AuditView) -> AuditEntry {
        AuditEntry {
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

/// A filter.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// The caller, as in the entries: `token:ci`.
    who: Option<String>,
    /// The operation id.
    action: Option<String>,
    /// The earliest time; RFC 3339.
    since: Option<String>,
    /// The page size, 1 to 1,000; the default is 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// Lists changes, newest first.
#[utoipa::path(
    get, path = "/audit", operation_id = "list_audit", tag = "audit", params(ListParams), security(("token" = ["admin"])),
    responses((status = 200, body = Page<AuditEntry>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<ListParams>,
) -> Result<Json<Page<AuditEntry>>, Problem> {
    let params = params.0;
    let since = params.since.as_deref().map(|text| {
        let at: Result<jiff::Timestamp, _> = text.parse();
        at.map(lineclear_model::Micros::from).map_err(|_| {
            Problem::malformed(
                "since",
                format!(
                    "{text:?} is not a time; write 2026-03-29T02:30:00Z, not after {}",
                    lineclear_model::text::MOMENT_MAX
                ),
            )
        })
    });
    if [&params.who, &params.action].into_iter().flatten().any(|text| text.contains('\0')) {
        return Err(Problem::malformed("query", "`who` and `action` must not contain U+0000"));
    }
    let filter = AuditFilter { who: params.who, action: params.action, since: since.transpose()? };
    let before = cursor(params.cursor.as_deref(), |text| id(text, "").ok().map(AuditId))?;
    let page = state.reading.audit(&filter, before, limit(params.limit)?).await?;
    Ok(Json(Page::new(
        page.items.into_iter().map(AuditEntry::of).collect(),
        page.next.map(|id| id.to_string()),
    )))
}
