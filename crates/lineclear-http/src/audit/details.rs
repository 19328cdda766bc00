//! The details of an audit row, which handlers add: the values before and after a change.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Display;
use std::sync::{Arc, Mutex};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lineclear::store::{BulkMode, Created, Retried};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Longest details, in bytes; of longer ones, the row has the length only.
const DETAILS_BYTES_MAX: usize = 16 * 1024;
/// Bytes of names or ids that the details have of one list.
const LIST_BYTES_MAX: usize = 2_000;

/// Extracts the details of the current audit row. They never contain an input or a secret.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditDetails(Option<Arc<Mutex<Option<Value>>>>);

impl AuditDetails {
    /// Details that are written to a row.
    pub(super) fn new() -> AuditDetails {
        AuditDetails(Some(Arc::default()))
    }

    /// Sets the details; the last call wins.
    pub(crate) fn set(&self, details: Value) {
        self.set_with(|| details);
    }

    /// Sets the details, and computes them only if there is a row.
    pub(crate) fn set_with(&self, details: impl FnOnce() -> Value) {
        if let Some(place) = &self.0 {
            *place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(details());
        }
    }

    /// Adds a field.
    pub(crate) fn add(&self, name: &str, value: Value) {
        if let Some(place) = &self.0 {
            let mut fields = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Value::Object(object) = fields.get_or_insert_with(|| json!({})) {
                object.insert(name.to_owned(), value);
            }
        }
    }

    /// The details as JSON.
    pub(super) fn to_json(&self) -> Option<String> {
        let place = self.0.as_ref()?;
        let text = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()?.to_string();
        let is_short = text.len() <= DETAILS_BYTES_MAX;
        Some(if is_short { text } else { json!({"left_out_bytes": text.len()}).to_string() })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AuditDetails {
    type Rejection = Infallible;

    /// Without a row, the details are dropped.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<AuditDetails, Infallible> {
        Ok(parts.extensions.get::<AuditDetails>().cloned().unwrap_or_default())
    }
}

/// How summarize, and the first of them by name.
pub(crate) fn summarize<T: Display>(all: impl IntoIterator<Item = T>) -> Value {
    let (mut count, mut bytes, mut first) = (0, 0, Vec::new());
    for one in all {
        count += 1;
        if bytes <= LIST_BYTES_MAX {
            let name = one.to_string();
            bytes += name.len() + 3;
            first.extend((bytes <= LIST_BYTES_MAX).then_some(name));
        }
    }
    json!({"count": count, "first": first})
}

/// The names of fields in which two values differ; not the fields themselves, which may be secrets.
pub(crate) fn changed_fields<T: Serialize>(before: &T, after: &T) -> Vec<String> {
    // Compared as text: numbers too large for a parser, and their spelling, count as differences.
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

/// The details of a request that created something: ids, never inputs.
pub(crate) fn created_details(created: &Created) -> Value {
    match created {
        Created::Jobs(jobs) => match jobs.as_slice() {
            [one] => json!({"job": one.id.to_string()}),
            all => json!({"jobs": summarize(all.iter().map(|job| job.id))}),
        },
        Created::Run(job) => json!({"job": job.map(|job| job.to_string())}),
        Created::RunGroup(jobs) => json!({"jobs": summarize(jobs.iter().flatten().map(|(_, job)| job))}),
        Created::Backfill(done) => {
            json!({"jobs": summarize(done.iter().flat_map(|done| &done.jobs)), "known": done.as_ref().map(|done| done.known)})
        }
        Created::Retry(job, became) => match became {
            Retried::Due => json!({"became": "due", "job": job.to_string()}),
            Retried::Revived(_) => json!({"became": "revived", "job": job.to_string()}),
            Retried::Again(new) => json!({"became": "again", "job": new.to_string()}),
            Retried::InputGone | Retried::NotOver(_) | Retried::Unknown => json!({"became": null}),
        },
        Created::BulkOperation(operation) => {
            let (id, action) = (operation.id.to_string(), operation.action.as_str());
            let mut details =
                json!({"bulk_operation": id, "action": action, "q": operation.q, "total": operation.total});
            if operation.mode != BulkMode::All {
                details["mode"] = json!(operation.mode.as_str());
            }
            details
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_have_an_end() {
        let listed = summarize(1..=1000);
        assert_eq!(listed["count"], 1000);
        let first = listed["first"].as_array().unwrap();
        assert!(first.len() > 300 && first[0] == "1" && listed.to_string().len() < 3_000, "{listed}");
        assert_eq!(summarize(["a", "b"]), json!({"count": 2, "first": ["a", "b"]}));
        assert_eq!(summarize(["x".repeat(5_000)]), json!({"count": 1, "first": []}));
        let details = AuditDetails::new();
        details.set(json!("x".repeat(20_000)));
        assert_eq!(details.to_json().unwrap(), r#"{"left_out_bytes":20002}"#);
    }

    #[test]
    fn changed_fields_are_named_without_their_values() {
        let (before, after) = (json!({"a": 1, "b": "hush", "c": 1}), json!({"a": 1, "b": "canary", "d": 1}));
        assert_eq!(changed_fields(&before, &after), ["b", "c", "d"]);
    }
}
