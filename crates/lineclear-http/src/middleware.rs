//! Middleware that is not about authentication: host and origin checks, ids, traces, timeouts, headers.

pub(crate) mod base_path;
mod failed_requests;
mod held_body;
mod host;
mod abort;
mod origin;
pub(crate) mod request_id;
mod response_headers;
pub(crate) mod trace;

pub(crate) use abort::{RequestDeadline, defect, panicked, request_timeout};
pub(crate) use failed_requests::FailedRequests;
pub(crate) use held_body::HeldBody;
pub(crate) use host::check_host;
pub(crate) use origin::check_same_origin;
pub(crate) use response_headers::security_headers;
