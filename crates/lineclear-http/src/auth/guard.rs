//! Before every handler: who calls, and is the caller allowed to?

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRef, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lineclear::Store;
use lineclear::store::{KnownToken, Presented, SessionSecret, TokenId};
use lineclear_model::Scope;

use super::lockout::Lockout;
use super::principal::{Credential, LocalUser, Principal};
use super::rate_limit::RateLimit;
use super::required_scopes::{RequiredScopes, Requirement};
use super::token_cache::TokenCache;
use super::{Access, TrustedProxy, address_key};
use crate::idempotency::KeyOwner;
use crate::problem::Problem;

/// The liveness probe has no rate limit: an answer costs no more than a refusal.
const UNLIMITED: &str = "/livez";
/// The cookie of a browser that logged in. The prefix makes browsers refuse it from other hosts, for other paths, and without TLS.
pub(crate) const COOKIE: &str = "__Host-lineclear";

/// Authenticates and authorizes each request.
pub(crate) struct Guard {
    access: Access,
    required_scopes: RequiredScopes,
    pub(super) tokens: TokenCache,
    lockout: Lockout,
    address_rate: RateLimit<IpAddr>,
    /// By token or user.
    principal_rate: RateLimit<String>,
    /// By public route and address: a probe is not refused because of other requests of its machine.
    public_rate: RateLimit<(String, IpAddr)>,
}

impl Guard {
    /// `rate`: requests per second of one address, and of one token or user.
    pub(crate) fn new(
        access: Access,
        required_scopes: RequiredScopes,
        rate: u32,
        reading: Store,
        writing: Store,
    ) -> Arc<Guard> {
        Arc::new(Guard {
            access,
            required_scopes,
            tokens: TokenCache::new(reading, writing),
            lockout: Lockout::new(),
            address_rate: RateLimit::new(rate),
            principal_rate: RateLimit::new(rate),
            public_rate: RateLimit::new(rate),
        })
    }

    /// Whether the server is open: it authenticates no caller.
    pub(crate) fn is_open(&self) -> bool {
        self.access == Access::OpenOnLoopback
    }

    /// Refuses a token that was revoked on this server from now on.
    pub(crate) fn forget_token(&self, token: TokenId) {
        self.tokens.forget(token);
    }

    /// The caller. `None`: the request has no credentials.
    async fn authenticate(&self, request: &Parts) -> Result<Option<Principal>, Problem> {
        if self.is_open() {
            let extensions = &request.extensions;
            return Ok(Some(match extensions.get::<ConnectInfo<SocketAddr>>() {
                Some(_) => Principal::anonymous(peer(extensions)),
                None => Principal::in_process(extensions.get::<LocalUser>()),
            }));
        }
        let (peer, headers) = (peer(&request.extensions), &request.headers);
        let address = self.client_address(peer, headers);
        if let Some(wait) = self.address_rate.check(address_key(address)) {
            return Err(Problem::too_often(wait));
        }
        if let Some(token) = bearer(headers) {
            let token = self.verify(token, address).await?;
            return Ok(Some(Principal::from_token(&token, Credential::Token)));
        }
        if let Some(cookie) = session_cookie(headers) {
            // An expired session is no attack: browsers keep cookies.
            let session = match SessionSecret::parse(cookie) {
                Some(secret) => self.tokens.session(&secret).await?,
                None => None,
            };
            return Ok(session.map(|session| Principal::from_token(&session.token, Credential::Session)));
        }
        Ok(self.proxy(peer).and_then(|proxy| proxy.principal(headers)))
    }

    /// Verifies a token that this address presents. All wrong tokens get the same response.
    pub(crate) async fn verify(&self, token: &str, address: IpAddr) -> Result<Arc<KnownToken>, Problem> {
        let presented = Presented::parse(token);
        // A known token passes: another client behind the same address may be the one that fails.
        let is_cached = presented.as_ref().is_some_and(|presented| self.tokens.is_cached(presented));
        if let Some(left) = self.lockout.locked_for(address).filter(|_| !is_cached) {
            return Err(Problem::too_many_failures(left));
        }
        let verified = match &presented {
            Some(presented) => self.tokens.verify(presented).await?,
            None => None,
        };
        verified.ok_or_else(|| match self.lockout.record_failure(address) {
            Some(left) => Problem::too_many_failures(left),
            None => Problem::unauthorized("the token is unknown, expired or revoked"),
        })
    }

    /// The proxy, if the connection comes from a trusted one.
    fn proxy(&self, peer: IpAddr) -> Option<&TrustedProxy> {
        match &self.access {
            Access::TrustedProxy(proxy) => {
                proxy.peers.iter().any(|network| network.contains(peer)).then_some(proxy)
            }
            _ => None,
        }
    }

