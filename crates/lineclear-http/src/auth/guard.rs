//! Before every handler: who calls, and is the caller allowed to?

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, FromRef, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lineclear::Store;
use lineclear::store::{KnownToken, Presented, SessionSecret, TokenId};
use lineclear_model::Scope;
use tokio_util::sync::CancellationToken;

use super::failures::{AuthFailures, Reason};
use super::held_shares::{HeldShares, Shares};
use super::lockout::Lockout;
use super::principal::{Credential, LocalUser, Principal};
use super::quota::{Quota, Share};
use super::rate_limit::RateLimit;
use super::required_scopes::{Operation, RequiredScopes, Requirement};
use super::token_cache::{Refused, TokenCache};
use super::{Access, TrustedProxies, address_key};
use crate::idempotency::KeyOwner;
use crate::listener::ListenerLimits;
use crate::middleware::HeldBody;
use crate::problem::Problem;

/// The liveness probe has no rate limit: an answer costs no more than a refusal.
const UNLIMITED: &str = "/livez";
/// The cookie of a browser that logged in. The prefix makes browsers refuse it from other hosts, for other paths, and without TLS.
pub(crate) const COOKIE: &str = "__Host-lineclear";

/// A response that does not end by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamKind {
    Events,
    LivePage,
}

/// Authenticates and authorizes each request.
pub(crate) struct Guard {
    access: Access,
    proxies: TrustedProxies,
    failures: AuthFailures,
    required_scopes: RequiredScopes,
    pub(super) tokens: TokenCache,
    lockout: Lockout,
    address_rate: RateLimit<IpAddr>,
    /// By token or user.
    principal_rate: RateLimit<String>,
    /// By public route and address: a probe is not refused because of other requests of its machine.
    public_rate: RateLimit<(String, IpAddr)>,
    /// Concurrent requests of a token or user.
    requests: Quota<String>,
    /// Concurrent requests of a client of a proxy, which shares the proxy's connections with other clients.
    proxied_requests: Quota<IpAddr>,
    event_streams: Quota<String>,
    live_pages: Quota<String>,
    polls: Quota<String>,
}

impl Guard {
    pub(crate) fn new(
        access: Access,
        proxies: TrustedProxies,
        limits: &ListenerLimits,
        required_scopes: RequiredScopes,
        reading: Store,
        writing: Store,
    ) -> Arc<Guard> {
        let rate = limits.rate;
        Arc::new(Guard {
            access,
            proxies,
            failures: AuthFailures::new(),
            required_scopes,
            tokens: TokenCache::new(reading, writing),
            lockout: Lockout::new(),
            address_rate: RateLimit::new(rate),
            principal_rate: RateLimit::new(rate),
            public_rate: RateLimit::new(rate),
            requests: Quota::new(limits.requests_per_principal),
            proxied_requests: Quota::new(limits.connections_per_address),
            event_streams: Quota::new(limits.streams_per_principal),
            live_pages: Quota::new(limits.streams_per_principal),
            polls: Quota::new(limits.polls_per_principal),
        })
    }

    /// Tells of log lines about failed authentication that were left out, until the server ends.
    pub(crate) fn sweep_failures_until(&self, ended: CancellationToken) {
        self.failures.sweep_until(ended);
    }

    /// Whether the server is open: it authenticates no caller.
    pub(crate) fn is_open(&self) -> bool {
        self.access == Access::OpenOnLoopback
    }

    /// Refuses a token that was revoked on this server from now on.
    pub(crate) fn forget_token(&self, token: TokenId) {
        self.tokens.forget(token);
    }

