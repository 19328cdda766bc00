//! Reads JSON text once and writes its canonical form. A parser of our own, because every other one has
//! already decided what a number is and which of two equal keys wins.

use std::collections::HashSet;

use super::PAYLOAD_DEPTH_MAX;

/// Why a text is not a payload, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("payload: {what}")]
pub struct BadPayload {
    what: String,
}

impl BadPayload {
    pub(super) fn new(what: impl Into<String>) -> BadPayload {
        BadPayload { what: what.into() }
    }
}

/// The canonical form of JSON text.
pub(super) fn canonical(text: &str, bytes_max: usize) -> Result<String, BadPayload> {
    let mut scan = Scan { text, at: 0, out: String::with_capacity(text.len().min(bytes_max)), bytes_max };
    scan.value(0)?;
    scan.space();
    if scan.at < text.len() {
        return Err(scan.expected("nothing after the value"));
    }
    Ok(scan.out)
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    out: String,
    bytes_max: usize,
}

impl<'a> Scan<'a> {
    fn value(&mut self, depth: usize) -> Result<(), BadPayload> {
        self.space();
        match self.peek() {
            Some(b'{' | b'[') if depth == PAYLOAD_DEPTH_MAX => {
                Err(self.bad(format!("arrays and objects may stand {PAYLOAD_DEPTH_MAX} levels deep")))
            }
            Some(b'{') => self.list(b'}', depth, &mut HashSet::new()),
            Some(b'[') => self.list(b']', depth, &mut HashSet::new()),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => match ["true", "false", "null"]
                .into_iter()
                .find(|word| self.text[self.at..].starts_with(word))
            {
                Some(word) => self.keep(word.len()),
                None => Err(self.expected("a value")),
            },
        }
    }

    /// An array, or an object if it closes with `}`.
    fn list(&mut self, close: u8, depth: usize, keys: &mut HashSet<String>) -> Result<(), BadPayload> {
        self.keep(1)?;
        self.space();
        if self.peek() == Some(close) {
            return self.keep(1);
        }
        loop {
            if close == b'}' {
                self.key(keys)?;
            }
            self.value(depth + 1)?;
            self.space();
            match self.peek() {
                Some(b',') => self.keep(1)?,
                Some(byte) if byte == close => return self.keep(1),
                _ => return Err(self.expected(&format!("`,` or `{}`", char::from(close)))),
            }
        }
    }

    fn key(&mut self, keys: &mut HashSet<String>) -> Result<(), BadPayload> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in double quotes"));
        }
        let start = self.at;
        let key = self.string()?;
        if keys.contains(&key) {
            self.at = start;
            let shown: String = key.chars().take(40).collect();
            return Err(self.bad(format!("the key {shown:?} occurs twice")));
        }
        keys.insert(key);
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.expected("`:`"));
        }
        self.keep(1)
    }

    /// A string, which is kept as written. Returns what it means.
    fn string(&mut self) -> Result<String, BadPayload> {
        let (start, mut meaning) = (self.at, String::new());
        self.at += 1;
        loop {
            let Some(c) = self.text[self.at..].chars().next() else {
                return Err(self.expected("the end of a string"));
            };
            match c {
                '"' => break,
                '\\' => meaning.push(self.escape()?),
                '\0' => return Err(self.bad("U+0000 is not allowed")),
                c if c < ' ' => return Err(self.bad(format!("a control character ({c:?}) must be escaped"))),
                c => {
                    meaning.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        let end = self.at + 1;
        self.at = start;
        self.keep(end - start)?;
        Ok(meaning)
    }

    fn escape(&mut self) -> Result<char, BadPayload> {
        let plain = match self.text.as_bytes().get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.bad("unknown escape in a string")),
        };
        self.at += 2;
        Ok(plain)
    }

    fn unicode_escape(&mut self) -> Result<char, BadPayload> {
        let high =
            self.hex(self.at).ok_or_else(|| self.bad("an escape has four hex digits, like \\u00e9"))?;
        let (code, length) = match high {
            0 => return Err(self.bad("U+0000 is not allowed")),
            0xd800..0xdc00 => match self.hex(self.at + 6) {
                Some(low @ 0xdc00..0xe000) => (0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 12),
                _ => return Err(self.bad("half of a surrogate pair is missing")),
            },
            code => (code, 6),
        };
        let c = char::from_u32(code).ok_or_else(|| self.bad("half of a surrogate pair is missing"))?;
        self.at += length;
        Ok(c)
    }

    /// The number in `\uXXXX` at a place.
    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 6)?.strip_prefix("\\u")?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    }

    fn number(&mut self) -> Result<(), BadPayload> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1
        } else {
            self.digits()?
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let end = std::mem::replace(&mut self.at, start);
        self.keep(end - start)
    }

    fn digits(&mut self) -> Result<(), BadPayload> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Copies the next `bytes` to the canonical form.
    fn keep(&mut self, bytes: usize) -> Result<(), BadPayload> {
        if self.out.len() + bytes > self.bytes_max {
            return Err(BadPayload::new(format!("it is longer than {} bytes", self.bytes_max)));
        }
        self.out.push_str(&self.text[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(())
    }

    fn expected(&self, what: &str) -> BadPayload {
        let found = match self.text[self.at..].chars().next() {
            Some(c) => format!("{c:?}"),
            None => "the end".into(),
        };
        self.bad(format!("expected {what}, found {found}"))
    }

    fn bad(&self, what: impl Into<String>) -> BadPayload {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        BadPayload::new(format!("{} (line {line}, column {column})", what.into()))
    }
}
