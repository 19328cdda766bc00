//! Before every handler: who asks, and may they?

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRef, FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lineclear::Store;
use lineclear::store::{KnownToken, Presented, SessionSecret, TokenId};
use lineclear_model::{Scope, Scopes};

use super::failures::Failures;
use super::needs::{Need, Needs};
use super::rates::Rates;
use super::tokens::Tokens;
use super::who::{Person, Principal, Shown};
use super::{Access, TrustedProxy, as_one};
use crate::once;
use crate::problem::Problem;

/// Whether the process lives is said to everybody, always: to say it costs no more than to refuse it.
const FREE: &str = "/livez";
/// Longest name of a user that a proxy may say, in bytes.
const USER_BYTES_MAX: usize = 128;
/// The cookie of a browser that logged in. The prefix makes browsers refuse it from other hosts, for other paths, and without TLS.
pub(crate) const COOKIE: &str = "__Host-lineclear";
/// Words in a proxy's header that name scopes begin so: groups of other programs mean nothing here.
const SCOPE_WORDS: &str = "lineclear-";

/// What decides about each request.
pub(crate) struct Gate {
    access: Access,
    needs: Needs,
    pub(super) tokens: Tokens,
    failures: Failures,
    /// Of addresses, and of tokens and users.
    rates: (Rates<IpAddr>, Rates<String>),
    /// Of addresses, on each route that is open to everybody: a probe of a machine is not kept out by what else that machine asks.
    open: Rates<(String, IpAddr)>,
}

impl Gate {
    /// `rate`: how often one address, token or user may ask in a second.
    pub(crate) fn new(access: Access, needs: Needs, rate: u32, reading: Store, writing: Store) -> Arc<Gate> {
        let (tokens, failures) = (Tokens::new(reading, writing), Failures::default());
        let rates = (Rates::new(rate), Rates::new(rate));
        Arc::new(Gate { access, needs, tokens, failures, rates, open: Rates::new(rate) })
    }

    /// Whether it asks nobody who they are.
    pub(crate) fn is_open(&self) -> bool {
        self.access == Access::OpenOnLoopback
    }

    /// A token was revoked here: it does not count from now on.
    pub(crate) fn forget(&self, token: TokenId) {
        self.tokens.forget(token);
    }

    /// Whoever has shown who they are. `None`: they have not tried.
    async fn identify(&self, request: &Parts) -> Result<Option<Principal>, Problem> {
        if self.is_open() {
            return Ok(Some(Principal::local(request.extensions.get::<Person>())));
        }
        let (peer, headers) = (peer(&request.extensions), &request.headers);
        let address = self.client(peer, headers);
        if let Some(wait) = self.rates.0.take(as_one(address)) {
            return Err(Problem::too_often(wait));
        }
        if let Some(shown) = bearer(headers) {
            let token = self.prove(shown, address).await?;
            return Ok(Some(Principal::of(&token, Shown::Token)));
        }
        if let Some(cookie) = cookie_of(headers) {
            // One that has ended is no attack: browsers keep cookies.
            let session = match SessionSecret::parse(cookie) {
                Some(shown) => self.tokens.session(&shown).await?,
                None => None,
            };
            return Ok(session.map(|session| Principal::of(&session.token, Shown::Session)));
        }
        Ok(self.proxy(peer).and_then(|proxy| by_proxy(proxy, headers)))
    }

    /// The token that somebody at this address has shown. Every wrong one is answered alike.
    pub(crate) async fn prove(&self, shown: &str, address: IpAddr) -> Result<Arc<KnownToken>, Problem> {
        let shown = Presented::parse(shown);
        // Who is known goes on: another client behind the same address may be the one that fails.
        let is_known = shown.as_ref().is_some_and(|shown| self.tokens.is_remembered(shown));
        if let Some(left) = self.failures.too_many(address).filter(|_| !is_known) {
            return Err(Problem::too_many_failures(left));
        }
        let proved = match &shown {
            Some(shown) => self.tokens.prove(shown).await?,
            None => None,
        };
        proved.ok_or_else(|| match self.failures.note(address) {
            Some(left) => Problem::too_many_failures(left),
            None => Problem::unauthorized("this token is not known here, or counts no more"),
        })
    }

