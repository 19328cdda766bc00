//! Lists as files: CSV for spreadsheets, NDJSON for programs, with the rows of the API. The server streams them page by page.

use std::future::Future;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use lineclear::store::{BulkOperationId, DeadLetterId, JobId};
use lineclear_lock::LeaseRecord;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{View, bulk_operations, cluster, dead_letters, jobs};
use crate::App;
use crate::api::bulk_operations::BulkOperation;
use crate::api::dead_letters::DeadLetter;
use crate::api::jobs::Job;
use crate::api::locks::{self, Lock};
use crate::api::nodes::{NODES_MAX, Node};
use crate::auth::Caller;
use crate::problem::Problem;

/// Rows of one file.
pub(super) const ROWS_MAX: usize = 10_000_000;
/// Rows of one read.
const PAGE: u32 = 1_000;
/// Pages in the channel to a client.
const AHEAD: usize = 2;

/// A format.
#[derive(Clone, Copy)]
enum Format {
    Csv,
    Ndjson,
}

/// The columns of a list.
type Columns = &'static [&'static str];

const JOBS: Columns = &[
    "id",
    "state",
    "kind",
    "manifest",
    "group",
    "tags",
    "route",
    "limit_key",
    "phase",
    "tick_at",
    "origin",
    "claim_no",
    "failures",
    "created_at",
    "due_at",
    "finished_at",
    "node",
    "last_error",
];
const DEAD_LETTERS: Columns = &[
    "id",
    "job_id",
    "manifest",
    "kind",
    "reason",
    "fingerprint",
    "status",
    "note",
    "failures",
    "crashes",
    "last_error",
    "dead_at",
    "resolved_at",
    "resolved_by",
];
const BULK_OPERATIONS: Columns = &[
    "id",
    "action",
    "q",
    "reason",
    "created_by",
    "created_at",
    "starts_at",
    "status",
    "total",
    "total_is_exact",
    "done",
    "skipped",
    "finished_at",
];

const NODES: Columns = &[
    "id",
    "name",
    "host",
    "pid",
    "incarnation",
    "version",
    "roles",
    "routes",
    "state",
    "holds",
    "slots",
    "started_at",
    "seen_at",
    "clock_skew_ms",
    "silent_ms",
    "drain_at",
    "drain_by",
];
const LOCKS: Columns = &[
    "name",
    "store",
    "state",
    "node",
    "machine",
    "pid",
    "incarnation",
    "kind",
    "epoch",
    "since",
    "acquired_at",
    "renewed_at",
    "released_at",
    "holds",
    "contended",
];

/// Links to the files of a list.
pub(super) fn links(view: &View<'_>, path: &str) -> maud::Markup {
    let query = view.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let to = |format: &str| view.link(&format!("{path}.{format}{query}"));
    maud::html! { span.muted.files { a href=(to("csv")) download { "CSV" } " · " a href=(to("ndjson")) download { "NDJSON" } } }
}

/// The list of the path as a file.
pub(super) async fn file(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let (path, format) = match uri.path().rsplit_once('.') {
        Some((path, "csv")) => (path.to_owned(), Format::Csv),
        Some((path, "ndjson")) => (path.to_owned(), Format::Ndjson),
        _ => return Err(Problem::not_found("such file")),
    };
    let view = View { app: &app, scopes: &caller.0.scopes, uri: &uri };
    let store = app.reading.clone();
    match path.as_str() {
        "/jobs" => {
            let query = jobs::query(&view)?;
            send(format, "jobs", JOBS, move |from: Option<JobId>| {
                let (store, query) = (store.clone(), query.clone());
                async move {
                    let found = store.search(&query, from, PAGE).await?;
                    Ok((found.items.into_iter().map(Job::of).collect(), found.next))
                }
            })
        }
        "/dead-letters" => {
            let (filter, status) = dead_letters::filter(&view)?;
            send(format, "dead-letters", DEAD_LETTERS, move |from: Option<DeadLetterId>| {
                let (store, filter, status) = (store.clone(), filter.clone(), status.clone());
                async move {
                    let page = store.dead_letters_matching(&filter, Some(&status), from, PAGE).await?;
                    Ok((page.items.into_iter().map(DeadLetter::of).collect(), page.next))
                }
            })
        }
        "/bulk-operations" => {
            bulk_operations::check(&view)?;
            send(format, "bulk-operations", BULK_OPERATIONS, move |from: Option<BulkOperationId>| {
                let store = store.clone();
                async move {
                    let page = store.bulk_operations(from, PAGE).await?;
                    Ok((page.items.into_iter().map(BulkOperation::of).collect(), page.next))
                }
            })
        }
        "/nodes" => {
            cluster::check(&view)?;
            send(format, "nodes", NODES, move |_: Option<()>| {
                let store = store.clone();
                async move {
                    let nodes = store.nodes(NODES_MAX).await?;
                    Ok((nodes.into_iter().map(Node::of).collect(), None))
                }
            })
        }
        "/locks" => {
            cluster::check(&view)?;
            let registry = locks::registry(&app)?.clone();
            send(format, "locks", LOCKS, move |after: Option<LeaseRecord>| {
                let registry = registry.clone();
                async move {
                    let leases = match &after {
                        Some(last) => registry.leases_after(last, PAGE).await,
                        None => registry.leases(PAGE).await,
                    };
                    let leases = leases.map_err(locks::registry_failed)?;
                    let next = leases.last().filter(|_| leases.len() == PAGE as usize).cloned();
                    Ok((leases.into_iter().map(Lock::of).collect(), next))
                }
            })
        }
        _ => Err(Problem::not_found("such file")),
    }
}

