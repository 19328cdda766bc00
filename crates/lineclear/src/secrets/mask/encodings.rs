//! The encodings in which programs repeat a secret: forms that are known beforehand, and texts that are decoded first, because an encoder
//! may write one character in many ways (`&`, `\u0026`, `%26`).

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Fewest bytes of an encoded form, or of a line of a secret, that is masked.
const FORM_BYTES_MIN: usize = 6;
/// Longest value whose escaped forms are kept. Longer ones are found in decoded texts.
const ESCAPED_BYTES_MAX: usize = 4 * 1024;

/// A value as it is, in base64, line by line, and as JSON, HTML and URLs usually write it.
pub(super) fn forms_of(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    if value.len() <= ESCAPED_BYTES_MAX {
        forms.extend(escaped(value));
    }
    // `user:password` moves the password by some bits.
    for shift in 0..3 {
        let bytes = [&[0; 2][..shift.min(2)], value.as_bytes()].concat();
        let (from, to) = (shift * 8 / 6 + usize::from(shift > 0), bytes.len() * 8 / 6);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms
                .extend(encoded.get(from..to).filter(|form| form.len() >= FORM_BYTES_MIN).map(str::to_owned));
        }
    }
    // Logs have one line at a time.
    if value.contains('\n') {
        forms.extend(
            value.lines().map(str::trim).filter(|line| line.len() >= FORM_BYTES_MIN).map(str::to_owned),
        );
    }
    forms
}

/// Forms in which a text that was cut may begin or end within an escape.
fn escaped(value: &str) -> Vec<String> {
    let json = serde_json::Value::from(value).to_string();
    let mut forms: Vec<String> = json.get(1..json.len() - 1).map(str::to_owned).into_iter().collect();
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    forms.extend([html.replace('\'', "&#39;"), html.replace('\'', "&#x27;"), html]);
    let (upper, lower) = (percent_encoded(value, false), percent_encoded(value, true));
    forms.extend([upper.replace("%20", "+"), lower.replace("%20", "+"), upper, lower]);
    forms
}

pub(super) fn percent_encoded(value: &str, lower_case: bool) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if lower_case => format!("%{byte:02x}"),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(one).collect()
}

/// What is decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// `\/`, `\u0026`
    Json,
    /// `%2f`
    Percent,
    /// `%2f`, and `+` for a blank
    Form,
    /// `&amp;`, `&#39;`
    Html,
}

/// A text without its escapes, and where in the original each byte began.
pub(super) struct Decoded {
    pub(super) bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Decoded {
    /// The part of the original from which these bytes were decoded.
    pub(super) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let at = |index: usize| self.starts.get(index).copied().unwrap_or_default();
        at(range.start)..at(range.end)
    }

    fn plain(text: &str) -> Decoded {
        Decoded { bytes: text.as_bytes().to_vec(), starts: (0..=text.len()).collect() }
    }

    /// `None`: there is nothing to decode.
    fn decode(&self, escapes: Escapes) -> Option<Decoded> {
        if !self.bytes.iter().any(|byte| escapes.begins_with(*byte)) {
            return None;
        }
        let (mut bytes, mut starts) = (Vec::with_capacity(self.bytes.len()), Vec::new());
        let (mut at, mut has_decoded) = (0, false);
        while let Some(&byte) = self.bytes.get(at) {
            let start = self.starts.get(at).copied().unwrap_or_default();
            let found = escapes.begins_with(byte).then(|| escapes.read(&self.bytes[at..])).flatten();
            let length = match &found {
                Some((decoded, length)) => {
                    bytes.extend_from_slice(decoded);
                    has_decoded = true;
                    *length
                }
                None => {
                    bytes.push(byte);
                    1
                }
            };
            starts.resize(bytes.len(), start);
            at += length;
        }
        starts.push(self.starts.last().copied().unwrap_or_default());
        has_decoded.then_some(Decoded { bytes, starts })
    }
}

