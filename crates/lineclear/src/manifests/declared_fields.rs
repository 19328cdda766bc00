//! What is said of a thing, field by field. Each field is text: in a parsed tree an input would have its keys in another order, and numbers
//! that are too large for us would be others, or none at all.

use std::collections::BTreeMap;

use lineclear_model::secret::without_value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::store::{StoreError, StoreResult};

/// The fields of a thing by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Said(pub(crate) BTreeMap<String, Field>);

/// JSON, as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Field(Box<RawValue>);

impl Said {
    /// All that a thing says.
    pub(crate) fn by<T: Serialize>(thing: &T) -> Said {
        let text = serde_json::to_string(thing).expect("a manifest and a group are JSON");
        serde_json::from_str(&text).expect("a struct is an object")
    }

    /// What was stored.
    pub(crate) fn parse(declared: &str) -> StoreResult<Said> {
        let corrupt = |e: serde_json::Error| format!("declared: {}", without_value(&e.to_string()));
        serde_json::from_str(declared).map_err(|e| StoreError::Corrupt { what: corrupt(e) })
    }

    /// To be stored: equal declarations are equal texts.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("a map of JSON is JSON")
    }

    /// The thing that says so.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> StoreResult<T> {
        serde_json::from_str(&self.text())
            .map_err(|e| StoreError::Corrupt { what: without_value(&e.to_string()) })
    }

    /// A field that is a text.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.0.get(name)?.0.get()).ok()
    }

    /// The fields in which it is not as another one is written.
    pub(crate) fn differs_from(&self, other: &Said) -> Vec<String> {
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
    /// Whether both mean the same, whatever the order of their keys. What was stored by versions that sorted them, and wrote numbers and
    /// letters in their own way, is not news.
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
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
            let fields = fields.into_iter().map(|(name, field)| format!("{name:?}:{}", sorted(field)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
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
    fn what_is_said_stays_as_it_was_written() {
        let text = r#"{"input":{"z":1.10,"n":12345678901234567890123,"a":1e400},"owner":"ops"}"#;
        let said = Said::parse(text).unwrap();
        assert_eq!((said.text().as_str(), said.word("owner").as_deref()), (text, Some("ops")));
        assert_eq!(said.word("input"), None);
        let other = Said::parse(&text.replace("0123", "0124")).unwrap();
        assert_eq!(said.differs_from(&other), ["input"]);
        assert!(said.differs_from(&said).is_empty());
        assert!(!said.0["input"].means(&other.0["input"]), "a digit is a digit, however far back");
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
