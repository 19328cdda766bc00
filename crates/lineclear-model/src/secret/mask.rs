//! Masks the secrets of JSON text, and finds masked ones.

use std::borrow::Cow;

use super::{MASK, Secrets, is_secret_name, without_passwords};
use crate::payload::BadPayload;
use crate::payload::walk::{Rules, Visitor, walk};

/// Payloads that are stored are nested less deeply.
const RULES: Rules = Rules { depth_max: 1_000, any_string: true };

/// `text` with [`MASK`] in place of its secrets; `None`: it is not JSON.
pub(super) fn masked(text: &str, secrets: &Secrets) -> Option<String> {
    let mut masker = Masker::new(Purpose::Mask(secrets));
    walk(text, RULES, &mut masker).ok()?;
    Some(masker.out)
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
}

struct Masker<'a> {
    purpose: Purpose<'a>,
    out: String,
    found: Option<String>,
    /// The steps to the current value.
    path: Vec<String>,
    /// For each value around it: the index of its next entry if it is an array.
    open: Vec<Option<usize>>,
    /// How many values were open when a secret began: until it ends, its text is left out.
    secret_from: Option<usize>,
}

impl<'a> Masker<'a> {
    fn new(purpose: Purpose<'a>) -> Masker<'a> {
        let (out, path, open) = (String::new(), Vec::new(), Vec::new());
        Masker { purpose, out, found: None, path, open, secret_from: None }
    }

    /// Whether the current value is a secret, by its name or because a manifest marks it.
    fn is_secret(&self) -> bool {
        let Purpose::Mask(secrets) = self.purpose else { return false };
        // An index in an array has no secret name.
        let named = matches!(self.open.last(), Some(None));
        let by_name = named && self.path.last().is_some_and(|name| is_secret_name(name));
        by_name || secrets.is_marked(&self.path)
    }

    fn push(&mut self, raw: &str) {
        if self.secret_from.is_none() {
            self.out.push_str(raw);
        }
    }
}

impl Visitor for Masker<'_> {
    fn begin(&mut self, first: u8) {
        if let Some(Some(index)) = self.open.last_mut() {
            self.path.push(index.to_string());
            *index += 1;
        }
        // Null, true and false are no secrets: that there is no value, or a yes or no, may be seen.
        let shown = matches!(first, b'n' | b't' | b'f');
        if self.secret_from.is_none() && !shown && self.is_secret() {
            self.push(&format!("\"{MASK}\""));
            self.secret_from = Some(self.open.len());
        }
        self.open.push((first == b'[').then_some(0));
    }

    fn end(&mut self, _first: u8) {
        self.open.pop();
        self.path.pop();
        if self.secret_from == Some(self.open.len()) {
            self.secret_from = None;
        }
    }

    fn key(&mut self, key: String) -> Result<(), String> {
        self.path.push(key);
        Ok(())
    }

    fn string(&mut self, raw: &str, meaning: &str) -> Result<(), BadPayload> {
        match self.purpose {
            Purpose::Mask(_) => match without_passwords(meaning) {
                Cow::Owned(shown) => self.push(&serde_json::Value::from(shown).to_string()),
                Cow::Borrowed(_) => self.push(raw),
            },
            Purpose::Find(wanted) if self.found.is_none() && wanted(meaning) => {
                let step = |step: &String| format!("/{}", step.replace('~', "~0").replace('/', "~1"));
                self.found = Some(self.path.iter().map(step).collect());
            }
            Purpose::Find(_) => {}
        }
        Ok(())
    }

    fn text(&mut self, raw: &str) -> Result<(), BadPayload> {
        if let Purpose::Mask(_) = self.purpose {
            self.push(raw);
        }
        Ok(())
    }
}
