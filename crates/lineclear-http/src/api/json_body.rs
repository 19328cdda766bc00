//! Bodies of requests: JSON, of a bounded size, with nothing in it that we do not know.

use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use lineclear_model::Payload;
use lineclear_model::payload::PAYLOAD_DEPTH_MAX;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// Most bytes of a body. A batch of jobs may be larger than one input.
pub(crate) const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A body of JSON. Only who takes an `Option` may be sent none, and the document says so with the same word.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, Problem> {
        read(&bytes(request).await?).map(Body)
    }
}

/// The bytes of a body that says it is JSON.
pub(crate) async fn bytes(request: Request) -> Result<axum::body::Bytes, Problem> {
    let headers = request.headers();
    if headers.contains_key(header::CONTENT_ENCODING) {
        let detail = "bodies are taken as they are, not compressed";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_encoding", detail));
    }
    let is_json =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
    let bytes = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX).await.map_err(too_large)?;
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

fn too_large(error: axum::Error) -> Problem {
    if std::error::Error::source(&error)
        .is_some_and(|source| source.is::<axum::extract::rejection::LengthLimitError>())
        || error.to_string().contains("length limit")
    {
        let detail = format!("a body has {BODY_BYTES_MAX} bytes at most");
        return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail);
    }
    Problem::malformed("body_incomplete", "the body ended before it was complete")
}

pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.is_empty() {
        // Nothing is `null`, which an `Option` is and no struct: a PUT without a body would take away all that a thing has.
        let missing = |_| Problem::malformed("body_missing", "this needs a body that says what is meant");
        return serde_json::from_str("null").map_err(missing);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Problem::malformed("body_not_utf8", "the body is not UTF-8"))?;
    // What databases and parsers disagree about is refused in the whole document, as in every input.
    let checked = Payload::parse_within(text, BODY_BYTES_MAX).map_err(|bad| {
        Problem::malformed("body_not_json", format!("{bad} (at most {PAYLOAD_DEPTH_MAX} levels)"))
    })?;
    parse(checked.as_str()).map_err(|(why, pointer)| Problem::malformed("body_field", why).at(pointer))
}

/// Reads JSON; otherwise what is wrong with it, and where.
pub(crate) fn parse<T: DeserializeOwned>(json: &str) -> Result<T, (String, String)> {
    let mut document = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut document)
        .map_err(|error| (plain(&error.inner().to_string()), pointer(error.path())))
}

/// Without the place in a text that the client has not sent in this form.
fn plain(message: &str) -> String {
    message.split(" at line ").next().unwrap_or(message).to_owned()
}

/// RFC 6901.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => {
                pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1")))
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}