    /// The proxy, if the other end of the connection is one that is trusted.
    fn proxy(&self, peer: IpAddr) -> Option<&TrustedProxy> {
        match &self.access {
            Access::TrustedProxy(proxy) => {
                proxy.peers.iter().any(|network| network.contains(peer)).then_some(proxy)
            }
            _ => None,
        }
    }

    /// Where a request really comes from: the other end of the connection, or whom a trusted proxy names.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let named = || {
            let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
            last.rsplit(',').next()?.trim().parse().ok()
        };
        self.proxy(peer).and_then(|_| named()).unwrap_or(peer)
    }

    /// What nobody needs a name for is counted, too, where it asks the database.
    fn count_open(&self, request: &Parts, path: &str) -> Result<(), Problem> {
        if self.is_open() || path == FREE {
            return Ok(());
        }
        let address = as_one(self.client(peer(&request.extensions), &request.headers));
        self.open.take((path.to_owned(), address)).map_or(Ok(()), |wait| Err(Problem::too_often(wait)))
    }

    async fn decide(&self, request: &mut Parts) -> Result<(), Problem> {
        let path = request.extensions.get::<MatchedPath>().cloned();
        let operation =
            path.as_ref().and_then(|path| self.needs.find(path.as_str(), &request.method)).cloned();
        if operation.as_ref().is_some_and(|operation| operation.need == Need::Nothing) {
            return self.count_open(request, path.as_ref().map_or("", MatchedPath::as_str));
        }
        let principal = self.identify(request).await?.ok_or_else(|| {
            Problem::unauthorized(
                "say who you are: Authorization: Bearer lc_…; `lineclear token create` makes one",
            )
        })?;
        let (operation, needed) = match (operation, &path) {
            (Some(operation), _) => match operation.need {
                Need::Scope(scope) => (operation, scope),
                Need::Nothing => return Ok(()),
            },
            // Nothing is there, and that may be said.
            (None, None) => return Ok(()),
            (None, Some(path)) => return Err(self.undeclared(path.as_str())),
        };
        if !principal.scopes.include(needed) {
            return Err(lacks(&principal, needed));
        }
        if let Some(wait) =
            Some(&principal).filter(|_| !self.is_open()).and_then(|who| self.rates.1.take(who.who()))
        {
            return Err(Problem::too_often(wait));
        }
        if principal.shown == Shown::Session && !request.method.is_safe() && !says_its_site(&request.headers)
        {
            let detail = "a browser says where a change comes from, and this one does not";
            return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
        }
        request.extensions.insert(once::Principal(principal.unmistakable()));
        request.extensions.insert(Arc::new(principal));
        request.extensions.insert(operation);
        Ok(())
    }

    /// A path without this method; or a route that does not say what it needs, which nobody gets at.
    fn undeclared(&self, path: &str) -> Problem {
        match self.needs.methods(path) {
            Some(methods) => {
                let detail = "this path does not take that method";
                let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail);
                match HeaderValue::from_str(&methods) {
                    Ok(methods) => problem.with(header::ALLOW, methods),
                    Err(_) => problem,
                }
            }
            None => {
                Problem::new(StatusCode::FORBIDDEN, "undeclared", "this route does not say what it needs")
            }
        }
    }
}

/// The middleware.
pub(crate) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match gate.decide(&mut parts).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    }
}

/// Where a request really comes from, for handlers.
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for ClientAddress
where
    Arc<Gate>: FromRef<S>,
{
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ClientAddress, Self::Rejection> {
        let peer = peer(&parts.extensions);
        Ok(ClientAddress(Arc::<Gate>::from_ref(state).client(peer, &parts.headers)))
    }
}

