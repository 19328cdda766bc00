//! Failed authentication: logged without secrets and counted, so that an operator notices an attack.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lineclear::log_fold::LogFold;
use tokio_util::sync::CancellationToken;

/// Log lines of one reason in each period.
const LINES_MAX: u32 = 5;
const PERIOD: Duration = Duration::from_secs(10);
/// Failed authentication, by reason.
const FAILURES: &str = "lineclear_auth_failures_total";

/// Why a caller was not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The token of a claim is not one of ours.
    ClaimToken,
}

impl Reason {
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
            Reason::ClaimToken => "claim_token",
        }
    }

    fn is_logged(self) -> bool {
        !matches!(self, Reason::NoCredentials | Reason::Session)
    }
}

/// The record of failures. Each reason has lines of its own, so that a flood of one does not hide another.
pub(super) struct AuthFailures(Arc<LogFold<Reason>>);

impl AuthFailures {
    pub(super) fn new() -> AuthFailures {
        metrics::describe_counter!(FAILURES, "requests that were not authenticated, by reason");
        AuthFailures(Arc::new(LogFold::new(PERIOD).lines(LINES_MAX)))
    }

    /// Tells of lines that were left out until the server ends.
    pub(super) fn sweep_until(&self, ended: CancellationToken) {
        self.0.sweep_until(ended, |reason, left_out| {
            tracing::warn!(reason = reason.as_str(), left_out, "authentication failed: lines left out");
        });
    }

    /// Records a failure. `prefix` is the public part of the presented token, `token` the name of the valid token that has it.
    pub(super) fn record(&self, reason: Reason, address: IpAddr, prefix: Option<&str>, token: Option<&str>) {
        metrics::counter!(FAILURES, "reason" => reason.as_str()).increment(1);
        if reason.is_logged()
            && let Some(left_out) = self.0.note(&reason)
        {
            let reason = reason.as_str();
            tracing::warn!(%address, reason, prefix, token, left_out, "authentication failed");
        }
    }
}