    /// The caller. A token counts before a session, and a session before the user of a proxy.
    async fn authenticate(&self, request: &Parts) -> Result<Principal, Problem> {
        if self.is_open() {
            let extensions = &request.extensions;
            return Ok(match extensions.get::<ConnectInfo<SocketAddr>>() {
                Some(_) => Principal::anonymous(peer(extensions)),
                None => Principal::in_process(extensions.get::<LocalUser>()),
            });
        }
        let (peer, headers) = (peer(&request.extensions), &request.headers);
        let address = self.client_address(peer, headers);
        if let Some(wait) = self.address_rate.check(address_key(address)) {
            return Err(Problem::too_often(wait));
        }
        if let Some(token) = bearer(headers) {
            let token = self.verify(token, address).await?;
            return Ok(Principal::from_token(&token, Credential::Token));
        }
        let mut reason = Reason::NoCredentials;
        if let Some(cookie) = session_cookie(headers) {
            let session = match SessionSecret::parse(cookie) {
                Some(secret) => self.tokens.session(&secret).await?,
                None => None,
            };
            if let Some(session) = session {
                return Ok(Principal::from_token(&session.token, Credential::Session));
            }
            // An expired session is no attack: browsers keep cookies. The proxy may still name the user.
            reason = Reason::Session;
        }
        if let Access::ProxyUsers(users) = &self.access
            && users.is_named_in(headers)
        {
            let user = users.principal(headers);
            match user.filter(|_| self.proxies.sent(peer, headers)) {
                Some(user) => return Ok(user),
                None if self.proxies.sent(peer, headers) => reason = Reason::ProxyUser,
                None => reason = Reason::Proxy,
            }
        }
        self.failures.record(reason, address, None, None);
        Err(Problem::unauthorized(
            "authentication required: send `Authorization: Bearer lc_…`; create a token with `lineclear token create`",
        ))
    }

    /// Verifies a token that this address presents. All wrong tokens get the same response.
    pub(crate) async fn verify(&self, token: &str, address: IpAddr) -> Result<Arc<KnownToken>, Problem> {
        let presented = Presented::parse(token);
        let prefix = presented.as_ref().map(Presented::prefix);
        // A known token passes: another client behind the same address may be the one that fails.
        let is_cached = presented.as_ref().is_some_and(|presented| self.tokens.is_cached(presented));
        if let Some(left) = self.lockout.locked_for(address).filter(|_| !is_cached) {
            self.failures.record(Reason::LockedOut, address, prefix, None);
            return Err(Problem::too_many_failures(left));
        }
        let refused = match &presented {
            Some(presented) => match self.tokens.verify(presented).await? {
                Ok(token) => return Ok(token),
                Err(refused) => Some(refused),
            },
            None => None,
        };
        let (reason, name) = match refused {
            Some(Refused::WrongSecret(name)) => (Reason::WrongSecret, Some(name)),
            Some(Refused::Unknown) => (Reason::Unknown, None),
            None => (Reason::Malformed, None),
        };
        self.failures.record(reason, address, prefix, name.as_deref());
        Err(match self.lockout.record_failure(address) {
            Some(left) => Problem::too_many_failures(left),
            None => Problem::unauthorized("the token is unknown, expired or revoked"),
        })
    }

