//! JSON of the API: printed exactly as received, and parsed as far as possible.

use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Values nested deeper than this are printed but not parsed. Inputs and outputs are never as deep.
const DEPTH_MAX: usize = 128;

/// A JSON document. It is read like a [`Value`]; because that reorders keys and cannot hold large numbers, the original text is what is
/// printed.
#[derive(Clone, Debug)]
pub(crate) struct Json {
    text: Box<RawValue>,
    value: Value,
}

impl Json {
    pub(crate) fn parse(text: String) -> Result<Json, serde_json::Error> {
        RawValue::from_string(text).map(Json::of)
    }

    fn of(text: Box<RawValue>) -> Json {
        let value = read(&text, 0);
        Json { text, value }
    }

    /// The original text.
    pub(crate) fn text(&self) -> &str {
        self.text.get()
    }

    /// A field of an object, with its original text.
    pub(crate) fn field(&self, name: &str) -> Option<Json> {
        let fields: Fields = serde_json::from_str(self.text()).ok()?;
        let (_, field) = fields.0.into_iter().find(|(there, _)| there == name)?;
        Some(Json::of(field.to_owned()))
    }

    /// The entries of a field that is a list, with their original text.
    pub(crate) fn entries(&self, name: &str) -> Vec<Json> {
        let Some(list) = self.field(name) else { return Vec::new() };
        let entries: Vec<&RawValue> = serde_json::from_str(list.text()).unwrap_or_default();
        entries.into_iter().map(|entry| Json::of(entry.to_owned())).collect()
    }

    /// Sets a field of the object; a field that exists keeps its position.
    pub(crate) fn with(&self, name: &str, value: &Json) -> Json {
        let mut fields: Fields = serde_json::from_str(self.text()).unwrap_or_default();
        match fields.0.iter_mut().find(|(there, _)| there == name) {
            Some((_, field)) => *field = &value.text,
            None => fields.0.push((name.to_owned(), &value.text)),
        }
        let fields: Vec<String> =
            fields.0.iter().map(|(name, field)| format!("{}:{field}", Value::from(name.as_str()))).collect();
        Json::written(format!("{{{}}}", fields.join(",")))
    }

    /// A list of these documents.
    pub(crate) fn list<'a>(entries: impl Iterator<Item = &'a Json>) -> Json {
        let entries: Vec<&str> = entries.map(Json::text).collect();
        Json::written(format!("[{}]", entries.join(",")))
    }

    fn written(text: String) -> Json {
        Json::parse(text).expect("parts of JSON make JSON")
    }
}

/// Parses what it can. A number that is too large becomes its text.
fn read(raw: &RawValue, depth: usize) -> Value {
    let text = raw.get();
    // The fast path: everything fits into a `Value`.
    if let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    match text.as_bytes() {
        _ if depth == DEPTH_MAX => Value::Null,
        [b'{', ..] => {
            let fields: Fields = serde_json::from_str(text).unwrap_or_default();
            Value::Object(fields.0.into_iter().map(|(name, field)| (name, read(field, depth + 1))).collect())
        }
        [b'[', ..] => {
            let entries: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            Value::Array(entries.into_iter().map(|entry| read(entry, depth + 1)).collect())
        }
        _ => Value::String(text.to_owned()),
    }
}

/// The fields of an object, in order.
#[derive(Default)]
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields<'de>, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Fields::default();
                while let Some(field) = map.next_entry()? {
                    fields.0.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Json {
        Json::written(value.to_string())
    }
}

impl Default for Json {
    /// `null`.
    fn default() -> Json {
        Json::from(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn numbers_that_are_too_large_stay_unchanged() {
        let text = r#"{"z":[1.10,{"n":1e400}],"id":"7","a":12345678901234567890123,"é":true}"#;
        let job = json(&format!(" {text}\n"));
        assert_eq!(job.text(), text);
        assert_eq!(job.get("id").and_then(Value::as_str), Some("7"));
        assert_eq!(job.pointer("/z/1/n").and_then(Value::as_str), Some("1e400"));
        assert_eq!(job.get("é").and_then(Value::as_bool), Some(true));
        assert_eq!(job.field("z").unwrap().text(), r#"[1.10,{"n":1e400}]"#);
        assert_eq!(job.entries("z")[1].text(), r#"{"n":1e400}"#);
        assert!(
            job.field("none").is_none() && job.entries("none").is_empty() && job.entries("id").is_empty()
        );
        assert_eq!(serde_json::to_string(&job).unwrap(), text);
        assert!(Json::parse("{\"a\": 1".to_owned()).is_err());
    }

    #[test]
    fn a_field_replaces_the_previous_one() {
        let page = json(r#"{"next":"4","items":[1.10],"of \"all\"":1e400}"#);
        let all = Json::list([json("1.10"), json("2e2")].iter());
        assert_eq!(page.with("items", &all).text(), r#"{"next":"4","items":[1.10,2e2],"of \"all\"":1e400}"#);
        assert_eq!(json("{}").with("items", &all).text(), r#"{"items":[1.10,2e2]}"#);
    }

    #[test]
    fn deeply_nested_json_does_no_harm() {
        for depth in [100, 100_000] {
            let deep = format!("{{\"id\":\"7\",\"input\":{}1e400{}}}", "[".repeat(depth), "]".repeat(depth));
            let job = json(&deep);
            assert_eq!((job.get("id").and_then(Value::as_str), job.text()), (Some("7"), deep.as_str()));
        }
    }
}
