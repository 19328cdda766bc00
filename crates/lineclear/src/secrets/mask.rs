//! Masks the values of resolved secrets in all that an execution leaves behind: output, error, steps, progress and log.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use lineclear_model::payload::OUTPUT_BYTES_MAX;
use lineclear_model::secret::{MASK, rewrite_strings};
use lineclear_model::{Failure, Outcome, Payload};

/// Fewest bytes of an encoded form, or of a line of a secret, that is masked.
const FORM_BYTES_MIN: usize = 6;
/// Longest part of a secret that is looked for at the edges of a text.
const PART_BYTES_MAX: usize = 4 * 1024;
/// Shortest such part, unless half of the secret is shorter.
const PART_BYTES_MIN: usize = 6;

/// The values to mask, in the forms in which programs repeat them. The longest come first.
#[derive(Default)]
pub(crate) struct Mask {
    forms: Vec<String>,
}

impl Mask {
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a String>) -> Mask {
        let mut forms: Vec<String> = values.flat_map(|value| forms_of(value)).collect();
        forms.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Mask { forms }
    }

    /// A text without the values; `None`: it has none.
    fn masked(&self, text: &str) -> Option<String> {
        let mut shown = text.to_owned();
        for form in self.forms.iter().filter(|form| text.contains(form.as_str())) {
            shown = shown.replace(form.as_str(), MASK);
        }
        // A text that was cut may begin or end within a value.
        for form in &self.forms {
            if let Some(end) = end_of_part(&shown, form) {
                let from = if shown.starts_with('…') { '…'.len_utf8() } else { 0 };
                shown.replace_range(from..end, MASK);
            }
            if let Some(start) = start_of_part(&shown, form) {
                let to = shown.trim_end_matches('…').len();
                shown.replace_range(start..to, MASK);
            }
        }
        (shown != text).then_some(shown)
    }

    /// A text without the values.
    pub(crate) fn text(&self, text: String) -> String {
        self.masked(&text).unwrap_or(text)
    }

    pub(crate) fn payload(&self, payload: Payload) -> Payload {
        let shown = rewrite_strings(payload.as_str(), |text| self.masked(text)).unwrap_or_default();
        // Keys and numbers stay in place: an output that has a value there is masked as a whole.
        let is_clean = !self.forms.iter().any(|form| shown.contains(form.as_str()));
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

/// Where the end of `form` ends at the beginning of `text`.
fn end_of_part(text: &str, form: &str) -> Option<usize> {
    let body = text.strip_prefix('…').unwrap_or(text);
    let fits = |from: &usize| form.get(*from..).is_some_and(|part| body.starts_with(part));
    let from = parts(form).map(|length| form.len() - length).find(fits)?;
    Some(text.len() - body.len() + form.len() - from)
}

/// Where the beginning of `form` starts at the end of `text`.
fn start_of_part(text: &str, form: &str) -> Option<usize> {
    let body = text.trim_end_matches('…');
    let fits = |to: &usize| form.get(..*to).is_some_and(|part| body.ends_with(part));
    parts(form).find(fits).map(|to| body.len() - to)
}

/// Lengths of parts that give too much away, the longest first.
fn parts(form: &str) -> impl Iterator<Item = usize> {
    let least = PART_BYTES_MIN.min(form.len().div_ceil(2));
    (least..form.len().min(PART_BYTES_MAX)).rev()
}

/// A value as it is, and as JSON, HTML, a URL and base64 write it.
fn forms_of(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    let json = serde_json::Value::from(value).to_string();
    forms.extend(json.get(1..json.len() - 1).map(str::to_owned));
    let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    forms.extend([html.replace('\'', "&#39;"), html.replace('\'', "&#x27;"), html]);
    let escaped = percent_encoded(value);
    forms.extend([escaped.to_lowercase(), escaped.replace("%20", "+"), escaped]);
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

fn percent_encoded(value: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
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
            percent_encoded(value),
            percent_encoded(value).replace("%20", "+"),
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
