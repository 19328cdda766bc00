//! What a handler gets beside its transaction.

use lineclear_lock::Epoch;

use crate::events::Event;

/// Events that are handled in one transaction, in order.
#[derive(Clone, Debug)]
pub struct Page {
    /// The events; at least one.
    pub events: Vec<Event>,
    /// The subscription.
    pub subscription: String,
    /// Its version: 1, and one more for each rebuild. Versions have tables of their own.
    pub version: i32,
    /// Whether it is a rebuild in the shadow of another version.
    pub is_rebuild: bool,
    /// The number of the runner. It grows with each change of runner.
    pub epoch: Epoch,
}
