//! The body of a call.

use axum::http::StatusCode;
use serde::Deserialize;

use crate::endpoint::reply::Refusal;
use crate::wire::job::HandedJob;

/// The version of calls that this worker understands.
const VERSION: u32 = 1;

/// A job that was pushed.
#[derive(Debug)]
pub(super) struct Pushed {
    pub(super) job: HandedJob,
    /// Where the worker reports about this claim.
    pub(super) callback: Option<String>,
}

impl Pushed {
    pub(super) fn read(body: &[u8]) -> Result<Pushed, Refusal> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        #[derive(Deserialize)]
        struct Callback {
            callback: Option<String>,
        }
        let unreadable = |error: serde_json::Error| {
            Refusal::new(StatusCode::BAD_REQUEST, "bad_call", format!("the call cannot be read: {error}"))
        };
        let Version { version } = serde_json::from_slice(body).map_err(unreadable)?;
        if version != VERSION {
            let detail =
                format!("this worker understands version {VERSION} of calls, and not {version}; update it");
            // Not a refusal of the job: another worker may understand it.
            return Err(Refusal::new(StatusCode::NOT_FOUND, "unknown_version", detail));
        }
        let job = serde_json::from_slice(body).map_err(unreadable)?;
        let Callback { callback } = serde_json::from_slice(body).map_err(unreadable)?;
        Ok(Pushed { job, callback })
    }
}
