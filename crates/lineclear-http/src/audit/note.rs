//! What a handler adds to its audit row: what was before, and what is now.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde_json::Value;

/// Longest details, in bytes; longer ones are left out.
const DETAILS_BYTES_MAX: usize = 8 * 1024;

/// Where a handler leaves it. Never an input or a secret.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<Option<Value>>>);

impl Note {
    /// Says it. Said again, the last word stays.
    pub(crate) fn say(&self, details: Value) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(details);
    }

    /// What was said.
    pub(super) fn take(&self) -> Option<String> {
        let said = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        said.map(|details| details.to_string()).filter(|text| text.len() <= DETAILS_BYTES_MAX)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Note {
    type Rejection = Infallible;

    /// Where no row is written, nobody reads it.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Note, Infallible> {
        Ok(parts.extensions.get::<Note>().cloned().unwrap_or_default())
    }
}