/// Reads pages and sends them, as fast as the client reads.
fn send<T, C, R, F>(format: Format, name: &str, columns: Columns, read: R) -> Result<Response, Problem>
where
    T: Serialize + Send + 'static,
    C: Send + 'static,
    R: Fn(Option<C>) -> F + Send + 'static,
    F: Future<Output = Result<(Vec<T>, Option<C>), Problem>> + Send,
{
    let (client, mut pages) = mpsc::channel::<Result<Bytes, std::io::Error>>(AHEAD);
    tokio::spawn(async move {
        let mut text = match format {
            Format::Csv => columns.join(",") + "\r\n",
            Format::Ndjson => String::new(),
        };
        let (mut from, mut sent) = (None, 0);
        loop {
            let (rows, next) = match read(from.take()).await {
                Ok(page) => page,
                Err(problem) => {
                    // The connection breaks: a partial file must not look complete.
                    tracing::warn!(why = problem.detail(), "an export failed");
                    let _ = client.send(Err(std::io::Error::other("the list could not be read"))).await;
                    return;
                }
            };
            sent += rows.len();
            for row in &rows {
                write(&mut text, format, columns, row);
            }
            if client.send(Ok(std::mem::take(&mut text).into())).await.is_err() {
                return;
            }
            match next {
                Some(_) if sent >= ROWS_MAX => {
                    tracing::warn!(rows = ROWS_MAX, "an export is too long");
                    let _ = client.send(Err(std::io::Error::other("the list is too long for a file"))).await;
                    return;
                }
                Some(next) => from = Some(next),
                None => return,
            }
        }
    });
    let (kind, ending) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "csv"),
        Format::Ndjson => ("application/x-ndjson", "ndjson"),
    };
    let body = Body::from_stream(futures_util::stream::poll_fn(move |context| pages.poll_recv(context)));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}.{ending}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

fn write(text: &mut String, format: Format, columns: Columns, row: &impl Serialize) {
    match format {
        Format::Ndjson => {
            text.push_str(&serde_json::to_string(row).unwrap_or_default());
            text.push('\n');
        }
        Format::Csv => {
            let row = serde_json::to_value(row).unwrap_or_default();
            let cells: Vec<String> = columns.iter().map(|column| cell(&row[*column])).collect();
            text.push_str(&cells.join(","));
            text.push_str("\r\n");
        }
    }
}

/// RFC 4180, without formulas.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    };
    let text = if value.is_number() { text } else { without_formulas(&text) };
    let is_quoted = text.contains([',', ';', '\t', '"', '\n', '\r']);
    if is_quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

/// An apostrophe prevents that a spreadsheet runs a cell as a formula. One that splits lines at `;` or tabs, as in most of Europe, finds
/// cells inside of ours, and does not honour quotes there; some take full-width signs for ASCII ones, or skip blanks.
fn without_formulas(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 1);
    let mut may_begin = true;
    for c in text.chars() {
        if may_begin
            && matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | '﹦' | '﹢' | '﹣' | '﹫')
        {
            plain.push('\'');
        }
        may_begin = match c {
            ';' | '\t' | '\n' | '\r' => true,
            c if c.is_whitespace()
                || c.is_control()
                || matches!(c, '"' | '\u{200b}'..='\u{200f}' | '\u{feff}') =>
            {
                may_begin
            }
            _ => false,
        };
        plain.push(c);
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_cell_is_a_formula_for_any_spreadsheet() {
        for (text, expected) in [
            ("=1", "'=1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@x", "'@x"),
            ("\t=1", "\"\t'=1\""),
            ("\n=1", "\"\n'=1\""),
            ("\r\n =1", "\"\r\n '=1\""),
            ("a;=1", "\"a;'=1\""),
            ("a; \"=1", "\"a; \"\"'=1\""),
            ("a\n+1", "\"a\n'+1\""),
            ("a\t-1", "\"a\t'-1\""),
            ("＝1", "'＝1"),
            ("＋1;－1;＠x", "\"'＋1;'－1;'＠x\""),
            ("\u{feff}=1", "\u{feff}'=1"),
            ("1=1; x-1, a@b", "\"1=1; x-1, a@b\""),
        ] {
            assert_eq!(cell(&json!(text)), expected, "{text:?}");
        }
        assert_eq!(cell(&json!(-5)), "-5", "a number is no formula");
    }

    #[test]
    fn cells_are_what_a_spreadsheet_reads() {
        for (value, expected) in [
            (json!(null), ""),
            (json!("plain"), "plain"),
            (json!("a,b \"c\"\nd"), "\"a,b \"\"c\"\"\nd\""),
            (json!("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\""),
            (json!(["a", "b"]), "a b"),
            (json!(7), "7"),
            (json!(true), "true"),
        ] {
            assert_eq!(cell(&value), expected);
        }
    }
}
