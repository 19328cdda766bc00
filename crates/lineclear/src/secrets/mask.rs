//! Masks the values of resolved secrets in all that an execution leaves behind: output, error, steps, progress and log.

mod encodings;
mod search;

use lineclear_model::payload::OUTPUT_BYTES_MAX;
use lineclear_model::secret::{MASK, rewrite_strings};
use lineclear_model::{Failure, Outcome, Payload};

use encodings::{decodings, forms_of};
use search::{Search, TooLong};

/// With more values than this, only plain and escaped ones are looked for, and none in base64.
#[cfg(feature = "outbound")]
const ENCODED_VALUES_MAX: usize = 100;

/// The values to mask, in the forms in which programs repeat them.
#[derive(Default)]
pub(crate) struct Mask {
    search: Search,
}

impl Mask {
    /// Masks these values, and parts of them at the edges of a text, which may have been cut.
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a String>) -> Mask {
        Mask { search: Search::new(values.flat_map(|value| forms_of(value)).collect(), true) }
    }

    /// Masks values that are sent to a server and may come back. Many of them are no secrets, so parts stay.
    #[cfg(feature = "outbound")]
    pub(crate) fn of_echoes(values: Vec<String>) -> Mask {
        let forms = match values.len() {
            0..=ENCODED_VALUES_MAX => values.iter().flat_map(|value| forms_of(value)).collect(),
            _ => values,
        };
        Mask { search: Search::new(forms, false) }
    }

    /// A text without the values; `None`: it has none.
    fn masked(&self, text: &str) -> Option<String> {
        let found = self.find(text).unwrap_or_else(|TooLong| vec![(0, text.len())]);
        let (mut shown, mut at) = (String::new(), 0);
        for (from, to) in found.iter().copied() {
            shown.push_str(text.get(at..from).unwrap_or_default());
            shown.push_str(MASK);
            at = to;
        }
        shown.push_str(text.get(at..).unwrap_or_default());
        (!found.is_empty()).then_some(shown)
    }

    /// Where values are, in order and without overlaps.
    fn find(&self, text: &str) -> Result<Vec<(usize, usize)>, TooLong> {
        if self.search.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.search.find(text.as_bytes())?;
        for decoded in decodings(text) {
            found.extend(self.search.find(&decoded.bytes)?.iter().map(|range| decoded.original(range)));
        }
        found.sort_unstable_by_key(|range| (range.start, range.end));
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for range in found {
            // A part of an escape ends within a character at most if the text is not what it seems.
            let (from, to) = (text.floor_char_boundary(range.start), text.ceil_char_boundary(range.end));
            match merged.last_mut() {
                Some((_, end)) if from < *end => *end = to.max(*end),
                _ => merged.push((from, to)),
            }
        }
        Ok(merged)
    }

    /// A text without the values.
    pub(crate) fn text(&self, text: String) -> String {
        self.masked(&text).unwrap_or(text)
    }

    pub(crate) fn payload(&self, payload: Payload) -> Payload {
        let shown = rewrite_strings(payload.as_str(), |text| self.masked(text)).unwrap_or_default();
        // Keys and numbers stay in place: an output that has a value there is masked as a whole.
        let is_clean = self.find(&shown).is_ok_and(|found| found.is_empty());
        let whole = || Payload::of(MASK).unwrap_or_default();
        if shown == payload.as_str() && is_clean {
            return payload;
        }
        Payload::parse_within(&shown, OUTPUT_BYTES_MAX).ok().filter(|_| is_clean).unwrap_or_else(whole)
    }

    pub(crate) fn failure(&self, failure: Failure) -> Failure {
        let permanent = failure.permanent;
        let shown = Failure::new(self.text(failure.error_type), self.text(failure.message));
        Failure { permanent, ..shown }
    }

    pub(crate) fn outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Completed { output } => {
                Outcome::Completed { output: output.map(|output| self.payload(output)) }
            }
            Outcome::Failed(failure) => Outcome::Failed(self.failure(failure)),
            Outcome::DeadLetter(failure) => Outcome::DeadLetter(self.failure(failure)),
            Outcome::RetryIn { after, failure } => Outcome::RetryIn { after, failure: self.failure(failure) },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

    use super::encodings::percent_encoded;
    use super::*;

    fn mask(values: &[&str]) -> Mask {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        Mask::new(values.iter())
    }

    #[test]
    fn a_value_is_masked_in_all_its_forms() {
        let value = "hün\"ter 2&<x>'s";
        let mask = mask(&[value]);
        let json = serde_json::to_string(value).unwrap();
        let mut texts = vec![
            value.to_owned(),
            format!("said {value}, twice {value}"),
            json.trim_matches('"').to_owned(),
            percent_encoded(value, false),
            percent_encoded(value, false).replace("%20", "+"),
            percent_encoded(value, true),
        ];
        for user in ["", "a", "ab", "abc:"] {
            texts.push(STANDARD_NO_PAD.encode(format!("{user}{value}")));
            texts.push(URL_SAFE_NO_PAD.encode(format!("{user}{value}!")));
        }
        for text in texts {
            let shown = mask.text(text.clone());
            assert!(shown.contains(MASK) && shown.chars().count() < text.chars().count(), "{text}: {shown}");
            assert!(!shown.contains("ter"), "{text}: {shown}");
        }
        assert_eq!(mask.text("nothing here".to_owned()), "nothing here");
    }

    #[test]
    fn a_value_is_masked_however_its_characters_are_escaped() {
        let mask = mask(&["aB/c&d+e f<g>=\u{fc}'\""]);
        for (encoder, text) in [
            ("PHP", r#"aB\/c&d+e f<g>=\u00fc'\""#),
            ("Go", r#"aB/c\u0026d+e f\u003cg\u003e=\u{fc}'\""#.replace(r"\u{fc}", "\u{fc}").as_str()),
            (".NET", r#"aB/c\u0026d\u002Be f\u003Cg\u003E=\u00FC\u0027\u0022"#),
            ("JSON in JSON", r#"{\"x\":\"aB\\\/c\\u0026d+e f<g>=\\u00fc'\\\"\"}"#),
            ("lower case", "aB%2fc%26d%2be%20f%3cg%3e%3d%c3%bc%27%22"),
            ("a form", "x=aB%2fc%26d%2be+f%3Cg%3e%3D%c3%BC%27%22&y=1"),
            ("encodeURIComponent", "aB%2Fc%26d%2Be%20f%3Cg%3E%3D%C3%BC'%22"),
            ("a URL in JSON", r#"x=aB%2fc%26d%2be%20f%3cg%3e\u003d%c3%bc'%22"#),
            ("HTML", "aB&#47;c&amp;d&#x2B;e f&lt;g&gt;=&#252;&apos;&quot;"),
        ] {
            let shown = mask.text(format!("said: {text} and more"));
            assert!(shown.contains(MASK), "{encoder}: {shown}");
            assert!(
                !shown.contains("aB") && !shown.contains('g') && !shown.contains("fc"),
                "{encoder}: {shown}"
            );
            assert!(shown.starts_with("said: ") && shown.ends_with(" and more"), "{encoder}: {shown}");
        }
        for other in ["aB/c&", "100% + 1 \\ &c; \\u12"] {
            assert_eq!(mask.text(other.to_owned()), other);
        }
    }

    #[test]
    fn many_strings_and_many_values_cost_little() {
        let value = |n: usize| format!("{n:06}{}", "key/".repeat(500));
        let values: Vec<String> = (0..100).map(value).collect();
        let mask = Mask::new(values.iter());
        let strings = vec!["a&b"; OUTPUT_BYTES_MAX / 12];
        let (payload, begun) = (Payload::of(&strings).unwrap(), Instant::now());
        assert_eq!(mask.payload(payload.clone()), payload);
        // Values that repeat themselves, and texts that almost have them.
        let repeating = [format!("{}b", "a".repeat(60_000))];
        let text = "a".repeat(OUTPUT_BYTES_MAX);
        assert!(Mask::new(repeating.iter()).text(text).contains(MASK));
        // A second, or a few without optimization. If each string were compared with each value, it would take hours.
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_value_that_a_cut_divides_is_masked_too() {
        let mask = mask(&["correct-horse-battery"]);
        for (text, shown) in [
            ("it is correct-horse", "it is •••"),
            ("it is correct-horse-bat…", "it is •••…"),
            ("…horse-battery is it", "…••• is it"),
            ("horse-battery", "•••"),
            ("it is corre", "it is corre"),
            ("ttery is low", "ttery is low"),
        ] {
            assert_eq!(mask.text(text.to_owned()), shown);
        }
    }

    #[test]
    fn the_lines_of_a_key_are_masked_one_by_one() {
        let mask = mask(&["-----BEGIN KEY-----\nMIIEvQIBADAN\n-----END KEY-----\n"]);
        assert_eq!(mask.text("2: MIIEvQIBADAN".to_owned()), "2: •••");
    }

    #[test]
    fn an_output_is_masked_by_the_meaning_of_its_strings() {
        let mask = mask(&["a\"b/c", "12345"]);
        let payload = |text: &str| mask.payload(Payload::parse(text).unwrap());
        assert_eq!(payload(r#"{"x":["say a\"b\/c"],"n":1e400}"#).as_str(), r#"{"x":["say •••"],"n":1e400}"#);
        assert_eq!(payload(r#"{"n":1}"#).as_str(), r#"{"n":1}"#);
        for whole in [r#"{"n":12345}"#, r#"{"12345":1}"#] {
            assert_eq!(payload(whole).as_str(), "\"•••\"", "{whole}");
        }
        let many = Payload::of(&"12345".repeat(OUTPUT_BYTES_MAX / 6)).unwrap();
        assert_eq!(mask.payload(many).as_str(), "\"•••\"", "dots are longer");
    }

    #[test]
    fn errors_keep_their_kind() {
        let mask = mask(&["hunter22"]);
        let failed = mask.outcome(Outcome::Failed(Failure::new("error", "bad: hunter22").permanent()));
        let failure = failed.failure().unwrap();
        assert_eq!((failure.message.as_str(), failure.permanent), ("bad: •••", true));
    }
}