    /// The address of the client: the peer, or the address that a trusted proxy forwards.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let forwarded = || {
            let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
            last.rsplit(',').next()?.trim().parse().ok()
        };
        self.proxy(peer).and_then(|_| forwarded()).unwrap_or(peer)
    }

    /// Public routes are limited, too: they may ask the database.
    fn limit_public(&self, request: &Parts, path: &str) -> Result<(), Problem> {
        if self.is_open() || path == UNLIMITED {
            return Ok(());
        }
        let address = address_key(self.client_address(peer(&request.extensions), &request.headers));
        self.public_rate
            .check((path.to_owned(), address))
            .map_or(Ok(()), |wait| Err(Problem::too_often(wait)))
    }

    async fn authorize(&self, request: &mut Parts) -> Result<(), Problem> {
        let path = request.extensions.get::<MatchedPath>().cloned();
        let operation =
            path.as_ref().and_then(|path| self.required_scopes.find(path.as_str(), &request.method)).cloned();
        if operation.as_ref().is_some_and(|operation| operation.requirement == Requirement::Public) {
            return self.limit_public(request, path.as_ref().map_or("", MatchedPath::as_str));
        }
        let principal = self.authenticate(request).await?.ok_or_else(|| {
            Problem::unauthorized(
                "authentication required: send `Authorization: Bearer lc_…`; create a token with `lineclear token create`",
            )
        })?;
        let (operation, scope) = match (operation, &path) {
            (Some(operation), _) => match operation.requirement {
                Requirement::Scope(scope) => (operation, scope),
                Requirement::Public => return Ok(()),
            },
            // No route: the handler answers 404.
            (None, None) => return Ok(()),
            (None, Some(path)) => return Err(self.undeclared(path.as_str())),
        };
        if !principal.scopes.include(scope) {
            return Err(insufficient_scope(&principal, scope));
        }
        let limited = Some(&principal).filter(|_| !self.is_open());
        if let Some(wait) = limited.and_then(|principal| self.principal_rate.check(principal.audit_name())) {
            return Err(Problem::too_often(wait));
        }
        let is_session = principal.credential == Credential::Session;
        if is_session && !request.method.is_safe() && !names_its_origin(&request.headers) {
            let detail = "a browser must send Sec-Fetch-Site or Origin with a change";
            return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
        }
        request.extensions.insert(KeyOwner(principal.idempotency_owner()));
        request.extensions.insert(Arc::new(principal));
        request.extensions.insert(operation);
        Ok(())
    }

    /// The response where no operation is declared: 405 for another method, 403 for a route without a required scope.
    fn undeclared(&self, path: &str) -> Problem {
        match self.required_scopes.methods(path) {
            Some(methods) => {
                let detail = "this path does not support this method";
                let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail);
                match HeaderValue::from_str(&methods) {
                    Ok(methods) => problem.with(header::ALLOW, methods),
                    Err(_) => problem,
                }
            }
            None => {
                let detail = "this route does not declare the scope that it requires";
                Problem::new(StatusCode::FORBIDDEN, "undeclared", detail)
            }
        }
    }
}

/// The middleware.
pub(crate) async fn authorize(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match guard.authorize(&mut parts).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    }
}

/// Extracts the address of the client.
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for ClientAddress
where
    Arc<Guard>: FromRef<S>,
{
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ClientAddress, Self::Rejection> {
        let peer = peer(&parts.extensions);
        Ok(ClientAddress(Arc::<Guard>::from_ref(state).client_address(peer, &parts.headers)))
    }
}

/// The session cookie of a browser.
pub(crate) fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Whether the origin of a change could be checked.
fn names_its_origin(headers: &HeaderMap) -> bool {
    headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN)
}

/// The other end of the connection.
fn peer(extensions: &Extensions) -> IpAddr {
    let info = extensions.get::<ConnectInfo<SocketAddr>>();
    // Without it no proxy is trusted: no configured network consists of this address.
    info.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(address)| address.ip())
}

/// The token of the `Authorization` header.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (value, more) = (all.next()?, all.next());
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    // Two headers are ambiguous, so neither counts.
    Some(if more.is_some() { "" } else { token.trim() })
}

/// The refusal of an authenticated caller without the scope.
pub(crate) fn insufficient_scope(principal: &Principal, scope: Scope) -> Problem {
    let has = if principal.scopes.is_empty() { "none".to_owned() } else { principal.scopes.to_string() };
    let detail = format!("this requires the scope {scope}; {} has {has}", principal.audit_name());
    let problem = Problem::new(StatusCode::FORBIDDEN, "scope", detail);
    match HeaderValue::from_str(&format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"")) {
        Ok(challenge) => problem.with(header::WWW_AUTHENTICATE, challenge),
        Err(_) => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_bearer_is_read() {
        let read = |values: &[&str]| {
            let headers =
                values.iter().map(|value| (header::AUTHORIZATION, value.parse().unwrap())).collect();
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(read(&["Bearer x"]).as_deref(), Some("x"));
        assert_eq!(read(&["bearer  x "]).as_deref(), Some("x"));
        assert_eq!(read(&["Bearer x", "Bearer y"]).as_deref(), Some(""), "which one is meant?");
        for none in [&["Basic eDp5"][..], &["Bearer"], &["x"], &[""], &[]] {
            assert_eq!(read(none), None, "{none:?}");
        }
    }
}
