//! Who asks.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use lineclear::store::{KnownToken, TokenId};
use lineclear_model::{Scope, Scopes};

use crate::problem::Problem;

/// How somebody showed who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Not at all: the server is open to this machine.
    Nothing,
    /// With a token.
    Token,
    /// With the cookie of a browser that logged in with a token.
    Session,
    /// A proxy that is trusted said it.
    Proxy,
}

/// Who asks, as the program says that has the database at hand. No request from outside can have it.
#[derive(Clone, Debug)]
pub(crate) struct Person(pub(crate) String);

/// Somebody, and what they may do.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    pub(crate) shown: Shown,
    /// The token's name, or the user's.
    pub(crate) name: String,
    pub(crate) token: Option<TokenId>,
    pub(crate) scopes: Scopes,
}

impl Principal {
    /// Whoever is on this machine, of a server that asks nobody; by name if the program itself says it.
    pub(super) fn local(name: Option<&Person>) -> Principal {
        let scopes = Scope::ALL.into_iter().collect();
        let name = name.map_or_else(String::new, |person| person.0.clone());
        Principal { shown: Shown::Nothing, name, token: None, scopes }
    }

    pub(crate) fn of(token: &KnownToken, shown: Shown) -> Principal {
        Principal { shown, name: token.name.clone(), token: Some(token.id), scopes: token.scopes.clone() }
    }

    pub(super) fn by_proxy(user: &str, scopes: Scopes) -> Principal {
        Principal { shown: Shown::Proxy, name: user.to_owned(), token: None, scopes }
    }

    /// As it is written down: `token:ci`, `session:ci`, `proxy:ada`, `local`, `cli:ada`.
    pub(crate) fn who(&self) -> String {
        match self.shown {
            Shown::Nothing if self.name.is_empty() => "local".to_owned(),
            Shown::Nothing => self.name.clone(),
            Shown::Token => format!("token:{}", self.name),
            Shown::Session => format!("session:{}", self.name),
            Shown::Proxy => format!("proxy:{}", self.name),
        }
    }

    /// The same, but a token that has the name of an earlier one is another.
    pub(super) fn unmistakable(&self) -> String {
        self.token.map_or_else(|| self.who(), |id| format!("{}#{id}", self.who()))
    }
}

/// For handlers that want to know who asks.
pub(crate) struct Who(pub(crate) Arc<Principal>);

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Who, Problem> {
        let nobody = || Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "nobody knows who asks");
        parts.extensions.get::<Arc<Principal>>().cloned().map(Who).ok_or_else(nobody)
    }
}
