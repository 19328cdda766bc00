//! The canonical form of JSON text: without white space, and without values that databases treat differently.

use std::collections::HashSet;

use super::walk::{Rules, Visitor, walk};
use super::{BadPayload, PAYLOAD_DEPTH_MAX};

/// The canonical form of JSON text.
pub(super) fn canonical(text: &str, bytes_max: usize) -> Result<String, BadPayload> {
    let out = String::with_capacity(text.len().min(bytes_max));
    let mut canonical = Canonical { out, bytes_max, keys: Vec::new() };
    walk(text, Rules { depth_max: PAYLOAD_DEPTH_MAX, any_string: false }, &mut canonical)?;
    Ok(canonical.out)
}

struct Canonical {
    out: String,
    bytes_max: usize,
    /// The keys of each open object.
    keys: Vec<HashSet<String>>,
}

impl Visitor for Canonical {
    fn begin(&mut self, first: u8) {
        if first == b'{' {
            self.keys.push(HashSet::new());
        }
    }

    fn end(&mut self, first: u8) {
        if first == b'{' {
            self.keys.pop();
        }
    }

    fn key(&mut self, key: String) -> Result<(), String> {
        let Some(keys) = self.keys.last_mut() else { return Ok(()) };
        if keys.contains(&key) {
            let shown: String = key.chars().take(40).collect();
            return Err(format!("the key {shown:?} occurs twice"));
        }
        keys.insert(key);
        Ok(())
    }

    fn string(&mut self, raw: &str, _meaning: &str) -> Result<(), BadPayload> {
        self.text(raw)
    }

    fn text(&mut self, raw: &str) -> Result<(), BadPayload> {
        if self.out.len() + raw.len() > self.bytes_max {
            return Err(BadPayload::new(format!("must not be longer than {} bytes", self.bytes_max)));
        }
        self.out.push_str(raw);
        Ok(())
    }
}
