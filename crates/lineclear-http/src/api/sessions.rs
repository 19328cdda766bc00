//! Sessions of all browsers: list, revoke.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear::store::{SessionCursor, SessionId, SessionView};
use lineclear_model::Micros;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::App;
use crate::api::json_types::{Id, PathParam, QueryParams, time};
use crate::api::pagination::{Page, PageParams, cursor, limit};
use crate::audit::AuditDetails;
use crate::problem::Problem;

/// A session of a browser that logged in, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BrowserSession {
    id: Id,
    /// The token with which it logged in.
    token_id: Id,
    /// The name of that token.
    token: String,
    /// The address from which it logged in.
    address: Option<String>,
    created_at: String,
    expires_at: String,
}

impl BrowserSession {
    fn of(view: &SessionView) -> BrowserSession {
        BrowserSession {
            id: Id::of(&view.id),
            token_id: Id::of(view.token),
            token: view.token_name.clone(),
            address: view.address.clone(),
            created_at: time(view.created_at),
            expires_at: time(view.expires_at),
        }
    }
}

/// Lists the valid sessions of browsers, those that end last first.
#[utoipa::path(
    get, path = "/sessions", operation_id = "list_sessions", tag = "session", params(PageParams), security(("token" = ["admin"])),
    responses((status = 200, body = Page<BrowserSession>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<BrowserSession>>, Problem> {
    let before = cursor(params.0.cursor.as_deref(), read_cursor)?;
    let page = state.reading.sessions(before.as_ref(), limit(params.0.limit)?).await?;
    let next = page.next.map(|(end, id)| format!("{}-{id}", end.get()));
    Ok(Json(Page::new(page.items.iter().map(BrowserSession::of).collect(), next)))
}

fn read_cursor(text: &str) -> Option<SessionCursor> {
    let (end, id) = text.split_once('-')?;
    Some((Micros::new(end.parse().ok()?)?, SessionId::parse(id)?))
}

/// Ends a session: its cookie is refused at once, and its streams end within five seconds.
#[utoipa::path(
    delete, path = "/sessions/{id}", operation_id = "revoke_session", tag = "session", params(("id" = String, Path)),
    security(("token" = ["admin"])),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn revoke(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<StatusCode, Problem> {
    let none = || Problem::not_found(format_args!("session {:?}", path.0));
    let id = SessionId::parse(&path.0).ok_or_else(none)?;
    let revoked = state.client.store().revoke_session(&id).await?.ok_or_else(none)?;
    audit.set(json!({"token": revoked.token_name, "address": revoked.address}));
    Ok(StatusCode::NO_CONTENT)
}
