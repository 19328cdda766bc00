//! Requests that wait: for work, or for the end of a job. While one waits, it uses up nothing that others need.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::App;
use crate::auth::{HeldShares, Principal, Share};
use crate::listener::ConnectionSeat;
use crate::middleware::RequestDeadline;
use crate::problem::Problem;

/// Extracts what a request gives back while it waits: its connection's seat, its share of concurrent requests, its timeout.
pub(crate) struct LongPoll {
    app: App,
    principal: Option<Arc<Principal>>,
    deadline: Option<RequestDeadline>,
    shares: Option<HeldShares>,
    seat: Option<ConnectionSeat>,
}

impl LongPoll {
    /// The request waits until the result is dropped, and at most this long.
    pub(crate) fn begin(&self, within: Duration) -> Result<impl Send + use<>, Problem> {
        let share: Option<Share<String>> = match &self.principal {
            Some(principal) => self.app.guard.poll_share(principal)?,
            None => None,
        };
        let left = match &self.seat {
            Some(seat) => Some(seat.leave().ok_or_else(|| too_many(seat.max_waiting()))?),
            None => None,
        };
        if let Some(deadline) = &self.deadline {
            deadline.extend(within);
        }
        if let Some(shares) = &self.shares {
            shares.give_back();
        }
        Ok((share, left))
    }
}

fn too_many(max: usize) -> Problem {
    let detail = format!("{max} requests wait on this server, and no more may (polls); wait and try again");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "polls_max", detail)
}

impl FromRequestParts<App> for LongPoll {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<LongPoll, Infallible> {
        let extensions = &parts.extensions;
        Ok(LongPoll {
            app: app.clone(),
            principal: extensions.get::<Arc<Principal>>().cloned(),
            deadline: extensions.get::<RequestDeadline>().cloned(),
            shares: extensions.get::<HeldShares>().cloned(),
            seat: extensions.get::<ConnectionSeat>().cloned(),
        })
    }
}
