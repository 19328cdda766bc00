//! Payloads: inputs and outputs of jobs, as canonical JSON text.
//!
//! Text and not a parsed tree, because both databases must give back what was accepted: `1e400`, twenty
//! digits and the order of keys included. (TOML tables have no order: an input written in TOML has its keys
//! in alphabetical order.)

mod canonical;
mod documents;
pub(crate) mod walk;

use serde::Serialize;

/// Most bytes of an input: 256 KiB. Put more into a file or an object store, and its address into the
/// input.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// Most bytes of an output.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// How deep arrays and objects may be nested: half of what parsers in other languages accept.
pub const PAYLOAD_DEPTH_MAX: usize = 64;

/// Why a text is not a payload, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("payload: {what}")]
pub struct BadPayload {
    what: String,
}

impl BadPayload {
    fn new(what: impl Into<String>) -> BadPayload {
        BadPayload { what: what.into() }
    }
}

/// JSON text without needless white space. Numbers, strings and the order of keys are as they were written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(String);

impl std::fmt::Debug for Payload {
    /// Masks fields with secret names: logs show payloads in this form.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = crate::secret::Secrets::by_name().mask(&self.0).unwrap_or_default();
        f.debug_tuple("Payload").field(&shown).finish()
    }
}

impl Payload {
    /// Checks JSON text of at most [`PAYLOAD_BYTES_MAX`] bytes.
    pub fn parse(text: &str) -> Result<Payload, BadPayload> {
        Payload::parse_within(text, PAYLOAD_BYTES_MAX)
    }

    /// Checks JSON text with another limit.
    pub fn parse_within(text: &str, bytes_max: usize) -> Result<Payload, BadPayload> {
        canonical::canonical(text, bytes_max).map(Payload)
    }

    /// The payload of a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Payload, BadPayload> {
        Payload::of_within(value, PAYLOAD_BYTES_MAX)
    }

    /// The payload of a value, with another limit.
    pub fn of_within<T: Serialize + ?Sized>(value: &T, bytes_max: usize) -> Result<Payload, BadPayload> {
        let text = serde_json::to_string(value).map_err(|error| BadPayload::new(error.to_string()))?;
        Payload::parse_within(&text, bytes_max)
    }

    /// `{}`.
    pub fn empty() -> Payload {
        Payload("{}".to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Deserializes it.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl Default for Payload {
    fn default() -> Payload {
        Payload::empty()
    }
}

impl std::fmt::Display for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Payload> for String {
    fn from(payload: Payload) -> String {
        payload.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let message = Payload::parse(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text:.60}: {message}");
    }

    #[test]
    fn white_space_goes_and_everything_else_stays_as_written() {
        let text =
            " { \"b\" : [ 1e400 , 12345678901234567890123 , -0.10 , true ] ,\n \"a\" : \"\\u00e9 é\\n\" } ";
        assert_eq!(
            Payload::parse(text).unwrap().as_str(),
            "{\"b\":[1e400,12345678901234567890123,-0.10,true],\"a\":\"\\u00e9 é\\n\"}"
        );
        for text in ["null", "0", "\"\"", "[]", "{}", "[[],{}]", "\"\\ud83d\\ude00\"", "-1.5E+3"] {
            let payload = Payload::parse(text).unwrap();
            assert_eq!(payload.as_str(), text);
            assert_eq!(
                Payload::parse(payload.as_str()),
                Ok(payload),
                "canonical text is its own canonical text"
            );
        }
    }

    #[test]
    fn what_databases_disagree_about_is_refused() {
        refused(r#"{"a":"x\u0000"}"#, "U+0000");
        refused("{\"a\":\"x\0\"}", "U+0000");
        refused(r#"{"a\u0000":1}"#, "U+0000");
        refused(r#"{"a":1,"b":{"a":2},"a":3}"#, "\"a\" occurs twice");
        refused("{\"a\":1,\"\\u0061\":2}", "occurs twice");
        refused(r#""\ud800""#, "surrogate");
        refused(r#""\ud800A""#, "surrogate");
        refused(r#""\udc00""#, "surrogate");
    }

    #[test]
    fn text_that_is_not_json_is_refused_with_its_place() {
        refused("", "line 1, column 1");
        refused("{\n \"a\": tru\n}", "line 2, column 7");
        refused("{'a':1}", "a key in double quotes");
        refused("[1,]", "a value");
        refused("[1 2]", "`,` or `]`");
        refused("{\"a\" 1}", "`:`");
        refused("01", "after the value");
        refused("1.", "a digit");
        refused("-", "a digit");
        refused("1e", "a digit");
        refused("+1", "a value");
        refused("NaN", "a value");
        refused("\"a\nb\"", "control character");
        refused("\"\\x\"", "escape");
        refused("\"abc", "end");
        refused("{} {}", "after the value");
        refused("\u{feff}{}", "a value");
    }

    #[test]
    fn size_and_depth_have_a_limit() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(Payload::parse(&deep(64)).is_ok());
        refused(&deep(65), "64 levels");
        refused(&"[".repeat(1_000_000), "64 levels");
        let long = |n: usize| format!("\"{}\"", "x".repeat(n - 2));
        assert!(Payload::parse(&long(PAYLOAD_BYTES_MAX)).is_ok());
        refused(&long(PAYLOAD_BYTES_MAX + 1), "262144 bytes");
        assert!(Payload::parse_within("[1, 2]", 5).is_ok(), "white space does not count");
        assert!(Payload::parse_within("[1, 23]", 5).is_err());
    }

    #[test]
    fn a_payload_inside_json_keeps_its_numbers() {
        let text = r#"{"input":{"n":1e400,"m":12345678901234567890123}}"#;
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Job {
            input: Payload,
        }
        let job: Job = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&job).unwrap(), text);
    }

    #[test]
    fn a_payload_can_be_written_in_toml() {
        #[derive(serde::Deserialize, Debug)]
        struct Job {
            input: Payload,
        }
        let job: Job =
            toml::from_str("input = { a = [1, 2.5, \"x\\\"\"], day = 2026-01-01, deep = { b = true } }")
                .unwrap();
        assert_eq!(job.input.as_str(), r#"{"a":[1,2.5,"x\""],"day":"2026-01-01","deep":{"b":true}}"#);
        let error = toml::from_str::<Job>("input = { a = inf }").unwrap_err().to_string();
        assert!(error.contains("JSON has no"), "{error}");
    }

    #[test]
    fn a_value_becomes_a_payload() {
        assert_eq!(Payload::of(&(1, "a", None::<u8>)).unwrap().as_str(), r#"[1,"a",null]"#);
        assert_eq!(Payload::of(&[1u8; 3]).unwrap().read::<Vec<u8>>().unwrap(), [1, 1, 1]);
        assert!(Payload::of("nul \0").is_err());
    }

    proptest::proptest! {
        #[test]
        fn what_is_accepted_is_json_and_nothing_panics(text in "[\\[\\]{}:,\"\\\\ue0-9.+ tfn-]{0,24}") {
            if let Ok(payload) = Payload::parse(&text) {
                let read = serde_json::from_str::<&serde_json::value::RawValue>(payload.as_str());
                proptest::prop_assert!(read.is_ok());
            }
        }
    }
}
