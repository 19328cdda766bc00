//! The fields of a declared manifest or group. Each is kept as JSON text: parsing would reorder the keys of an input and change
//! numbers that are too large.

use std::collections::BTreeMap;

use lineclear_model::secret::without_value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::store::{StoreError, StoreResult};

/// Fields by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct DeclaredFields(pub(crate) BTreeMap<String, Field>);

/// A field as JSON text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Field(Box<RawValue>);

impl DeclaredFields {
    /// The fields of a manifest or group.
    pub(crate) fn of<T: Serialize>(thing: &T) -> DeclaredFields {
        let text = serde_json::to_string(thing).expect("a manifest and a group are JSON");
        serde_json::from_str(&text).expect("a struct is an object")
    }

    /// Parses stored fields.
    pub(crate) fn parse(declared: &str) -> StoreResult<DeclaredFields> {
        let corrupt = |e: serde_json::Error| format!("declared: {}", without_value(&e.to_string()));
        serde_json::from_str(declared).map_err(|e| StoreError::Corrupt { what: corrupt(e) })
    }

    /// The text to store: equal declarations have equal texts.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("a map of JSON is JSON")
    }

    /// The manifest or group with these fields.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> StoreResult<T> {
        serde_json::from_str(&self.text())
            .map_err(|e| StoreError::Corrupt { what: without_value(&e.to_string()) })
    }

    /// The value of a string field.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.0.get(name)?.0.get()).ok()
    }

    /// The names of the fields that differ.
    pub(crate) fn differs_from(&self, other: &DeclaredFields) -> Vec<String> {
        let mut names: Vec<&String> = self.0.keys().chain(other.0.keys()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter(|name| self.0.get(*name) != other.0.get(*name)).cloned().collect()
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Field) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Field {
    /// Whether both have the same value, whatever the order of their keys. Earlier versions stored fields with sorted keys and
    /// with numbers and characters in another notation; those count as equal.
    pub(crate) fn means(&self, other: &Field) -> bool {
        let is_parsed = |one: &Field, of: &Field| {
            serde_json::from_str::<serde_json::Value>(of.0.get())
                .is_ok_and(|value| *value.to_string() == *one.0.get())
        };
        self == other
            || sorted(&self.0) == sorted(&other.0)
            || is_parsed(self, other)
            || is_parsed(other, self)
    }
}

fn sorted(json: &RawValue) -> String {
    let text = json.get();
    match text.as_bytes() {
        [b'{', ..] => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            let members = members.into_iter().map(|(name, field)| format!("{name:?}:{}", sorted(field)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        [b'[', ..] => {
            let entries: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            format!("[{}]", entries.into_iter().map(sorted).collect::<Vec<_>>().join(","))
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_as_they_were_written() {
        let text = r#"{"input":{"z":1.10,"n":12345678901234567890123,"a":1e400},"owner":"ops"}"#;
        let fields = DeclaredFields::parse(text).unwrap();
        assert_eq!((fields.text().as_str(), fields.word("owner").as_deref()), (text, Some("ops")));
        assert_eq!(fields.word("input"), None);
        let other = DeclaredFields::parse(&text.replace("0123", "0124")).unwrap();
        assert_eq!(fields.differs_from(&other), ["input"]);
        assert!(fields.differs_from(&fields).is_empty());
        assert!(!fields.0["input"].means(&other.0["input"]), "a digit is a digit, however far back");
    }

    #[test]
    fn the_order_of_keys_means_nothing() {
        let field = |text: &str| Field(RawValue::from_string(text.to_owned()).unwrap());
        assert!(
            field(r#"{"b":[{"d":1,"c":2}],"a":1e400}"#).means(&field(r#"{"a":1e400,"b":[{"c":2,"d":1}]}"#))
        );
        assert!(!field("[1,2]").means(&field("[2,1]")));
        assert!(
            field(r#"{"a":1.1,"b":"é"}"#).means(&field(r#"{"b":"\u00e9","a":1.10}"#)),
            "as it was stored before"
        );
        assert!(!field("1.1").means(&field("1.11")));
    }
}
