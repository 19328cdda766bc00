//! Connections, headers, and bad requests.

mod bad_requests;
mod connection_limits;
mod server;
mod wire;
