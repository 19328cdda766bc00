//! Browsers log in with a token, and have a cookie from then on.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::{NewAudit, SessionSecret};
use lineclear_model::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shape::time;
use crate::App;
use crate::access::{COOKIE, ClientAddress, Principal, Shown, Who, cookie_of};
use crate::body::Body;
use crate::problem::Problem;
use crate::request_id::RequestId;

/// How long a browser keeps the cookie; the server decides whether it counts.
const SECONDS: u64 = 12 * 60 * 60;

/// What a browser logs in with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogInBody {
    /// A token.
    token: String,
}

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    /// As the audit has it.
    who: String,
    scopes: Vec<&'static str>,
    /// When a browser that just logged in is logged out.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl Session {
    fn of(principal: &Principal, expires_at: Option<String>) -> Session {
        let scopes = principal.scopes.iter().map(Scope::as_str).collect();
        Session { who: principal.who(), scopes, expires_at }
    }
}

/// Logs a browser in with a token. The answer sets a cookie, a new one each time, for twelve hours or as long as the token counts.
#[utoipa::path(
    post, path = "/session", operation_id = "log_in", tag = "session", request_body = LogInBody, security(()),
    responses((status = 201, body = Session), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn log_in(
    state: State<App>,
    from: ClientAddress,
    body: Body<LogInBody>,
) -> Result<Response, Problem> {
    let (session, cookie) = begin(&state, from, &body.0.token).await?;
    Ok(with_cookie((StatusCode::CREATED, Json(session)).into_response(), &cookie))
}

/// A session of whoever has this token, and the cookie that stands for it.
pub(crate) async fn begin(
    state: &App,
    from: ClientAddress,
    token: &str,
) -> Result<(Session, String), Problem> {
    if state.gate.is_open() {
        let detail = "this server asks nobody who they are: there is nothing to log in to";
        return Err(Problem::new(StatusCode::CONFLICT, "open", detail));
    }
    let token = state.gate.prove(token, from.0).await?;
    let principal = Principal::of(&token, Shown::Session);
    // Only now it is known who it is: what nobody in particular does is not written down.
    let entry = NewAudit {
        who: principal.who(),
        token: principal.token,
        action: "log_in".to_owned(),
        target: String::new(),
        request_id: RequestId::current().unwrap_or_default(),
    };
    let begun = state.ledger.begin(entry).await?;
    let session = state.client.store().begin_session(token.id).await;
    let status = if matches!(session, Ok(Some(_))) { StatusCode::CREATED } else { StatusCode::UNAUTHORIZED };
    begun.end(status.as_u16(), None).await;
    let (secret, ends) = session?.ok_or_else(|| Problem::unauthorized("this token counts no more"))?;
    let cookie = format!("{COOKIE}={}; Max-Age={SECONDS}; {FLAGS}", secret.expose());
    Ok((Session::of(&principal, Some(time(ends))), cookie))
}

/// Pages of other sites do not send it, scripts do not see it, and it is sent over TLS alone (or to this machine itself).
const FLAGS: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";

pub(crate) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Who asks, and what they may do.
#[utoipa::path(
    get, path = "/session", operation_id = "get_session", tag = "session", security(("token" = ["read"])),
    responses((status = 200, body = Session), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(who: Who) -> Json<Session> {
    Json(Session::of(&who.0, None))
}

/// Logs a browser out.
#[utoipa::path(
    delete, path = "/session", operation_id = "log_out", tag = "session", security(("token" = ["read"])),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn log_out(state: State<App>, who: Who, headers: HeaderMap) -> Result<Response, Problem> {
    let gone = end(&state, &who, &headers).await?;
    Ok(with_cookie(StatusCode::NO_CONTENT.into_response(), &gone))
}

/// Ends the session of a browser, and returns what takes its cookie away.
pub(crate) async fn end(state: &App, who: &Who, headers: &HeaderMap) -> Result<String, Problem> {
    let shown = cookie_of(headers).filter(|_| who.0.shown == Shown::Session).and_then(SessionSecret::parse);
    let Some(shown) = shown else {
        let detail = "no browser asks here; a token is revoked with DELETE /api/v1/tokens/{id}";
        return Err(Problem::new(StatusCode::CONFLICT, "no_session", detail));
    };
    state.client.store().end_session(&shown).await?;
    Ok(format!("{COOKIE}=; Max-Age=0; {FLAGS}"))
}
