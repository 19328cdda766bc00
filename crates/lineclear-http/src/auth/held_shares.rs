//! What a request uses up until its response is sent.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use super::quota::Share;

/// A share of its principal, and one of its client's address.
pub(super) type Shares = (Option<Share<String>>, Option<Share<IpAddr>>);

/// The shares of a request. A handler that waits gives them back early.
#[derive(Clone)]
pub(crate) struct HeldShares(Arc<Mutex<Shares>>);

impl HeldShares {
    pub(super) fn new(shares: Shares) -> HeldShares {
        HeldShares(Arc::new(Mutex::new(shares)))
    }

    pub(crate) fn give_back(&self) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = (None, None);
    }
}
