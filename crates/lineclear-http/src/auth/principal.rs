//! The caller of a request.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use lineclear::store::{KnownToken, TokenId};
use lineclear_model::{Name, Scope, Scopes};

use crate::problem::Problem;

/// The name of callers without one.
const LOCAL: &str = "local";

/// What a caller authenticated with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// Nothing: the server is open to this machine.
    None,
    /// Nothing: the caller is a program that calls the API in process.
    InProcess,
    /// A token.
    Token,
    /// The cookie of a browser that logged in with a token.
    Session,
    /// The headers of a trusted proxy.
    Proxy,
}

/// The user of a program that calls the API in process. Requests over the network cannot have it.
#[derive(Clone, Debug)]
pub(crate) struct LocalUser(pub(crate) String);

/// An authenticated caller and its scopes.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    pub(crate) credential: Credential,
    /// The name of the token or the user.
    pub(crate) name: String,
    pub(crate) token: Option<TokenId>,
    pub(crate) scopes: Scopes,
    /// The kinds whose jobs it may claim; `None`: all kinds.
    pub(crate) kinds: Option<Vec<Name>>,
}

impl Principal {
    /// A caller of an open server.
    pub(super) fn anonymous(address: IpAddr) -> Principal {
        let scopes = Scope::ALL.into_iter().collect();
        Principal {
            credential: Credential::None,
            name: address.to_string(),
            token: None,
            scopes,
            kinds: None,
        }
    }

    /// A program that calls the API in process, with the name that it gave.
    pub(super) fn in_process(user: Option<&LocalUser>) -> Principal {
        let scopes = Scope::ALL.into_iter().collect();
        let name = user.map_or_else(|| LOCAL.to_owned(), |user| user.0.clone());
        Principal { credential: Credential::InProcess, name, token: None, scopes, kinds: None }
    }

    pub(crate) fn from_token(token: &KnownToken, credential: Credential) -> Principal {
        Principal {
            credential,
            name: token.name.clone(),
            token: Some(token.id),
            scopes: token.scopes.clone(),
            kinds: token.kinds.clone(),
        }
    }

    pub(super) fn from_proxy(user: &str, scopes: Scopes) -> Principal {
        Principal { credential: Credential::Proxy, name: user.to_owned(), token: None, scopes, kinds: None }
    }

    /// The name in the audit: `token:ci`, `session:ci`, `proxy:ada`, `anonymous:127.0.0.1`, `cli:ada`, `local`.
    pub(crate) fn audit_name(&self) -> String {
        match self.credential {
            Credential::None => format!("anonymous:{}", self.name),
            Credential::InProcess => self.name.clone(),
            Credential::Token => format!("token:{}", self.name),
            Credential::Session => format!("session:{}", self.name),
            Credential::Proxy => format!("proxy:{}", self.name),
        }
    }

    /// Whose share of the server a request uses. Sessions use that of their token.
    pub(super) fn quota_key(&self) -> String {
        self.token.map_or_else(|| self.audit_name(), |id| format!("token#{id}"))
    }

    /// Whose workers a request speaks for. A token has its own, even if it has the name of an earlier one.
    pub(crate) fn worker_owner(&self) -> String {
        match self.credential {
            // This machine has several loopback addresses.
            Credential::None => LOCAL.to_owned(),
            _ => self.quota_key(),
        }
    }

    /// Whose idempotency keys a request uses. A token has its own id even if it has the name of an earlier one.
    pub(super) fn idempotency_owner(&self) -> String {
        if self.credential == Credential::None {
            // This machine has several loopback addresses, and a client may repeat its request over another one.
            return LOCAL.to_owned();
        }
        self.token.map_or_else(|| self.audit_name(), |id| format!("{}#{id}", self.audit_name()))
    }
}

/// Extracts the authenticated caller.
pub(crate) struct Caller(pub(crate) Arc<Principal>);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        let missing = || Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "authentication required");
        parts.extensions.get::<Arc<Principal>>().cloned().map(Caller).ok_or_else(missing)
    }
}
