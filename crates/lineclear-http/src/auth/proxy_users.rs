//! Users whom a trusted proxy authenticates and names in headers.

use axum::http::{HeaderMap, HeaderName};
use lineclear_model::{Scope, Scopes};

use super::{Principal, TrustedProxies};

/// Longest name of a user, in bytes.
const USER_BYTES_MAX: usize = 128;
/// The prefix of scopes in the proxy's header; groups of other programs are ignored.
const SCOPE_PREFIX: &str = "lineclear-";

/// How a trusted proxy names its users. Its headers count only on its own connections, and with the shared secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyUsers {
    /// The header that names the user.
    pub user_header: String,
    /// The header with the user's groups, separated by commas: `lineclear-read`, `lineclear-operate` and `lineclear-admin` are scopes.
    pub scopes_header: Option<String>,
    /// The scopes of every user, if there is no such header.
    pub scopes: Scopes,
}

impl Default for ProxyUsers {
    /// `X-Forwarded-User` names the user, whose scope is `read`.
    fn default() -> ProxyUsers {
        let scopes = [Scope::Read].into_iter().collect();
        ProxyUsers { user_header: "X-Forwarded-User".to_owned(), scopes_header: None, scopes }
    }
}

impl ProxyUsers {
    pub(super) fn check(&self, proxies: &TrustedProxies) -> Result<(), String> {
        if proxies.networks.is_empty() {
            return Err("auth = proxy needs an address of the proxy (trusted_proxies); otherwise every request is refused".to_owned());
        }
        for name in [Some(&self.user_header), self.scopes_header.as_ref()].into_iter().flatten() {
            name.parse::<HeaderName>().map_err(|_| format!("{name:?} is not a valid header name"))?;
        }
        if proxies.secret.is_none() {
            return Err("auth = proxy needs a secret that only the proxy knows: without it, every process that connects from an address of \
                        trusted_proxies (from 127.0.0.1: every local one) can name any user; set proxy_secret_file or \
                        LINECLEAR_PROXY_SECRET, and let the proxy send it as X-Lineclear-Proxy-Secret"
                .to_owned());
        }
        Ok(())
    }

    /// Whether a request names a user.
    pub(super) fn is_named_in(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(&self.user_header)
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

/// The scopes among the groups of a header. Names of groups may contain blanks, so only commas separate them.
fn scopes_in(text: &str) -> Scopes {
    let groups = text.split(',').map(str::trim);
    groups.filter_map(|group| group.strip_prefix(SCOPE_PREFIX)).filter_map(Scope::from_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_names_one_user_and_scopes_of_ours() {
        let proxy = ProxyUsers { scopes_header: Some("x-groups".to_owned()), ..ProxyUsers::default() };
        let of = |lines: &[(&'static str, &str)]| {
            let headers =
                lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            proxy.principal(&headers)
        };
        let ada =
            of(&[("x-forwarded-user", "ada"), ("x-groups", "staff, lineclear-operate ,admin")]).unwrap();
        assert_eq!((ada.audit_name().as_str(), ada.scopes.to_string().as_str()), ("proxy:ada", "operate"));
        let guest =
            of(&[("x-forwarded-user", "ada"), ("x-groups", "no lineclear-admin here,lineclear-admin;x")]);
        assert!(guest.unwrap().scopes.is_empty(), "a group whose name contains the word is another group");
        assert!(of(&[("x-forwarded-user", "ada")]).unwrap().scopes.is_empty(), "no groups, no scopes");
        assert!(of(&[("x-forwarded-user", "ada"), ("x-forwarded-user", "eve")]).is_none(), "two users");
        assert!(of(&[("x-forwarded-user", " ")]).is_none());
        assert!(of(&[]).is_none());
    }
}
