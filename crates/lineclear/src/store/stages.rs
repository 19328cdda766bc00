//! What the engine and people ask of the store, by the stages of a job's journey.

mod orders;

mod enqueue;

mod plan;

mod dispatch;
mod limit;

mod lease;

mod handler;

mod settle;

mod dead_letter;
mod cancel;

mod clean;

mod node;

// Beside the journey.
mod figures;
mod restamp;
mod setting;

pub use dead_letter::{DEAD_LETTERS_PER_CALL, Swept};
pub(crate) use node::Listening;
pub use orders::Edited;