    /// The address of the client: the peer, or the address that a trusted proxy forwards.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        self.proxies.client_address(peer, headers)
    }

    /// One more stream of a caller. An open server does not know its callers, and does not count.
    pub(crate) fn stream_share(
        &self,
        kind: StreamKind,
        principal: &Principal,
    ) -> Result<Option<Share<String>>, Problem> {
        if self.is_open() {
            return Ok(None);
        }
        let (quota, what) = match kind {
            StreamKind::Events => (&self.event_streams, "event streams"),
            StreamKind::LivePage => (&self.live_pages, "live pages"),
        };
        quota.take(principal.quota_key()).map(Some).ok_or_else(|| {
            let (who, max) = (principal.audit_name(), quota.max());
            let detail = format!(
                "{who} has {max} {what} open, and may have no more (streams_per_principal); close one"
            );
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "streams_per_principal", detail)
        })
    }

    /// One more request of a caller that waits for work.
    pub(crate) fn poll_share(&self, principal: &Principal) -> Result<Option<Share<String>>, Problem> {
        if self.is_open() {
            return Ok(None);
        }
        self.polls.take(principal.quota_key()).map(Some).ok_or_else(|| {
            let (who, max) = (principal.audit_name(), self.polls.max());
            let detail = format!(
                "{max} requests of {who} wait for work, and it may have no more (polls_per_principal); use fewer workers with more slots"
            );
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "polls_per_principal", detail)
        })
    }

    /// Records a wrong token of a claim, and returns the refusal.
    pub(crate) fn wrong_claim_token(&self, address: IpAddr, detail: &str) -> Problem {
        self.failures.record(Reason::ClaimToken, address, None, None);
        match self.lockout.record_failure(address) {
            Some(left) => Problem::too_many_failures(left),
            None => Problem::unauthorized(detail),
        }
    }

    /// One more request of a client behind a proxy. Clients without a proxy are limited by their connections.
    fn address_share(&self, request: &Parts) -> Result<Option<Share<IpAddr>>, Problem> {
        let (peer, headers) = (peer(&request.extensions), &request.headers);
        if self.is_open() || !self.proxies.contains(peer) {
            return Ok(None);
        }
        let client = self.client_address(peer, headers);
        if self.proxies.contains(client) || client.is_loopback() {
            return Ok(None);
        }
        self.proxied_requests.take(address_key(client)).map(Some).ok_or_else(|| {
            let max = self.proxied_requests.max();
            let detail = format!("{max} requests of this address are in progress, and it may have no more (connections_per_address)");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "connections_per_address", detail)
        })
    }

    /// One more request of a caller.
    fn request_share(&self, principal: &Principal) -> Result<Share<String>, Problem> {
        self.requests.take(principal.quota_key()).ok_or_else(|| {
            let (who, max) = (principal.audit_name(), self.requests.max());
            let detail = format!(
                "{max} requests of {who} are in progress, and it may have no more (requests_per_principal)"
            );
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "requests_per_principal", detail)
        })
    }

    /// Public routes are limited, too: they may ask the database.
    fn limit_public(&self, request: &Parts, path: &str) -> Result<Shares, Problem> {
        if self.is_open() || path == UNLIMITED {
            return Ok((None, None));
        }
        let share = self.address_share(request)?;
        let address = address_key(self.client_address(peer(&request.extensions), &request.headers));
        self.public_rate
            .check((path.to_owned(), address))
            .map_or(Ok((None, share)), |wait| Err(Problem::too_often(wait)))
    }

    async fn authorize(&self, request: &mut Parts) -> Result<Shares, Problem> {
        let path = request.extensions.get::<MatchedPath>().cloned();
        let operation =
            path.as_ref().and_then(|path| self.required_scopes.find(path.as_str(), &request.method)).cloned();
        let is_for_all = |operation: &Arc<Operation>| match operation.requirement {
            // The handler checks the token of the claim.
            Requirement::Public | Requirement::ClaimToken => true,
            Requirement::Scope(_) => false,
        };
        if operation.as_ref().is_some_and(is_for_all) {
            return self.limit_public(request, path.as_ref().map_or("", MatchedPath::as_str));
        }
        let address_share = self.address_share(request)?;
        let principal = self.authenticate(request).await?;
        let (operation, scope) = match (operation, &path) {
            (Some(operation), _) => match operation.requirement {
                Requirement::Scope(scope) => (operation, scope),
                Requirement::Public | Requirement::ClaimToken => return Ok((None, address_share)),
            },
            // No route: the handler answers 404.
            (None, None) => return Ok((None, address_share)),
            (None, Some(path)) => return Err(self.undeclared(path.as_str())),
        };
        if !principal.scopes.include(scope) {
            return Err(insufficient_scope(&principal, scope));
        }
        let limited = Some(&principal).filter(|_| !self.is_open());
        if let Some(wait) = limited.and_then(|principal| self.principal_rate.check(principal.quota_key())) {
            return Err(Problem::too_often(wait));
        }
        let request_share = limited.map(|principal| self.request_share(principal)).transpose()?;
        // Browsers send cookies, and a proxy adds the user, also to what a page of another site sends.
        let may_be_browser = matches!(principal.credential, Credential::Session | Credential::Proxy);
        if may_be_browser && !request.method.is_safe() {
            require_origin(&request.headers)?;
        }
        request.extensions.insert(KeyOwner(principal.idempotency_owner()));
        request.extensions.insert(Arc::new(principal));
        request.extensions.insert(operation);
        Ok((request_share, address_share))
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
        Ok((None, None)) => next.run(Request::from_parts(parts, body)).await,
        // Until the last byte: a stream uses up its share for as long as it is open.
        Ok(shares) => {
            let shares = HeldShares::new(shares);
            parts.extensions.insert(shares.clone());
            let response = next.run(Request::from_parts(parts, body)).await;
            response.map(|body| Body::new(HeldBody::new(body, shares)))
        }
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

/// Refuses a change of a browser whose origin could not be checked.
pub(crate) fn require_origin(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let detail =
        "a browser must send Sec-Fetch-Site or Origin with a change; other programs must send a token";
    Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail))
}

/// The other end of the connection.
fn peer(extensions: &Extensions) -> IpAddr {
    let info = extensions.get::<ConnectInfo<SocketAddr>>();
    // Without it no proxy is trusted: no configured network consists of this address.
    info.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(address)| address.ip())
}

/// The token of the `Authorization` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
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
