//! Many that want the same lock.

mod blue_green;
pub(crate) mod contend;
mod election;
mod singleton;
