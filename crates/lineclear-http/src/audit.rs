//! An audit row for every change: written before the change, so that a server that dies in between leaves no change without
//! one, and completed after it. New routes get theirs without doing anything for it.

mod ledger;
mod made;
mod note;

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lineclear::store::NewAudit;

use crate::access::{Operation, Principal, Shown};
use crate::problem::Problem;
use crate::request_id::RequestId;
pub(crate) use ledger::{Ledger, Writers};
pub(crate) use made::made;
pub(crate) use note::{Note, differing, many};

/// Jobs are made by the thousand, and each is its own record: their rows are written beside the act and not before it, and
/// not at all for a server that does not know who asks.
const HOT: [&str; 2] = ["create_job", "create_jobs"];
/// Writes its own row, when it is known who it was.
const BY_ITSELF: &str = "log_in";
/// Longest target, in bytes.
const TARGET_BYTES_MAX: usize = 512;

/// The middleware, behind the guard.
pub(crate) async fn audit(State(ledger): State<Ledger>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let principal = parts.extensions.get::<Arc<Principal>>().cloned();
    let operation = parts.extensions.get::<Arc<Operation>>().cloned();
    let (Some(principal), Some(operation)) = (principal, operation) else {
        // Nothing is there, or it is refused before anything is changed.
        return next.run(Request::from_parts(parts, body)).await;
    };
    let is_hot = HOT.contains(&operation.action.as_str());
    if operation.action == BY_ITSELF || (is_hot && principal.shown == Shown::Nothing) {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let entry = NewAudit {
        who: principal.who(),
        token: principal.token,
        action: operation.action.clone(),
        target: target(&mut parts).await,
        request_id: RequestId::current().unwrap_or_default(),
    };
    let note = Note::new();
    parts.extensions.insert(note.clone());
    let request = Request::from_parts(parts, body);
    if is_hot {
        beside(&ledger, entry, note, request, next).await
    } else {
        around(&ledger, entry, note, request, next).await
    }
}

/// The row is there before the act.
async fn around(ledger: &Ledger, entry: NewAudit, note: Note, request: Request, next: Next) -> Response {
    let begun = match ledger.begin(entry).await {
        Ok(begun) => begun,
        // What cannot be written down is not done.
        Err(error) => return Problem::from(error).into_response(),
    };
    lineclear::crash::point("audit.begun");
    let response = next.run(request).await;
    lineclear::crash::point("audit.acted");
    begun.end(response.status().as_u16(), note.take()).await;
    response
}

/// The row is there before the answer.
async fn beside(ledger: &Ledger, entry: NewAudit, note: Note, request: Request, next: Next) -> Response {
    let (begun, response) = tokio::join!(ledger.begin(entry), next.run(request));
    match begun {
        Ok(begun) => begun.end_later(response.status().as_u16(), note.take()),
        Err(error) => {
            tracing::error!(%error, request.id = RequestId::current(), "jobs were made without an audit row")
        }
    }
    response
}

/// What the path names.
async fn target(parts: &mut axum::http::request::Parts) -> String {
    let Ok(named) = RawPathParams::from_request_parts(parts, &()).await else { return String::new() };
    let values: Vec<&str> = named.iter().map(|(_, value)| value).collect();
    let mut text = values.join("/").replace(char::is_control, "\u{fffd}");
    text.truncate(text.floor_char_boundary(TARGET_BYTES_MAX));
    text
}
