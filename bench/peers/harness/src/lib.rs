//! What all programs of `make bench-peers` have in common: the command line, the clock and the answer.
//!
//! Each program measures one job queue and implements [`Peer`]; [`run`] does the rest, so that every queue is measured by the same code.
//! (`bench/peers/node/harness.mjs` does the same for the queues of Node.)
//!
//! ```text
//! PROGRAM setup    --url URL                                creates the tables
//! PROGRAM fill     --url URL --jobs N                       enqueues jobs; is not timed
//! PROGRAM drain    --url URL --jobs N --seconds S --best    works off a full queue, for S seconds at most
//! PROGRAM end      --url URL --jobs N --seconds S --best    enqueues in bulk while it works off
//! PROGRAM single   --url URL --seconds S --callers C --best enqueues one job per call
//! PROGRAM bulk     --url URL --seconds S --best             enqueues many jobs per call
//! PROGRAM latency  --url URL --jobs N --seconds S --best    from the call of enqueue to the handler, while nothing else happens
//! PROGRAM describe --best                                   version and settings
//! ```
//!
//! `--default` instead of `--best` takes the settings that a queue has when nothing is set. Each prints one JSON object.
#![forbid(unsafe_code)]

mod answer;
mod measure;
mod peer;
mod request;
mod runs;

pub use answer::Answer;
pub use measure::run;
pub use peer::{Bulk, Peer, locked_version};
pub use request::{Request, Settings, Verb};
pub use runs::Runs;

/// The input of all jobs.
pub const INPUT: &str = r#"{"to":"ops"}"#;
