//! Payloads inside other documents: as they are in JSON, translated from TOML.

use std::fmt::{self, Write as _};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{PAYLOAD_BYTES_MAX, Payload};

/// The name by which `serde_json` knows that text is wanted as written. Any other format sees a plain
/// newtype.
const RAW_JSON: &str = "$serde_json::private::RawValue";

/// The key under which `toml` hands over its dates.
const TOML_DATE: &str = "$__toml_private_datetime";

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        let text = deserializer.deserialize_newtype_struct(RAW_JSON, RawOrAny)?;
        Payload::parse(&text).map_err(D::Error::custom)
    }
}

/// JSON as written where the format can give it, and otherwise whatever value is there.
struct RawOrAny;

impl<'de> Visitor<'de> for RawOrAny {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        let _token: Option<String> = map.next_key()?;
        map.next_value::<String>()
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let mut text = String::new();
        Writer(&mut text).deserialize(deserializer)?;
        Ok(text)
    }
}

/// Writes any value as JSON.
struct Writer<'a>(&'a mut String);

impl Writer<'_> {
    fn put<E: Error>(self, text: impl fmt::Display) -> Result<(), E> {
        if self.0.len() > PAYLOAD_BYTES_MAX {
            return Err(E::custom(format!("payload: it is longer than {PAYLOAD_BYTES_MAX} bytes")));
        }
        write!(self.0, "{text}").map_err(E::custom)
    }

    fn put_string<E: Error>(self, text: &str) -> Result<(), E> {
        let quoted = serde_json::to_string(text).map_err(E::custom)?;
        self.put(quoted)
    }
}

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.put(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.put(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom(format!("payload: JSON has no {value}")));
        }
        let text = serde_json::to_string(&value).map_err(E::custom)?;
        self.put(text)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.put_string(value)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put("null")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.push('[');
        let mut first = true;
        loop {
            let before = self.0.len();
            if !first {
                self.0.push(',');
            }
            if seq.next_element_seed(Writer(self.0))?.is_none() {
                self.0.truncate(before);
                break;
            }
            first = false;
        }
        self.put("]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut first = true;
        while let Some(key) = map.next_key::<String>()? {
            if key == TOML_DATE {
                return self.put_string(&map.next_value::<String>()?);
            }
            self.0.push(if first { '{' } else { ',' });
            Writer(self.0).put_string(&key)?;
            self.0.push(':');
            map.next_value_seed(Writer(self.0))?;
            first = false;
        }
        self.put(if first { "{}" } else { "}" })
    }
}
