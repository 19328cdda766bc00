//! Secrets that an input names and does not contain: `{"$secret": "smtp-password"}` is stored and shown as it is written, and
//! becomes a string on the node that runs the job.

use std::collections::BTreeMap;
use std::fmt;

use super::mask::{self, RULES};
use crate::payload::BadPayload;
use crate::payload::walk::{Visitor, walk};

/// The key of the marker, and the text that stands for an unresolved secret where an input is checked before it is stored.
pub const MARKER: &str = "$secret";

/// Most secrets that an input names.
pub const MARKERS_MAX: usize = 100;

/// Longest name of a secret.
const NAME_BYTES_MAX: usize = 128;

/// The name of a secret: letters, digits, `.`, `_` and `-`, at most 128 bytes. It begins with a letter or digit, so that it is safe as
/// the name of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName(String);

/// The text is not the name of a secret. The error does not repeat it: it may be the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a secret must have 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` and `-`, and begin with a letter or digit"
)]
pub struct BadSecretName;

impl SecretName {
    /// Checks a name.
    pub fn new(text: impl Into<String>) -> Result<SecretName, BadSecretName> {
        let text = text.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let begins_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        if begins_well && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_plain) {
            Ok(SecretName(text))
        } else {
            Err(BadSecretName)
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place of an input where a secret belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPlace {
    /// Where it is, as a JSON pointer.
    pub pointer: String,
    /// Which secret.
    pub name: SecretName,
    /// How many values begin before it.
    pub(super) nth: usize,
}

/// A malformed `$secret`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer:?} {why}")]
pub struct BadMarker {
    /// Where it is, as a JSON pointer.
    pub pointer: String,
    why: String,
}

/// The secrets that an input names, in the order of the text. Text that is not JSON has none.
pub fn places(text: &str) -> Result<Vec<SecretPlace>, BadMarker> {
    // Most inputs name no secret, and need not be parsed.
    if !text.contains(MARKER) && !text.contains("\\u") {
        return Ok(Vec::new());
    }
    let mut finder = Finder::default();
    let walked = walk(text, RULES, &mut finder);
    match finder.bad {
        Some(bad) => Err(bad),
        None if walked.is_err() => Ok(Vec::new()),
        None => Ok(finder.found),
    }
}

/// `text` with a string in each of these places, which [`places`] found in it.
pub fn fill(text: &str, places: &[SecretPlace], value: impl Fn(&SecretName) -> String) -> Option<String> {
    let value = |place: &SecretPlace| (place.nth, serde_json::Value::from(value(&place.name)).to_string());
    let values: BTreeMap<usize, String> = places.iter().map(value).collect();
    mask::replaced(text, &values)
}

#[derive(Default)]
struct Finder {
    nth: usize,
    path: Vec<String>,
    open: Vec<Open>,
    found: Vec<SecretPlace>,
    bad: Option<BadMarker>,
}

/// A value that has begun and not ended.
struct Open {
    nth: usize,
    /// The index of its next entry, if it is an array.
    index: Option<usize>,
    keys: usize,
    marker: Marker,
}

enum Marker {
    /// It is no marker.
    None,
    /// It has the key; the name follows.
    Keyed,
    Named(String),
}

impl Finder {
    fn refuse(&mut self, why: impl Into<String>) {
        let pointer = mask::pointer(&self.path);
        self.bad.get_or_insert(BadMarker { pointer, why: why.into() });
    }
}

impl Visitor for Finder {
    fn begin(&mut self, first: u8) {
        if let Some(Some(index)) = self.open.last_mut().map(|open| open.index.as_mut()) {
            self.path.push(index.to_string());
            *index += 1;
        }
        let index = (first == b'[').then_some(0);
        self.open.push(Open { nth: self.nth, index, keys: 0, marker: Marker::None });
        self.nth += 1;
    }

    fn end(&mut self, _first: u8) {
        let Some(ended) = self.open.pop() else { return };
        match ended.marker {
            Marker::None => {}
            _ if ended.keys > 1 => self.refuse("must have no other key beside `$secret`"),
            Marker::Keyed => self.refuse("must have the name of a secret as `$secret`, as a string"),
            Marker::Named(name) => match SecretName::new(name) {
                Ok(_) if self.found.len() >= MARKERS_MAX => {
                    self.refuse(format!("names one secret too many: an input has at most {MARKERS_MAX}"));
                }
                Ok(name) => {
                    let pointer = mask::pointer(&self.path);
                    self.found.push(SecretPlace { pointer, name, nth: ended.nth });
                }
                Err(bad) => self.refuse(format!("names no secret: {bad}")),
            },
        }
        self.path.pop();
    }

    fn key(&mut self, key: String) -> Result<(), String> {
        if let Some(open) = self.open.last_mut() {
            open.keys += 1;
            if key == MARKER {
                open.marker = Marker::Keyed;
            }
        }
        self.path.push(key);
        Ok(())
    }

    fn string(&mut self, _raw: &str, meaning: &str) -> Result<(), BadPayload> {
        // The string itself is open, too.
        let Some(around) = self.open.len().checked_sub(2).and_then(|at| self.open.get_mut(at)) else {
            return Ok(());
        };
        if matches!(around.marker, Marker::Keyed) && self.path.last().is_some_and(|key| key == MARKER) {
            around.marker = Marker::Named(meaning.to_owned());
        }
        Ok(())
    }

    fn text(&mut self, _raw: &str) -> Result<(), BadPayload> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<(String, String)> {
        let places = places(text).unwrap();
        places.into_iter().map(|place| (place.pointer, place.name.to_string())).collect()
    }

    #[test]
    fn markers_are_found_at_any_depth_and_filled() {
        let text =
            r#"{"a":{"$secret":"smtp"},"b":[1e400,{"c/d":{"\u0024secret":"x.y-z_1"}},{"$secret":"smtp"}]}"#;
        let expected = [("/a", "smtp"), ("/b/1/c~1d", "x.y-z_1"), ("/b/2", "smtp")];
        assert_eq!(named(text), expected.map(|(pointer, name)| (pointer.to_owned(), name.to_owned())));
        let filled = fill(text, &places(text).unwrap(), |name| format!("<\"{name}\">")).unwrap();
        assert_eq!(filled, r#"{"a":"<\"smtp\">","b":[1e400,{"c/d":"<\"x.y-z_1\">"},"<\"smtp\">"]}"#);
        assert_eq!(named(r#"{"$secret":"all"}"#), [(String::new(), "all".to_owned())]);
        for none in ["{}", "[\"$secret\"]", r#"{"secret":"x"}"#, r#""\u0024secret""#, "not JSON $secret"] {
            assert_eq!(places(none), Ok(Vec::new()), "{none}");
        }
    }

    #[test]
    fn a_malformed_marker_is_refused_with_its_place() {
        for (text, place, why) in [
            (r#"{"a":{"$secret":"x","b":1}}"#, "/a", "no other key"),
            (r#"[{"b":1,"$secret":"x"}]"#, "/0", "no other key"),
            (r#"{"a":{"$secret":7}}"#, "/a", "as a string"),
            (r#"{"a":{"$secret":null}}"#, "/a", "as a string"),
            (r#"{"a":{"$secret":{"$secret":"x"}}}"#, "/a", "as a string"),
            (r#"{"a":{"$secret":["x"]}}"#, "/a", "as a string"),
            (r#"{"a":{"$secret":""}}"#, "/a", "begin with a letter"),
            (r#"{"a":{"$secret":"../etc/passwd"}}"#, "/a", "begin with a letter"),
            (r#"{"a":{"$secret":"a/b"}}"#, "/a", "letters, digits"),
            (r#"{"a":{"$secret":".hidden"}}"#, "/a", "begin with a letter"),
            (r#"{"a":{"$secret":"a\n"}}"#, "/a", "letters, digits"),
        ] {
            let bad = places(text).unwrap_err();
            assert_eq!(bad.pointer, place, "{text}");
            assert!(bad.to_string().contains(why), "{text}: {bad}");
        }
        let long = format!(r#"{{"$secret":"{}"}}"#, "x".repeat(129));
        assert!(places(&long).unwrap_err().to_string().contains("128"));
        let many = format!("[{}]", vec![r#"{"$secret":"x"}"#; 101].join(","));
        assert!(places(&many).unwrap_err().to_string().contains("at most 100"));
    }
}
