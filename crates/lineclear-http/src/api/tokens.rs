//! Tokens: list, create, revoke.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::{NewToken, TokenId, TokenView, WhichToken};
use lineclear_model::{Name, Scope, Scopes};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{Id, PathParam, QueryParams, id, name_at, time, unprocessable};
use crate::api::pagination::{Page, PageParams, cursor, limit};
use crate::audit::{AuditDetails, summarize};
use crate::auth::Caller;
use crate::problem::Problem;

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Token {
    id: Id,
    name: String,
    /// The public part of the token.
    prefix: String,
    /// Its scopes.
    scopes: Vec<&'static str>,
    /// The kinds whose jobs it may claim, with the scope `worker`; null: all kinds.
    kinds: Option<Vec<String>>,
    /// Whether it is valid: neither expired nor revoked.
    live: bool,
    created_at: String,
    created_by: String,
    expires_at: Option<String>,
    /// The last use, to the minute.
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
            kinds: view.kinds.as_ref().map(|kinds| kinds.iter().map(Name::to_string).collect()),
            live: view.is_live(),
            created_at: time(view.created_at),
            created_by: view.created_by.clone(),
            expires_at: view.expires_at.map(time),
            last_used_at: view.last_used_at.map(time),
            revoked_at: view.revoked_at.map(time),
        }
    }
}

/// Lists tokens, newest first, including expired and revoked ones.
#[utoipa::path(
    get, path = "/tokens", operation_id = "list_tokens", tag = "tokens", params(PageParams), security(("token" = ["admin"])),
    responses((status = 200, body = Page<Token>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<Token>>, Problem> {
    let before = cursor(params.0.cursor.as_deref(), |text| id(text, "").ok().map(TokenId))?;
    let page = state.reading.tokens(before, limit(params.0.limit)?).await?;
    Ok(Json(Page::new(page.items.iter().map(Token::of).collect(), page.next.map(|id| id.to_string()))))
}

/// Returns a token, without its secret.
#[utoipa::path(
    get, path = "/tokens/{id}", operation_id = "get_token", tag = "tokens", params(("id" = String, Path)), security(("token" = ["admin"])),
    responses((status = 200, body = Token), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, path: PathParam) -> Result<Json<Token>, Problem> {
    let token = TokenId(id(&path.0, "token")?);
    let found = state.reading.token_of(token).await?;
    Ok(Json(Token::of(&found.ok_or_else(|| Problem::not_found(format_args!("token {token}")))?)))
}

/// A new token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTokenBody {
    /// The name, unique among valid tokens.
    name: String,
    /// `read`, `operate`, `admin` or `worker`: one or more.
    scopes: Vec<String>,
    /// The kinds whose jobs it may claim: 1 to 100; only with the scope `worker`. All kinds if absent.
    #[schema(min_items = 1, max_items = 100)]
    kinds: Option<Vec<String>>,
    /// Its lifetime in milliseconds; 90 days if absent. With `null`, the token is valid until it is revoked.
    #[serde(default, deserialize_with = "present")]
    #[schema(minimum = 1000, value_type = Option<u64>)]
    expires_in_ms: Option<Option<u64>>,
}

/// The lifetime of a token that does not say otherwise: 90 days, in milliseconds.
const EXPIRES_IN_MS: u64 = 90 * 86_400_000;

/// A field that is present, possibly `null`.
fn present<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(field).map(Some)
}

/// A created token.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedToken {
    #[serde(flatten)]
    details: Token,
    /// The secret. No other response has it.
    token: String,
}

/// Creates a token. Only this response has the secret.
#[utoipa::path(
    post, path = "/tokens", operation_id = "create_token", tag = "tokens", request_body = NewTokenBody, security(("token" = ["admin"])),
    responses((status = 201, body = CreatedToken), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    body: JsonBody<NewTokenBody>,
) -> Result<Response, Problem> {
    let NewTokenBody { name, scopes, kinds, expires_in_ms } = body.0;
    let expires_in_ms = expires_in_ms.unwrap_or(Some(EXPIRES_IN_MS));
    let scopes = Scopes::parse(&scopes.join(","))
        .map_err(|bad| unprocessable("scopes", bad.to_string()).at("/scopes"))?;
    let kind = |(n, kind): (usize, &String)| name_at(kind, &format!("/kinds/{n}"));
    let bound = kinds.as_ref().map(|kinds| kinds.iter().enumerate().map(kind).collect::<Result<Vec<_>, _>>());
    let token = NewToken {
        name: name_at(&name, "/name")?,
        scopes,
        kinds: bound.transpose()?,
        lives: expires_in_ms.map(std::time::Duration::from_millis),
        created_by: caller.0.audit_name(),
    };
    let mut details =
        json!({"name": name, "scopes": token.scopes.to_string(), "expires_in_ms": expires_in_ms});
    if let Some(kinds) = kinds {
        details["kinds"] = summarize(kinds);
    }
    audit.set(details.clone());
    let created = state.client.store().create_token(token).await;
    let (view, secret) = created.map_err(|error| {
        let fields = [
            ("lives", "/expires_in_ms"),
            ("scopes", "/scopes"),
            ("token_kinds", "/kinds"),
            ("token_name", "/name"),
        ];
        Problem::of_field(error, &fields)
    })?;
    details["token"] = view.id.to_string().into();
    audit.set(details);
    let created = CreatedToken { details: Token::of(&view), token: secret.expose().to_owned() };
    let mut response = (StatusCode::CREATED, Json(created)).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/api/v1/tokens/{}", view.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Revokes a token: this server refuses it at once, others within seconds, and its sessions end.
#[utoipa::path(
    delete, path = "/tokens/{id}", operation_id = "revoke_token", tag = "tokens", params(("id" = String, Path)), security(("token" = ["admin"])),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn revoke(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<StatusCode, Problem> {
    let token = TokenId(id(&path.0, "token")?);
    let revoked = state.client.store().revoke_token(WhichToken::Id(token)).await?;
    let revoked = revoked.ok_or_else(|| Problem::not_found(format_args!("valid token {token}")))?;
    audit.set(json!({"name": revoked.name}));
    state.guard.forget_token(token);
    Ok(StatusCode::NO_CONTENT)
}
