//! A proxy that authenticates its users and names them in headers.

use axum::http::{HeaderMap, HeaderName};
use lineclear_model::{Scope, Scopes};

use super::{Network, Principal};

/// Longest name of a user, in bytes.
const USER_BYTES_MAX: usize = 128;
/// The prefix of scopes in the proxy's header; groups of other programs are ignored.
const SCOPE_PREFIX: &str = "lineclear-";

/// A proxy that authenticates its users. Its headers count only on connections from its own addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxy {
    /// Its addresses.
    pub peers: Vec<Network>,
    /// The header that names the user.
    pub user_header: String,
    /// The header with the user's scopes: `lineclear-read`, `lineclear-operate`, `lineclear-admin`, among other words.
    pub scopes_header: Option<String>,
    /// The scopes of every user, if there is no such header.
    pub scopes: Scopes,
}

impl TrustedProxy {
    /// A proxy at these addresses; `X-Forwarded-User` names the user, whose scope is `read`.
    pub fn new(peers: Vec<Network>) -> TrustedProxy {
        let scopes = [Scope::Read].into_iter().collect();
        TrustedProxy { peers, user_header: "X-Forwarded-User".to_owned(), scopes_header: None, scopes }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.peers.is_empty() {
            return Err("a trusted proxy needs an address; otherwise every request is refused".to_owned());
        }
        for name in [Some(&self.user_header), self.scopes_header.as_ref()].into_iter().flatten() {
            name.parse::<HeaderName>().map_err(|_| format!("{name:?} is not a valid header name"))?;
        }
        Ok(())
    }

    /// The user whom the proxy names in these headers.
    pub(super) fn principal(&self, headers: &HeaderMap) -> Option<Principal> {
        let only = |name: &str| {
            let mut all = headers.get_all(name).iter();
            let value = all.next()?.to_str().ok()?;
            all.next().is_none().then_some(value)
        };
        let user = only(&self.user_header)?.trim();
        if user.is_empty() || user.len() > USER_BYTES_MAX || user.contains(char::is_control) {
            return None;
        }
        let scopes = match &self.scopes_header {
            Some(name) => only(name).map(scopes_in).unwrap_or_default(),
            None => self.scopes.clone(),
        };
        Some(Principal::from_proxy(user, scopes))
    }
}

/// The scopes among the words of a header.
fn scopes_in(text: &str) -> Scopes {
    let words = text.split(|c: char| c == ',' || c == ';' || c.is_whitespace());
    words.filter_map(|word| word.strip_prefix(SCOPE_PREFIX)).filter_map(Scope::from_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_names_one_user_and_scopes_of_ours() {
        let mut proxy = TrustedProxy::new(Vec::new());
        proxy.scopes_header = Some("x-groups".to_owned());
        let of = |lines: &[(&'static str, &str)]| {
            let headers =
                lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            proxy.principal(&headers)
        };
        let ada = of(&[("x-forwarded-user", "ada"), ("x-groups", "staff,lineclear-operate admin")]).unwrap();
        assert_eq!((ada.audit_name().as_str(), ada.scopes.to_string().as_str()), ("proxy:ada", "operate"));
        assert!(of(&[("x-forwarded-user", "ada")]).unwrap().scopes.is_empty(), "no groups, no scopes");
        assert!(of(&[("x-forwarded-user", "ada"), ("x-forwarded-user", "eve")]).is_none(), "two users");
        assert!(of(&[("x-forwarded-user", " ")]).is_none());
        assert!(of(&[]).is_none());
    }
}
