//! A walk over JSON text that copies all but the secrets. Not over a tree: numbers, escapes and the order of keys stay.

use std::borrow::Cow;

use super::{MASK, Secrets, is_secret_name, without_passwords};

/// `text` is JSON: it was checked before.
pub(super) fn masked(text: &str, secrets: &Secrets) -> String {
    let mut walk = Walk::over(text, Purpose::Mask(secrets));
    walk.value(false);
    walk.out
}

/// Where the first string stands that is wanted, as a JSON pointer. `text` is JSON: it was checked before.
pub(super) fn find(text: &str, wanted: fn(&str) -> bool) -> Option<String> {
    let mut walk = Walk::over(text, Purpose::Find(wanted));
    walk.value(false);
    walk.found
}

enum Purpose<'a> {
    Mask(&'a Secrets),
    Find(fn(&str) -> bool),
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    path: Vec<String>,
    out: String,
    purpose: Purpose<'a>,
    found: Option<String>,
}

impl<'a> Walk<'a> {
    fn over(text: &'a str, purpose: Purpose<'a>) -> Walk<'a> {
        let out = String::with_capacity(text.len());
        Walk { text, at: 0, path: Vec::new(), out, purpose, found: None }
    }

    /// Whether this place is a secret, by its name or by a mark.
    fn is_secret(&self, by_name: bool) -> bool {
        match self.purpose {
            Purpose::Mask(secrets) => by_name || secrets.is_marked(&self.path),
            Purpose::Find(_) => false,
        }
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or_default()
    }

    fn skip_white(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// Copies one byte of punctuation, and the white space before and after it goes.
    fn punctuation(&mut self) -> u8 {
        self.skip_white();
        let byte = self.peek();
        self.out.push(char::from(byte));
        self.at += 1;
        self.skip_white();
        byte
    }

    fn value(&mut self, secret: bool) {
        self.skip_white();
        let first = self.peek();
        // Whether there is anything, and a yes or no, is no secret.
        let tells = matches!(first, b'n' | b't' | b'f');
        if !tells && self.is_secret(secret) {
            let start = self.out.len();
            self.copy();
            self.out.truncate(start);
            self.out.push_str(&format!("\"{MASK}\""));
            return;
        }
        match first {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.text(),
            _ => self.scalar(),
        }
    }

    /// A string that is no secret as a whole.
    fn text(&mut self) {
        let start = self.out.len();
        let raw = self.string();
        // What has neither is as it looks, and names no place.
        if !raw.contains('\\') && !raw.contains("://") && !raw.contains(MASK) {
            return;
        }
        let text: String = serde_json::from_str(raw).unwrap_or_default();
        match self.purpose {
            Purpose::Mask(_) => {
                if let Cow::Owned(shown) = without_passwords(&text) {
                    self.out.truncate(start);
                    self.out.push_str(&serde_json::Value::from(shown).to_string());
                }
            }
            Purpose::Find(wanted) if self.found.is_none() && wanted(&text) => {
                let step = |step: &String| format!("/{}", step.replace('~', "~0").replace('/', "~1"));
                self.found = Some(self.path.iter().map(step).collect());
            }
            Purpose::Find(_) => {}
        }
    }

    fn object(&mut self) {
        self.punctuation();
        while self.peek() == b'"' {
            let name = self.string();
            let name: String = serde_json::from_str(name).unwrap_or_default();
            self.punctuation();
            let secret = is_secret_name(&name);
            self.path.push(name);
            self.value(secret);
            self.path.pop();
            self.skip_white();
            if self.peek() == b',' {
                self.punctuation();
            }
        }
        self.punctuation();
    }

    fn array(&mut self) {
        self.punctuation();
        let mut turn = 0;
        while self.at < self.text.len() && self.peek() != b']' {
            self.path.push(turn.to_string());
            self.value(false);
            self.path.pop();
            turn += 1;
            self.skip_white();
            if self.peek() == b',' {
                self.punctuation();
            }
        }
        self.punctuation();
    }

    /// Copies a whole value as it is.
    fn copy(&mut self) {
        let mut depth = 0;
        loop {
            match self.peek() {
                b'"' => drop(self.string()),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                _ => self.scalar(),
            }
            if depth == 0 || self.at >= self.text.len() {
                return;
            }
        }
    }

    fn scalar(&mut self) {
        if self.peek() == b'"' {
            self.string();
            return;
        }
        let start = self.at;
        let ends = |byte: u8| matches!(byte, b',' | b'}' | b']' | b':') || byte.is_ascii_whitespace();
        while self.at < self.text.len() && !ends(self.peek()) {
            self.at += 1;
        }
        // Something that is no value would not move us on.
        self.at = self.at.max(start + 1).min(self.text.len());
        self.out.push_str(self.text.get(start..self.at).unwrap_or_default());
    }

    /// Copies a string, and returns it with its quotes.
    fn string(&mut self) -> &str {
        let start = self.at;
        self.at += 1;
        while self.at < self.text.len() && self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(self.text.len());
        let string = self.text.get(start..self.at).unwrap_or_default();
        self.out.push_str(string);
        string
    }
}
