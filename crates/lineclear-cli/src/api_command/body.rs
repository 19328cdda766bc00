//! Bodies of requests, made of command-line arguments.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::failure::Failure;

/// Reads JSON from an argument: the text itself, `@FILE`, or `-` for standard input. It stays as written, because a number that is too
/// large for this program may not be for the handler that gets it.
pub(crate) fn read_json_arg(flag: &str, text: &str) -> Result<String, Failure> {
    let bad = |why: String| Failure::usage(format!("{flag}: {why}"));
    let text = match text {
        "-" => std::io::read_to_string(std::io::stdin()).map_err(|error| bad(error.to_string()))?,
        file if file.starts_with('@') => {
            let file = file.trim_start_matches('@');
            std::fs::read_to_string(file).map_err(|error| bad(format!("{file}: {error}")))?
        }
        text => text.to_owned(),
    };
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(json) => Ok(json.get().to_owned()),
        Err(error) => Err(bad(format!("invalid JSON: {error}"))),
    }
}

/// Adds a field whose JSON stays as written.
pub(crate) fn with_raw_field(body: &Value, name: &str, json: Option<&str>) -> String {
    let body = body.to_string();
    match (json, body.strip_suffix('}')) {
        (Some(json), Some("{")) => format!("{{\"{name}\":{json}}}"),
        (Some(json), Some(others)) => format!("{others},\"{name}\":{json}}}"),
        _ => body,
    }
}

/// An object of the fields that have a value.
pub(crate) fn object(fields: Vec<(&str, Option<Value>)>) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    json!(given.collect::<serde_json::Map<_, _>>())
}

/// The value of a `*_ms` field.
pub(crate) fn millis(time: Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
