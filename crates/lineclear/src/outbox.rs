//! Sinks for an outbox (`lineclear-outbox`): each message becomes a job, or a signed webhook. And a route from an event log: each event becomes a
//! job ([`JobRoute`]).
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lineclear::Lineclear;
//! use lineclear::outbox::{Jobs, Outbox};
//!
//! let node = Lineclear::builder().store("postgres://shop@localhost/shop").start().await?;
//! let outbox = Outbox::open("postgres://shop@localhost/shop").await?;
//! // A message with the topic `mail.send` becomes a job of the kind `mail.send`.
//! let runner = outbox.start(Jobs::new(node.client())).await?;
//! # runner.stop().await?;
//! # node.stop().await;
//! # Ok(()) }
//! ```

mod jobs;
mod route;
#[cfg(feature = "outbound")]
mod webhook;

pub use jobs::Jobs;
pub use lineclear_outbox::*;
pub use route::JobRoute;
#[cfg(feature = "outbound")]
pub use webhook::{BadWebhook, Webhook};
