//! Fingerprints: errors that differ only in numbers and names are one family.

/// The family of an error, as 16 hex digits: a hash of the error's type and its message without the parts that vary
/// (numbers, UUIDs, hex runs, quoted parts), so that "timeout after 31 ms" and "timeout after 32 ms" are one.
pub fn fingerprint(error_type: &str, message: &str) -> String {
    let text = error_type.bytes().chain([0]).chain(family(message).into_bytes());
    // FNV-1a, 64 bits: stored and compared over versions, so it must not depend on a library's hasher.
    let hash =
        text.fold(0xcbf2_9ce4_8422_2325u64, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// The message with `#` for the parts that vary.
fn family(message: &str) -> String {
    let mut family = String::new();
    let mut rest = message;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' | '`' | '\'' if !ends_in_word(&family) => quoted(rest, c),
            c if c.is_alphanumeric() => {
                let word =
                    rest.find(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').unwrap_or(rest.len());
                if varies(&rest[..word]) { Some(word) } else { None }
            }
            _ => None,
        };
        if let Some(length) = length {
            if !family.ends_with('#') {
                family.push('#');
            }
            rest = &rest[length..];
        } else if c.is_alphanumeric() {
            let word = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            if varies(&rest[..word]) {
                family.push('#');
            } else {
                push_without_digits(&mut family, &rest[..word]);
            }
            rest = &rest[word..];
        } else {
            family.push(if c.is_whitespace() { ' ' } else { c });
            rest = &rest[c.len_utf8()..];
        }
    }
    family
}

/// An apostrophe inside a word, as in "can't", opens no quotation.
fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(char::is_alphanumeric)
}

/// The length of a quoted part with both quotes, if it is closed.
fn quoted(text: &str, quote: char) -> Option<usize> {
    text[1..].find(quote).map(|end| end + 2)
}

/// Whether a word is an identifier and not language: a UUID, or a hex run of eight or more with a digit in
/// it.
fn varies(word: &str) -> bool {
    let hex = word.strip_prefix("0x").unwrap_or(word);
    let digits = hex.bytes().filter(u8::is_ascii_hexdigit).count();
    let only_hex = hex.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    only_hex && hex.bytes().any(|b| b.is_ascii_digit()) && (digits >= 8 || word.starts_with("0x"))
}

/// `31ms` becomes `#ms`.
fn push_without_digits(family: &mut String, word: &str) {
    for c in word.chars() {
        if !c.is_numeric() {
            family.push(c);
        } else if !family.ends_with('#') {
            family.push('#');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_time_to_time_does_not_count() {
        for (a, b) in [
            ("timeout after 31 ms", "timeout after 32 ms"),
            ("timeout after 31ms", "timeout after 1234ms"),
            ("no row 6f9619ff-8b86-d011-b42d-00c04fc964ff", "no row 00000000-0000-0000-0000-000000000001"),
            ("object deadbeef01 is gone", "object 0123456789abcdef is gone"),
            ("bad pointer 0x7ffe", "bad pointer 0x1"),
            ("file 'a.txt' not found", "file 'b/c.txt' not found"),
            ("column \"x\" is missing", "column \"yy y\" is missing"),
            ("at 10.0.0.1:5432", "at 192.168.1.17:80"),
            ("at 2026-01-01T00:00:00Z", "at 2025-12-31T23:59:59Z"),
        ] {
            assert_eq!(fingerprint("io", a), fingerprint("io", b), "{} / {}", family(a), family(b));
        }
    }

    #[test]
    fn what_is_said_counts() {
        for (a, b) in [
            ("connection refused", "connection reset"),
            ("can't open it, don't try", "can't close it, don't try"),
            ("decade", "facade"),
            ("the 'quote never ends", "the 'quote goes on"),
        ] {
            assert_ne!(fingerprint("io", a), fingerprint("io", b), "{} / {}", family(a), family(b));
        }
        assert_ne!(fingerprint("io", "x"), fingerprint("http", "x"));
    }

    #[test]
    fn a_fingerprint_is_the_same_for_ever() {
        assert_eq!(fingerprint("io", "timeout after 31 ms"), "073ad897b6dbd5d3");
        assert_eq!(fingerprint("", ""), "af63bd4c8601b7df");
    }

    proptest::proptest! {
        #[test]
        fn no_message_makes_it_panic(message in ".{0,60}") {
            proptest::prop_assert_eq!(fingerprint("x", &message).len(), 16);
        }
    }
}
