//! Moments and dates as manifests spell them: RFC 3339 text, or TOML's own date and time without quotes.

use std::fmt;

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::Micros;

/// Text, from a string or from an unquoted TOML date.
#[derive(Debug)]
pub(crate) struct DateText(pub String);

impl<'de> Deserialize<'de> for DateText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DateText, D::Error> {
        deserializer.deserialize_any(DateTextVisitor)
    }
}

struct DateTextVisitor;

impl<'de> Visitor<'de> for DateTextVisitor {
    type Value = DateText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a date or time such as \"2026-03-29T01:00:00Z\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DateText, E> {
        Ok(DateText(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DateText, A::Error> {
        // The toml crate passes its dates as a map with a private field.
        let date = toml::value::Datetime::deserialize(MapAccessDeserializer::new(map))?;
        Ok(DateText(date.to_string()))
    }
}

/// Whether a character acts on the text around it, or on a terminal, instead of being shown: control characters, line separators, those
/// that change the direction of text, and those without a width. With them one text can look like another.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

/// The last moment that can be written: in any time zone it is in the year 9999.
pub const MOMENT_MAX: &str = "9999-12-30T22:00:00Z";

/// Reads an RFC 3339 moment.
pub fn parse_moment(text: &str) -> Result<Micros, String> {
    text.parse::<Timestamp>().map(Micros::from).map_err(|_| {
        let shown: String = text.chars().take(64).collect();
        format!("{shown:?} is not a moment: write it with its offset, like 2026-03-29T01:00:00Z or …+01:00, and not after {MOMENT_MAX}")
    })
}

pub(crate) fn moment_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Micros>, D::Error> {
    let text = Option::<DateText>::deserialize(deserializer)?;
    text.map(|text| parse_moment(&text.0).map_err(D::Error::custom)).transpose()
}

impl serde::Serialize for DateText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_are_not_shown_are_hidden_and_letters_are_not() {
        let hidden = "\u{7}\u{1b}\u{9b}\u{ad}\u{200b}\u{200c}\u{200d}\u{2028}\u{202e}\u{2060}\u{2067}\u{3164}\u{feff}\u{e0041}";
        assert!(hidden.chars().all(is_hidden), "{:?}", hidden.chars().find(|c| !is_hidden(*c)));
        let shown = "a é ü 中 한 שלום عربي ٣ 👍 1\u{202f}000 …•✓\u{a0}e\u{301}";
        assert!(!shown.contains(is_hidden), "{:?}", shown.chars().find(|c| is_hidden(*c)));
    }

    #[test]
    fn the_last_moment_can_be_written_and_the_next_second_not() {
        assert_eq!(parse_moment(MOMENT_MAX).unwrap().to_string(), MOMENT_MAX);
        let late = parse_moment("9999-12-30T22:00:01Z").unwrap_err();
        assert!(late.ends_with(&format!("not after {MOMENT_MAX}")), "{late}");
    }
}
