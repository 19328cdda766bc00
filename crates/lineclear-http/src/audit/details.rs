//! What a handler adds to its audit row: what was before, and what is now.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Display;
use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Longest details, in bytes; of longer ones only their length is kept.
const DETAILS_BYTES_MAX: usize = 16 * 1024;
/// Bytes of names or ids that are kept of one list.
const NAMED_BYTES_MAX: usize = 2_000;

/// Where a handler leaves it. Never an input or a secret.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Option<Arc<Mutex<Option<Value>>>>);

impl Note {
    /// One that somebody reads.
    pub(super) fn new() -> Note {
        Note(Some(Arc::default()))
    }

    /// Says it. Said again, the last word stays.
    pub(crate) fn say(&self, details: Value) {
        self.say_with(|| details);
    }

    /// The same, for what need not be made where no row is written.
    pub(crate) fn say_with(&self, details: impl FnOnce() -> Value) {
        if let Some(place) = &self.0 {
            *place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(details());
        }
    }

    /// Adds a field to what is said.
    pub(crate) fn add(&self, name: &str, value: Value) {
        if let Some(place) = &self.0 {
            let mut said = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Value::Object(fields) = said.get_or_insert_with(|| json!({})) {
                fields.insert(name.to_owned(), value);
            }
        }
    }

    /// What was said.
    pub(super) fn take(&self) -> Option<String> {
        let place = self.0.as_ref()?;
        let text = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()?.to_string();
        let is_short = text.len() <= DETAILS_BYTES_MAX;
        Some(if is_short { text } else { json!({"left_out_bytes": text.len()}).to_string() })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Note {
    type Rejection = Infallible;

    /// Where no row is written, nobody reads it.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Note, Infallible> {
        Ok(parts.extensions.get::<Note>().cloned().unwrap_or_default())
    }
}

/// How many, and the first of them by name.
pub(crate) fn many<T: Display>(all: impl IntoIterator<Item = T>) -> Value {
    let (mut count, mut bytes, mut first) = (0, 0, Vec::new());
    for one in all {
        count += 1;
        if bytes <= NAMED_BYTES_MAX {
            let name = one.to_string();
            bytes += name.len() + 3;
            first.extend((bytes <= NAMED_BYTES_MAX).then_some(name));
        }
    }
    json!({"count": count, "first": first})
}

/// The fields in which two things of one shape differ; not their values, which may be secrets.
pub(crate) fn differing<T: Serialize>(before: &T, after: &T) -> Vec<String> {
    // As text: what is too large for us, and the way it is written, differ, too.
    let fields = |thing: &T| -> BTreeMap<String, Box<RawValue>> {
        let text = serde_json::to_string(thing).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    };
    let (before, after) = (fields(before), fields(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let text = |fields: &BTreeMap<String, Box<RawValue>>, name: &String| {
        fields.get(name).map(|field| field.get().to_owned())
    };
    names.into_iter().filter(|name| text(&before, name) != text(&after, name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_have_an_end() {
        let listed = many(1..=1000);
        assert_eq!(listed["count"], 1000);
        let first = listed["first"].as_array().unwrap();
        assert!(first.len() > 300 && first[0] == "1" && listed.to_string().len() < 3_000, "{listed}");
        assert_eq!(many(["a", "b"]), json!({"count": 2, "first": ["a", "b"]}));
        assert_eq!(many(["x".repeat(5_000)]), json!({"count": 1, "first": []}));
        let note = Note::new();
        note.say(json!("x".repeat(20_000)));
        assert_eq!(note.take().unwrap(), r#"{"left_out_bytes":20002}"#);
    }

    #[test]
    fn what_differs_is_named_and_not_shown() {
        let (before, after) = (json!({"a": 1, "b": "hush", "c": 1}), json!({"a": 1, "b": "canary", "d": 1}));
        assert_eq!(differing(&before, &after), ["b", "c", "d"]);
    }
}
