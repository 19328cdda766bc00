//! Masks the secrets of JSON text, finds masked ones, and puts values into their places.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::argv::Words;
use super::{MASK, SecretPlace, Secrets, is_secret_name, marker, without_passwords};
use crate::payload::BadPayload;
use crate::payload::walk::{Rules, Visitor, walk};

/// Payloads that are stored are nested less deeply.
pub(super) const RULES: Rules = Rules { depth_max: 1_000, any_string: true };

/// `text` with [`MASK`] in place of its secrets; `None`: it is not JSON.
pub(super) fn masked(text: &str, secrets: &Secrets) -> Option<String> {
    let mut masker = Masker::new(Purpose::Mask(secrets));
    // The name of a secret is no secret. A malformed marker is a value like any other.
    masker.places = marker::places(text).unwrap_or_default();
    walk(text, RULES, &mut masker).ok()?;
    Some(masker.out)
}

/// The strings and numbers that [`masked`] hides as the values of fields.
pub(super) fn hidden(text: &str, secrets: &Secrets) -> Vec<String> {
    let mut masker = Masker::new(Purpose::Mask(secrets));
    let walked = walk(text, RULES, &mut masker);
    walked.map(|()| masker.hidden).unwrap_or_default()
}

/// `text` with these values, which are JSON, in place of the nth ones.
pub(super) fn replaced(text: &str, values: &BTreeMap<usize, String>) -> Option<String> {
    let mut masker = Masker::new(Purpose::Replace(values));
    walk(text, RULES, &mut masker).ok()?;
    Some(masker.out)
}

/// `text` with other strings; `None` from `change`: the string stays as it is written.
pub(super) fn rewritten(text: &str, change: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut masker = Masker::new(Purpose::Rewrite(change));
    walk(text, RULES, &mut masker).ok()?;
    Some(masker.out)
}