/// The cookie of a browser that logged in.
pub(crate) fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Whether it was checked where a change comes from.
fn says_its_site(headers: &HeaderMap) -> bool {
    headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN)
}

/// The other end of the connection.
fn peer(extensions: &Extensions) -> IpAddr {
    let info = extensions.get::<ConnectInfo<SocketAddr>>();
    // Without it nobody is trusted: no network that can be configured has this address to itself.
    info.map_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), |ConnectInfo(address)| address.ip())
}

/// What stands after `Bearer` in the only header of that name.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (value, more) = (all.next()?, all.next());
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    // Two of them: nobody knows which is meant, so neither is.
    Some(if more.is_some() { "" } else { token.trim() })
}

fn by_proxy(proxy: &TrustedProxy, headers: &HeaderMap) -> Option<Principal> {
    let only = |name: &str| {
        let mut all = headers.get_all(name).iter();
        let value = all.next()?.to_str().ok()?;
        all.next().is_none().then_some(value)
    };
    let user = only(&proxy.user_header)?.trim();
    if user.is_empty() || user.len() > USER_BYTES_MAX || user.contains(char::is_control) {
        return None;
    }
    let scopes = match &proxy.scopes_header {
        Some(name) => only(name).map(scopes_of).unwrap_or_default(),
        None => proxy.scopes.clone(),
    };
    Some(Principal::by_proxy(user, scopes))
}

/// `lineclear-operate` among other words.
fn scopes_of(text: &str) -> Scopes {
    let words = text.split(|c: char| c == ',' || c == ';' || c.is_whitespace());
    words.filter_map(|word| word.strip_prefix(SCOPE_WORDS)).filter_map(Scope::from_word).collect()
}

/// The refusal of somebody who is known, and may not.
pub(crate) fn lacks(principal: &Principal, needed: Scope) -> Problem {
    let has = if principal.scopes.is_empty() { "none".to_owned() } else { principal.scopes.to_string() };
    let detail = format!("this needs the scope {needed}; {} has {has}", principal.who());
    let problem = Problem::new(StatusCode::FORBIDDEN, "scope", detail);
    match HeaderValue::from_str(&format!("Bearer error=\"insufficient_scope\", scope=\"{needed}\"")) {
        Ok(challenge) => problem.with(header::WWW_AUTHENTICATE, challenge),
        Err(_) => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_one_bearer_is_read() {
        let read = |values: &[&str]| {
            let lines: Vec<_> = values.iter().map(|value| ("authorization", *value)).collect();
            bearer(&headers(&lines)).map(str::to_owned)
        };
        assert_eq!(read(&["Bearer x"]).as_deref(), Some("x"));
        assert_eq!(read(&["bearer  x "]).as_deref(), Some("x"));
        assert_eq!(read(&["Bearer x", "Bearer y"]).as_deref(), Some(""), "which one is meant?");
        for none in [&["Basic eDp5"][..], &["Bearer"], &["x"], &[""], &[]] {
            assert_eq!(read(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_proxy_names_one_user_and_scopes_of_ours() {
        let mut proxy = TrustedProxy::new(Vec::new());
        proxy.scopes_header = Some("x-groups".to_owned());
        let of = |lines: &[(&'static str, &str)]| by_proxy(&proxy, &headers(lines));
        let ada = of(&[("x-forwarded-user", "ada"), ("x-groups", "staff,lineclear-operate admin")]).unwrap();
        assert_eq!((ada.who().as_str(), ada.scopes.to_string().as_str()), ("proxy:ada", "operate"));
        assert!(of(&[("x-forwarded-user", "ada")]).unwrap().scopes.is_empty(), "no groups, no scopes");
        assert!(of(&[("x-forwarded-user", "ada"), ("x-forwarded-user", "eve")]).is_none(), "two users");
        assert!(of(&[("x-forwarded-user", " ")]).is_none());
        assert!(of(&[]).is_none());
    }
}
