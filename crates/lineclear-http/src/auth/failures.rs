//! Failed authentication: logged without secrets and counted, so that an operator notices an attack.

use std::net::IpAddr;

use crate::middleware::FoldedLog;

/// Log lines of one reason in ten seconds.
const LINES_MAX: u32 = 5;
/// Failed authentication, by reason.
const FAILURES: &str = "lineclear_auth_failures_total";

/// Why a caller was not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The request has no credentials. Browsers begin like that, so it is counted and not logged.
    NoCredentials,
    /// The session expired or was ended. Browsers keep cookies, so it is counted and not logged.
    Session,
    /// The text is no token.
    Malformed,
    /// No valid token has the prefix: it is unknown, expired or revoked.
    Unknown,
    /// A valid token has the prefix, and another secret.
    WrongSecret,
    /// The address presented too many wrong tokens.
    LockedOut,
    /// A request names a user, and comes from no proxy or lacks its secret.
    Proxy,
    /// The proxy names no user, or several.
    ProxyUser,
}

impl Reason {
    const ALL: [Reason; 8] = [
        Reason::NoCredentials,
        Reason::Session,
        Reason::Malformed,
        Reason::Unknown,
        Reason::WrongSecret,
        Reason::LockedOut,
        Reason::Proxy,
        Reason::ProxyUser,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Reason::NoCredentials => "no_credentials",
            Reason::Session => "session",
            Reason::Malformed => "malformed",
            Reason::Unknown => "unknown",
            Reason::WrongSecret => "wrong_secret",
            Reason::LockedOut => "locked_out",
            Reason::Proxy => "proxy",
            Reason::ProxyUser => "proxy_user",
        }
    }

    fn is_logged(self) -> bool {
        !matches!(self, Reason::NoCredentials | Reason::Session)
    }
}

/// The record of failures. Each reason has lines of its own, so that a flood of one does not hide another.
pub(super) struct AuthFailures(Vec<(Reason, FoldedLog)>);

impl AuthFailures {
    pub(super) fn new() -> AuthFailures {
        metrics::describe_counter!(FAILURES, "requests that were not authenticated, by reason");
        AuthFailures(
            Reason::ALL.map(|reason| (reason, FoldedLog::new("authentication failed", LINES_MAX))).into(),
        )
    }

    /// Records a failure. `prefix` is the public part of the presented token, `token` the name of the valid token that has it.
    pub(super) fn record(&self, reason: Reason, address: IpAddr, prefix: Option<&str>, token: Option<&str>) {
        metrics::counter!(FAILURES, "reason" => reason.as_str()).increment(1);
        let log = self.0.iter().find(|(of, _)| *of == reason && reason.is_logged());
        if let Some((_, log)) = log {
            log.write(|| {
                tracing::warn!(%address, reason = reason.as_str(), prefix, token, "authentication failed");
            });
        }
    }
}
