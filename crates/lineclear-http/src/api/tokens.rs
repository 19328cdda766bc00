//! Tokens: who may use this server.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::{NewToken, TokenId, TokenView, WhichToken};
use lineclear_model::{Scope, Scopes};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::page::{Page, Paging, cursor, limit};
use super::shape::{Asked, At, Id, id, name_at, time, unprocessable};
use crate::App;
use crate::access::Who;
use crate::audit::Note;
use crate::body::Body;
use crate::problem::Problem;

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Token {
    id: Id,
    name: String,
    /// The part of it that is no secret.
    prefix: String,
    /// What its owner may do.
    scopes: Vec<&'static str>,
    /// Whether it counts.
    live: bool,
    created_at: String,
    created_by: String,
    expires_at: Option<String>,
    /// To the minute.
    last_used_at: Option<String>,
    revoked_at: Option<String>,
}

impl Token {
    fn of(view: &TokenView) -> Token {
        Token {
            id: Id::of(view.id),
            name: view.name.clone(),
            prefix: view.prefix.clone(),
            scopes: view.scopes.iter().map(Scope::as_str).collect(),
            live: view.is_live(),
            created_at: time(view.created_at),
            created_by: view.created_by.clone(),
            expires_at: view.expires_at.map(time),
            last_used_at: view.last_used_at.map(time),
            revoked_at: view.revoked_at.map(time),
        }
    }
}

/// Lists tokens, newest first, those that count no more among them.
#[utoipa::path(
    get, path = "/tokens", operation_id = "list_tokens", tag = "tokens", params(Paging), security(("token" = ["admin"])),
    responses((status = 200, body = Page<Token>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Paging>) -> Result<Json<Page<Token>>, Problem> {
    let before = cursor(asked.0.cursor.as_deref(), |text| id(text, "").ok().map(TokenId))?;
    let page = state.reading.tokens(before, limit(asked.0.limit)?).await?;
    Ok(Json(Page::new(page.items.iter().map(Token::of).collect(), page.next.map(|id| id.to_string()))))
}

/// One token, without its secret.
#[utoipa::path(
    get, path = "/tokens/{id}", operation_id = "get_token", tag = "tokens", params(("id" = String, Path)), security(("token" = ["admin"])),
    responses((status = 200, body = Token), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, at: At) -> Result<Json<Token>, Problem> {
    let token = TokenId(id(&at.0, "token")?);
    let found = state.reading.token_of(token).await?;
    Ok(Json(Token::of(&found.ok_or_else(|| Problem::not_found(format_args!("token {token}")))?)))
}

/// A token to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTokenBody {
    /// No other living token has this name.
    name: String,
    /// `read`, `operate`, `admin` or `worker`: one or more.
    scopes: Vec<String>,
    /// It ends by itself after so many milliseconds; otherwise when it is revoked.
    #[schema(minimum = 1000)]
    expires_in_ms: Option<u64>,
}

/// A token that was just made.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeToken {
    #[serde(flatten)]
    made: Token,
    /// The token itself. It is not shown again.
    token: String,
}

/// Makes a token. The answer is the only place where it is ever shown.
#[utoipa::path(
    post, path = "/tokens", operation_id = "create_token", tag = "tokens", request_body = NewTokenBody, security(("token" = ["admin"])),
    responses((status = 201, body = MadeToken), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create(
    state: State<App>,
    who: Who,
    note: Note,
    body: Body<NewTokenBody>,
) -> Result<Response, Problem> {
    let NewTokenBody { name, scopes, expires_in_ms } = body.0;
    let scopes = Scopes::parse(&scopes.join(","))
        .map_err(|bad| unprocessable("scopes", bad.to_string()).at("/scopes"))?;
    let token = NewToken {
        name: name_at(&name, "/name")?,
        scopes,
        lives: expires_in_ms.map(std::time::Duration::from_millis),
        created_by: who.0.who(),
    };
    let mut said = json!({"name": name, "scopes": token.scopes.to_string(), "expires_in_ms": expires_in_ms});
    note.say(said.clone());
    let created = state.client.store().create_token(token).await;
    let (view, secret) = created.map_err(|error| {
        let fields = [("lives", "/expires_in_ms"), ("scopes", "/scopes"), ("token_name", "/name")];
        Problem::of_field(error, &fields)
    })?;
    said["token"] = view.id.to_string().into();
    note.say(said);
    let made = MadeToken { made: Token::of(&view), token: secret.expose().to_owned() };
    let mut response = (StatusCode::CREATED, Json(made)).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/tokens/{}", view.id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Revokes a token: this server refuses it at once, others within seconds, and browsers that logged in with it are logged out.
#[utoipa::path(
    delete, path = "/tokens/{id}", operation_id = "revoke_token", tag = "tokens", params(("id" = String, Path)), security(("token" = ["admin"])),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn revoke(state: State<App>, note: Note, at: At) -> Result<StatusCode, Problem> {
    let token = TokenId(id(&at.0, "token")?);
    let revoked = state.client.store().revoke_token(WhichToken::Id(token)).await?;
    let revoked = revoked.ok_or_else(|| Problem::not_found(format_args!("living token {token}")))?;
    note.say(json!({"name": revoked.name}));
    state.gate.forget(token);
    Ok(StatusCode::NO_CONTENT)
}
