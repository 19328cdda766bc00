//! A walk over JSON text, and not over a tree: numbers, escapes and the order of keys stay as written. We have our own parser,
//! because others convert numbers and drop one of two equal keys.

use super::BadPayload;

/// What a walk reports, in the order of the text and without white space.
pub(crate) trait Visitor {
    /// A value begins with this byte.
    fn begin(&mut self, first: u8);

    /// The value that began with this byte has ended.
    fn end(&mut self, first: u8);

    /// The key of the next value; the error says why it is refused.
    fn key(&mut self, key: String) -> Result<(), String>;

    /// A string as written, and what it means.
    fn string(&mut self, raw: &str, meaning: &str) -> Result<(), BadPayload>;

    /// Everything else as written: punctuation, keys, numbers and words.
    fn text(&mut self, raw: &str) -> Result<(), BadPayload>;
}

/// What a walk refuses beside text that is not JSON.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// How deep arrays and objects may be nested.
    pub(crate) depth_max: usize,
    /// Whether strings may have U+0000 and halves of surrogate pairs as escapes.
    pub(crate) any_string: bool,
}

/// Walks over one JSON value.
pub(crate) fn walk(text: &str, rules: Rules, visitor: &mut impl Visitor) -> Result<(), BadPayload> {
    let mut walk = Walk { text, at: 0, rules, visitor };
    walk.value(0)?;
    walk.skip_space();
    if walk.at < text.len() {
        return Err(walk.expected("nothing after the value"));
    }
    Ok(())
}

struct Walk<'a, V> {
    text: &'a str,
    at: usize,
    rules: Rules,
    visitor: &'a mut V,
}

impl<'a, V: Visitor> Walk<'a, V> {
    fn value(&mut self, depth: usize) -> Result<(), BadPayload> {
        self.skip_space();
        let first = self.peek().unwrap_or_default();
        self.visitor.begin(first);
        match first {
            b'{' | b'[' if depth == self.rules.depth_max => {
                let depth_max = self.rules.depth_max;
                return Err(
                    self.bad(format!("arrays and objects must not be nested deeper than {depth_max} levels"))
                );
            }
            b'{' => self.list(b'}', depth)?,
            b'[' => self.list(b']', depth)?,
            b'"' => {
                let (raw, meaning) = self.string()?;
                self.visitor.string(raw, &meaning)?;
            }
            b'-' | b'0'..=b'9' => self.number()?,
            _ => {
                let rest = &self.text[self.at..];
                let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word));
                self.pass(word.ok_or_else(|| self.expected("a value"))?.len())?;
            }
        }
        self.visitor.end(first);
        Ok(())
    }

    /// An array, or an object if it closes with `}`.
    fn list(&mut self, close: u8, depth: usize) -> Result<(), BadPayload> {
        self.pass(1)?;
        self.skip_space();
        if self.peek() == Some(close) {
            return self.pass(1);
        }
        loop {
            if close == b'}' {
                self.key()?;
            }
            self.value(depth + 1)?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.pass(1)?,
                Some(byte) if byte == close => return self.pass(1),
                _ => return Err(self.expected(&format!("`,` or `{}`", char::from(close)))),
            }
        }
    }

    fn key(&mut self) -> Result<(), BadPayload> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in double quotes"));
        }
        let start = self.at;
        let (raw, key) = self.string()?;
        let end = std::mem::replace(&mut self.at, start);
        self.visitor.key(key).map_err(|why| self.bad(why))?;
        self.at = end;
        self.visitor.text(raw)?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.expected("`:`"));
        }
        self.pass(1)
    }

    /// A string as written, and what it means.
    fn string(&mut self) -> Result<(&'a str, String), BadPayload> {
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
                c if c < ' ' => return Err(self.bad(format!("control character {c:?} must be escaped"))),
                c => {
                    meaning.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        self.at += 1;
        Ok((&self.text[start..self.at], meaning))
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
        let high = self
            .hex(self.at)
            .ok_or_else(|| self.bad("an escape must have four hexadecimal digits, like \\u00e9"))?;
        let low = self.hex(self.at + 6).filter(|low| (0xdc00..0xe000).contains(low));
        let (code, length) = match (high, low) {
            (0xd800..0xdc00, Some(low)) => (0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 12),
            (code, _) => (code, 6),
        };
        let meaning = match char::from_u32(code) {
            _ if self.rules.any_string => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
            Some('\0') => return Err(self.bad("U+0000 is not allowed")),
            Some(c) => c,
            None => return Err(self.bad("half of a surrogate pair is missing")),
        };
        self.at += length;
        Ok(meaning)
    }

    /// The number in `\uXXXX` at a position.
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
        self.pass(end - start)
    }

    fn digits(&mut self) -> Result<(), BadPayload> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes the next bytes to the visitor.
    fn pass(&mut self, bytes: usize) -> Result<(), BadPayload> {
        let raw = &self.text[self.at..self.at + bytes];
        self.at += bytes;
        self.visitor.text(raw)
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
