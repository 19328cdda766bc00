//! Sessions of browsers: log in with a token, then use a cookie.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::{NewAudit, NewSession, SessionSecret};
use lineclear_model::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::time;
use crate::auth::{COOKIE, Caller, ClientAddress, Credential, Principal, session_cookie};
use crate::middleware::request_id::RequestId;
use crate::problem::Problem;

/// How long a browser keeps the cookie; the server decides how long it is valid.
const SECONDS: u64 = 12 * 60 * 60;

/// A log-in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogInBody {
    /// A token.
    token: String,
}

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    /// The name, as in the audit.
    who: String,
    scopes: Vec<&'static str>,
    /// When the new session expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl Session {
    fn of(principal: &Principal, expires_at: Option<String>) -> Session {
        let scopes = principal.scopes.iter().map(Scope::as_str).collect();
        Session { who: principal.audit_name(), scopes, expires_at }
    }
}

/// Logs a browser in with a token. The response sets a new cookie, which is valid for twelve hours, or until the token expires. The
/// session of a cookie that the request has ends.
#[utoipa::path(
    post, path = "/session", operation_id = "log_in", tag = "session", request_body = LogInBody, security(()),
    responses((status = 201, body = Session), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn log_in(
    state: State<App>,
    from: ClientAddress,
    headers: HeaderMap,
    body: JsonBody<LogInBody>,
) -> Result<Response, Problem> {
    let (session, cookie) = begin(&state, from, &headers, &body.0.token).await?;
    Ok(with_cookie((StatusCode::CREATED, Json(session)).into_response(), &cookie))
}

/// Creates a session instead of the one that the browser has, and returns its cookie.
pub(crate) async fn begin(
    state: &App,
    from: ClientAddress,
    headers: &HeaderMap,
    token: &str,
) -> Result<(Session, String), Problem> {
    if state.guard.is_open() {
        let detail = "this server is open: there is nothing to log in to";
        return Err(Problem::new(StatusCode::CONFLICT, "open", detail));
    }
    let token = state.guard.verify(token, from.0).await?;
    let principal = Principal::from_token(&token, Credential::Session);
    // The caller is known only now, so the middleware could not write this row.
    let entry = NewAudit {
        who: principal.audit_name(),
        token: principal.token,
        action: "log_in".to_owned(),
        target: String::new(),
        request_id: RequestId::current().unwrap_or_default(),
    };
    let row = state.audit_writer.begin(entry).await?;
    let replaces = session_cookie(headers).and_then(SessionSecret::parse);
    let session = NewSession { token: token.id, address: Some(from.0.to_string()), replaces };
    let session = state.client.store().begin_session(session).await;
    let status = if matches!(session, Ok(Some(_))) { StatusCode::CREATED } else { StatusCode::UNAUTHORIZED };
    row.finish(status.as_u16(), None).await;
    let (secret, ends) = session?.ok_or_else(|| Problem::unauthorized("the token is expired or revoked"))?;
    let cookie = format!("{COOKIE}={}; Max-Age={SECONDS}; {FLAGS}", secret.expose());
    Ok((Session::of(&principal, Some(time(ends))), cookie))
}

/// Not for other sites, not for scripts, and only over TLS or to this machine.
const FLAGS: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";

pub(crate) fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Returns the caller and its scopes.
#[utoipa::path(
    get, path = "/session", operation_id = "get_session", tag = "session", security(("token" = ["read"])),
    responses((status = 200, body = Session), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(caller: Caller) -> Json<Session> {
    Json(Session::of(&caller.0, None))
}

/// Logs a browser out.
#[utoipa::path(
    delete, path = "/session", operation_id = "log_out", tag = "session", security(("token" = ["read"])),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn log_out(
    state: State<App>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let gone = end(&state, &caller, &headers).await?;
    Ok(with_cookie(StatusCode::NO_CONTENT.into_response(), &gone))
}

/// Ends the session of a browser, and returns the header that deletes its cookie.
pub(crate) async fn end(state: &App, caller: &Caller, headers: &HeaderMap) -> Result<String, Problem> {
    let secret = session_cookie(headers)
        .filter(|_| caller.0.credential == Credential::Session)
        .and_then(SessionSecret::parse);
    let Some(secret) = secret else {
        let detail = "the request has no session cookie; to revoke a token, use DELETE /api/v1/tokens/{id}";
        return Err(Problem::new(StatusCode::CONFLICT, "no_session", detail));
    };
    state.client.store().end_session(&secret).await?;
    Ok(format!("{COOKIE}=; Max-Age=0; {FLAGS}"))
}
