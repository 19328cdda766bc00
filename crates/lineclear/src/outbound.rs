//! Calls to other servers, at URLs that come from data: a client that may enqueue jobs must not reach through us what it cannot
//! reach itself. With the cargo feature `outbound`.
//!
//! [`http::run`] is the handler of the kind `http`.

mod breaker;
pub(crate) mod client;
pub mod http;
mod reach;
mod sign;
mod verify;

pub(crate) use breaker::{Admission, Permit, host_of};
pub use breaker::{BreakerOptions, BreakerState, BreakerStatus, Breakers};
pub use client::{Answer, BODY_BYTES_MAX, CallError, Outbound};
pub use reach::{Reach, Unreachable};
pub use sign::{BadSecret, Secret};
pub use verify::{BadSignature, VERIFY_WINDOW, Verified, verify};