/// The JSON pointer of a path.
pub(super) fn pointer(path: &[String]) -> String {
    path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Where the first wanted string is, as a JSON pointer.
pub(super) fn find(text: &str, wanted: fn(&str) -> bool) -> Option<String> {
    let mut masker = Masker::new(Purpose::Find(wanted));
    walk(text, RULES, &mut masker).ok()?;
    masker.found
}

enum Purpose<'a> {
    Mask(&'a Secrets),
    Find(fn(&str) -> bool),
    Replace(&'a BTreeMap<usize, String>),
    Rewrite(&'a dyn Fn(&str) -> Option<String>),
}

struct Masker<'a> {
    purpose: Purpose<'a>,
    out: String,
    found: Option<String>,
    hidden: Vec<String>,
    /// How many values have begun.
    count: usize,
    /// Which of them are markers, in order.
    places: Vec<SecretPlace>,
    /// The steps to the current value.
    path: Vec<String>,
    /// The values around it.
    open: Vec<Option<Array>>,
    /// How many values were open when a secret began: until it ends, its text is left out.
    secret_from: Option<usize>,
    /// How many values were open when a marker began.
    marker_from: Option<usize>,
}

#[derive(Default)]
struct Array {
    /// The index of its next entry.
    next: usize,
    words: Words,
    /// Its strings are parts of a secret.
    is_secret: bool,
}

/// Parts of a secret that may be seen: `["Bearer ", {"$secret": "api-token"}]`.
const SCHEMES: &[&str] = &["Basic ", "Bearer ", "Digest ", "Token "];

impl<'a> Masker<'a> {
    fn new(purpose: Purpose<'a>) -> Masker<'a> {
        Masker {
            purpose,
            out: String::new(),
            found: None,
            hidden: Vec::new(),
            count: 0,
            places: Vec::new(),
            path: Vec::new(),
            open: Vec::new(),
            secret_from: None,
            marker_from: None,
        }
    }

    /// Whether the current value is a secret, by its name or because a manifest marks it.
    fn is_secret(&self) -> bool {
        let Purpose::Mask(secrets) = self.purpose else { return false };
        // An index in an array has no secret name.
        let named = matches!(self.open.last(), Some(None));
        let by_name = named && self.path.last().is_some_and(|name| is_secret_name(name));
        by_name || secrets.is_marked(&self.path)
    }

    /// Whether the current value is an array with a marker: the name of a secret is shown, beside dots.
    fn has_marker(&self) -> bool {
        let inside = format!("{}/", pointer(&self.path));
        let is_direct = |rest: &str| !rest.contains('/');
        self.places.iter().any(|place| place.pointer.strip_prefix(&inside).is_some_and(is_direct))
    }

    fn push(&mut self, raw: &str) {
        if self.secret_from.is_none() {
            self.out.push_str(raw);
        }
    }

    fn push_string(&mut self, text: String) {
        self.push(&serde_json::Value::from(text).to_string());
    }
}

impl Visitor for Masker<'_> {
    fn begin(&mut self, first: u8) {
        let in_secret = matches!(self.open.last(), Some(Some(array)) if array.is_secret);
        if let Some(Some(array)) = self.open.last_mut() {
            self.path.push(array.next.to_string());
            array.next += 1;
        }
        let nth = self.count;
        self.count += 1;
        if self.marker_from.is_none() && self.places.iter().any(|place| place.nth == nth) {
            self.marker_from = Some(self.open.len());
        }
        if let Purpose::Replace(values) = self.purpose
            && let Some(value) = values.get(&nth)
        {
            self.push(value);
            self.secret_from.get_or_insert(self.open.len());
        }
        // Null, true and false are no secrets: that there is no value, or a yes or no, may be seen.
        let shown = matches!(first, b'n' | b't' | b'f');
        let mut array = (first == b'[').then(Array::default);
        if self.secret_from.is_none()
            && self.marker_from.is_none()
            && !shown
            && !(in_secret && first == b'"')
            && (in_secret || self.is_secret())
        {
            match &mut array {
                Some(array) if self.has_marker() => array.is_secret = true,
                _ => {
                    self.push(&format!("\"{MASK}\""));
                    self.secret_from = Some(self.open.len());
                }
            }
        }
        self.open.push(array);
    }

    fn end(&mut self, _first: u8) {
        self.open.pop();
        self.path.pop();
        if self.secret_from == Some(self.open.len()) {
            self.secret_from = None;
        }
        if self.marker_from == Some(self.open.len()) {
            self.marker_from = None;
        }
    }

    fn key(&mut self, key: String) -> Result<(), String> {
        self.path.push(key);
        Ok(())
    }

    fn string(&mut self, raw: &str, meaning: &str) -> Result<(), BadPayload> {
        // The string itself is open, too.
        let around = self.open.len().checked_sub(2).and_then(|at| self.open.get_mut(at));
        let as_word = around.and_then(Option::as_mut).and_then(|array| match array.is_secret {
            true => (!SCHEMES.contains(&meaning)).then(|| MASK.to_owned()),
            false => array.words.next(meaning),
        });
        match self.purpose {
            Purpose::Mask(_) if self.secret_from.is_some() => self.hidden.push(meaning.to_owned()),
            Purpose::Mask(_) => match (as_word, without_passwords(meaning)) {
                (Some(shown), _) | (None, Cow::Owned(shown)) => self.push_string(shown),
                (None, Cow::Borrowed(_)) => self.push(raw),
            },
            Purpose::Find(wanted) if self.found.is_none() && wanted(meaning) => {
                self.found = Some(pointer(&self.path));
            }
            Purpose::Find(_) => {}
            Purpose::Replace(_) => self.push(raw),
            Purpose::Rewrite(change) => match change(meaning) {
                Some(other) => self.push_string(other),
                None => self.push(raw),
            },
        }
        Ok(())
    }

    fn text(&mut self, raw: &str) -> Result<(), BadPayload> {
        let is_number = raw.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        match self.purpose {
            Purpose::Find(_) => {}
            Purpose::Mask(_) if self.secret_from.is_some() && is_number => self.hidden.push(raw.to_owned()),
            _ => self.push(raw),
        }
        Ok(())
    }
}
