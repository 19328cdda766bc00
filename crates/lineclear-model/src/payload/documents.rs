//! Payloads inside other documents: as written in JSON, translated from TOML.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::Payload;

/// The name by which `serde_json` knows that text is wanted as written. Any other format sees a plain
/// newtype.
const RAW_JSON: &str = "$serde_json::private::RawValue";

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        let text = deserializer.deserialize_newtype_struct(RAW_JSON, RawOrToml)?;
        Payload::parse(&text).map_err(D::Error::custom)
    }
}

/// JSON as written, or a TOML value.
struct RawOrToml;

impl<'de> Visitor<'de> for RawOrToml {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let _token: Option<String> = map.next_key()?;
        map.next_value::<String>()
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let value = toml::Value::deserialize(deserializer)?;
        json(value).map(|json| json.to_string()).map_err(D::Error::custom)
    }
}

fn json(value: toml::Value) -> Result<serde_json::Value, String> {
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .ok_or_else(|| format!("payload: JSON has no {number}"))?
            .into(),
        toml::Value::Boolean(yes) => yes.into(),
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Array(values) => {
            serde_json::Value::Array(values.into_iter().map(json).collect::<Result<_, _>>()?)
        }
        toml::Value::Table(table) => {
            let fields = table.into_iter().map(|(key, value)| Ok((key, json(value)?)));
            serde_json::Value::Object(fields.collect::<Result<_, String>>()?)
        }
    })
}
