//! JSON bodies of requests: bounded in size, and without unknown fields.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use lineclear_model::Payload;
use lineclear_model::payload::PAYLOAD_DEPTH_MAX;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// Longest body, in bytes. A batch of jobs may be longer than one input.
pub(crate) const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Extracts a JSON body. Only an `Option` accepts an empty one, which the API document shows in the same way.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<JsonBody<T>, Problem> {
        read(&bytes(request).await?).map(JsonBody)
    }
}

/// Extracts a JSON body of at most `MAX` bytes.
pub(crate) struct JsonBodyUpTo<T, const MAX: usize>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned, const MAX: usize> FromRequest<S> for JsonBodyUpTo<T, MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<JsonBodyUpTo<T, MAX>, Problem> {
        let bytes = bytes_within(request, MAX).await?;
        JsonText::check_within(&bytes, MAX)?.parse().map(JsonBodyUpTo)
    }
}

/// A checked JSON document. Values that borrow from it are not copied.
pub(crate) struct JsonText(Payload);

impl JsonText {
    pub(crate) fn check(bytes: &[u8]) -> Result<JsonText, Problem> {
        JsonText::check_within(bytes, BODY_BYTES_MAX)
    }

    fn check_within(bytes: &[u8], bytes_max: usize) -> Result<JsonText, Problem> {
        if bytes.is_empty() {
            return Err(missing());
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Problem::malformed("body_not_utf8", "the body must be UTF-8"))?;
        // The rules of inputs apply to the whole document: databases and parsers disagree about what they exclude.
        let checked = Payload::parse_within(text, bytes_max).map_err(|bad| {
            Problem::malformed("body_not_json", format!("{bad} (at most {PAYLOAD_DEPTH_MAX} levels)"))
        })?;
        Ok(JsonText(checked))
    }

    pub(crate) fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        parse(self.0.as_str()).map_err(|(why, pointer)| Problem::malformed("body_field", why).at(pointer))
    }
}

/// The bytes of a JSON body.
pub(crate) async fn bytes(request: Request) -> Result<Bytes, Problem> {
    bytes_within(request, BODY_BYTES_MAX).await
}

async fn bytes_within(request: Request, bytes_max: usize) -> Result<Bytes, Problem> {
    let headers = request.headers();
    if headers.contains_key(header::CONTENT_ENCODING) {
        let detail = "compressed bodies are not supported";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_encoding", detail));
    }
    let is_json =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
    let bytes = axum::body::to_bytes(request.into_body(), bytes_max);
    let bytes = bytes.await.map_err(|error| too_large(&error, bytes_max))?;
    if !is_json && !bytes.is_empty() {
        let detail = "send JSON, with Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", detail));
    }
    Ok(bytes)
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn too_large(error: &axum::Error, bytes_max: usize) -> Problem {
    let source = std::error::Error::source(error);
    if source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
        let detail = format!("the body must not be longer than {bytes_max} bytes");
        return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail);
    }
    Problem::malformed("body_incomplete", "the body ended before it was complete")
}

fn missing() -> Problem {
    Problem::malformed("body_missing", "request body is required")
}

pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.is_empty() {
        // `null` is an `Option` and no struct: a PUT without a body must not reset all fields.
        return serde_json::from_str("null").map_err(|_| missing());
    }
    JsonText::check(bytes)?.parse()
}

/// Parses JSON; an error says what is wrong, and where.
pub(crate) fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, (String, String)> {
    let mut document = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut document)
        .map_err(|error| (without_line(&error.inner().to_string()), pointer(error.path())))
}

/// A message without its line number, which refers to the text in another form than the client sent.
fn without_line(message: &str) -> String {
    message.split(" at line ").next().unwrap_or(message).to_owned()
}

/// RFC 6901.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", escape_pointer(key))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// Escapes a key for a JSON pointer.
pub(crate) fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