/// A text without its escapes, in each way in which they may be nested: JSON may quote JSON, a URL or HTML.
pub(super) fn decodings(text: &str) -> Vec<Decoded> {
    if !text.bytes().any(|byte| b"\\%+&".contains(&byte)) {
        return Vec::new();
    }
    let plain = Decoded::plain(text);
    let json = plain.decode(Escapes::Json);
    let inner = json.as_ref().and_then(|json| json.decode(Escapes::Json));
    let others = [Escapes::Percent, Escapes::Form, Escapes::Html];
    let sources = [Some(&plain), json.as_ref()];
    let nested = sources.into_iter().flatten();
    let mut all: Vec<Decoded> =
        nested.flat_map(|source| others.map(|escapes| source.decode(escapes))).flatten().collect();
    all.extend(json);
    all.extend(inner);
    all
}

impl Escapes {
    fn begins_with(self, byte: u8) -> bool {
        match self {
            Escapes::Json => byte == b'\\',
            Escapes::Percent => byte == b'%',
            Escapes::Form => byte == b'%' || byte == b'+',
            Escapes::Html => byte == b'&',
        }
    }

    /// The bytes that the escape at the beginning of `text` means, and its length.
    fn read(self, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        match self {
            Escapes::Json => json_escape(text),
            Escapes::Form if text.first() == Some(&b'+') => Some((vec![b' '], 1)),
            Escapes::Percent | Escapes::Form => {
                Some((vec![u8::try_from(number(text.get(1..3)?, 16)?).ok()?], 3))
            }
            Escapes::Html => html_entity(text),
        }
    }
}

fn json_escape(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let plain = match text.get(1)? {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => return unicode_escape(text),
        byte @ (b'"' | b'\\' | b'/' | b'\'') => *byte,
        _ => return None,
    };
    Some((vec![plain], 2))
}

/// `\u0026`, or a pair for a character beyond U+FFFF.
fn unicode_escape(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let unit = |at: usize| {
        let escape = text.get(at..at + 6)?;
        number(escape.strip_prefix(b"\\u")?, 16)
    };
    let first = unit(0)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c.to_string().into_bytes(), 6));
    }
    let second = unit(6).filter(|second| (0xdc00..0xe000).contains(second))?;
    let c = char::from_u32(0x10000 + ((first.checked_sub(0xd800)? & 0x3ff) << 10) + (second - 0xdc00))?;
    Some((c.to_string().into_bytes(), 12))
}

/// `&amp;`, `&#38;` or `&#x26;`
fn html_entity(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    /// The longest is `&#1114111;`.
    const LENGTH_MAX: usize = 10;
    let end = text.iter().take(LENGTH_MAX).position(|byte| *byte == b';')?;
    let c = match text.get(1..end)? {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(digits, 16)?)?,
        [b'#', digits @ ..] => char::from_u32(number(digits, 10)?)?,
        _ => return None,
    };
    Some((c.to_string().into_bytes(), end + 1))
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    // A sign is no digit.
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u32::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_know_where_they_were() {
        for (escapes, text, decoded) in [
            (Escapes::Json, r"a\/b\u0026\u00FC\ud83d\ude00\\n", "a/b&ü😀\\n"),
            (Escapes::Json, r"\x \u12 \ud83d \", r"\x \u12 \ud83d \"),
            (Escapes::Percent, "%2f%2F+%zz%+1%2", "//+%zz%+1%2"),
            (Escapes::Form, "a+b%2Bc", "a b+c"),
            (Escapes::Html, "&amp;&#39;&#x27;&lt;&nbsp;& ;", "&''<&nbsp;& ;"),
        ] {
            let found = Decoded::plain(text).decode(escapes);
            let bytes = found.as_ref().map_or(text.as_bytes(), |found| &found.bytes);
            assert_eq!(String::from_utf8_lossy(bytes), decoded, "{text}");
        }
        let decoded = Decoded::plain(r"x\u0026y").decode(Escapes::Json).unwrap();
        assert_eq!(decoded.original(&(1..2)), 1..7);
        assert_eq!(decoded.original(&(0..3)), 0..8);
    }
}
