//! An audit row for every change: written before the change, so that a crash leaves no change without a row, and completed after it.
//! The middleware covers new routes, too.

mod details;
mod writer;

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lineclear::store::NewAudit;
use lineclear_model::Scope;

use crate::auth::{Credential, Operation, Principal, Requirement};
use crate::middleware::request_id::RequestId;
use crate::problem::Problem;
pub(crate) use details::{AuditDetails, changed_fields, created_details, summarize};
pub(crate) use writer::{AuditTasks, AuditWriter};

/// Operations whose rows are written concurrently with the change, not before it; on an open server a moment after it, many in one
/// statement: there are thousands of jobs, and each job is its own record.
const CONCURRENT: [&str; 3] = ["create_job", "create_jobs", "run_kind"];
/// The operation that writes its own row, because the caller is known only afterwards.
const LOG_IN: &str = "log_in";
/// Longest target, in bytes.
const TARGET_BYTES_MAX: usize = 512;

/// The middleware, inside of `authorize`.
pub(crate) async fn write_audit(State(writer): State<AuditWriter>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let principal = parts.extensions.get::<Arc<Principal>>().cloned();
    let operation = parts.extensions.get::<Arc<Operation>>().cloned();
    let (Some(principal), Some(operation)) = (principal, operation) else {
        // A public or unknown route: the handler changes nothing, or writes its own row.
        return next.run(Request::from_parts(parts, body)).await;
    };
    if operation.requirement == Requirement::Scope(Scope::Worker) {
        // The executions of jobs are the record of what workers do.
        return next.run(Request::from_parts(parts, body)).await;
    }
    let is_concurrent = CONCURRENT.contains(&operation.action.as_str());
    if operation.action == LOG_IN {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let entry = NewAudit {
        who: principal.audit_name(),
        token: principal.token,
        action: operation.action.clone(),
        target: target(&mut parts).await,
        request_id: RequestId::current().unwrap_or_default(),
    };
    let details = AuditDetails::new();
    parts.extensions.insert(details.clone());
    let request = Request::from_parts(parts, body);
    if is_concurrent && principal.credential == Credential::None {
        write_afterwards(&writer, entry, details, request, next).await
    } else if is_concurrent {
        write_concurrently(&writer, entry, details, request, next).await
    } else {
        write_before(&writer, entry, details, request, next).await
    }
}

/// The row is committed before the handler runs.
async fn write_before(
    writer: &AuditWriter,
    entry: NewAudit,
    details: AuditDetails,
    request: Request,
    next: Next,
) -> Response {
    let row = match writer.begin(entry).await {
        Ok(row) => row,
        // No change without a row.
        Err(error) => return Problem::from(error).into_response(),
    };
    lineclear::crash::point("audit.begun");
    let response = next.run(request).await;
    lineclear::crash::point("audit.acted");
    row.finish(response.status().as_u16(), details.to_json()).await;
    response
}

/// The row is committed before the response.
async fn write_concurrently(
    writer: &AuditWriter,
    entry: NewAudit,
    details: AuditDetails,
    request: Request,
    next: Next,
) -> Response {
    let (row, response) = tokio::join!(writer.begin(entry), next.run(request));
    match row {
        Ok(row) => row.finish_in_background(response.status().as_u16(), details.to_json()),
        // Nothing was created: the failed request is in the log.
        Err(_) if response.status().is_server_error() => {}
        Err(error) => {
            tracing::error!(%error, request.id = RequestId::current(), "jobs were created without an audit row")
        }
    }
    response
}

/// The row is committed a moment after the response.
async fn write_afterwards(
    writer: &AuditWriter,
    entry: NewAudit,
    details: AuditDetails,
    request: Request,
    next: Next,
) -> Response {
    let record = writer.record(entry);
    let response = next.run(request).await;
    record.finish(response.status().as_u16(), details.to_json()).await;
    response
}

/// The parameters of the path.
async fn target(parts: &mut Parts) -> String {
    let Ok(params) = RawPathParams::from_request_parts(parts, &()).await else { return String::new() };
    let values: Vec<&str> = params.iter().map(|(_, value)| value).collect();
    let mut text = values.join("/").replace(lineclear_model::text::is_hidden, "\u{fffd}");
    text.truncate(text.floor_char_boundary(TARGET_BYTES_MAX));
    text
}
