//! A worker sends log lines of its jobs.

use axum::Json;
use axum::extract::State;
use lineclear::store::{ClaimRef, NewLogLine, NodeId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ClaimResult, ClaimResults, RECORDED, STALE, claims_at, node_of};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{moment, unprocessable};
use crate::auth::Caller;
use crate::problem::Problem;

/// Lines in one request.
const LINES_MAX: usize = 1_000;

/// Log lines of jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogsBody {
    /// The id of the worker.
    worker: String,
    /// At most 1,000, with at most 1,000 lines in all.
    #[schema(max_items = 1000)]
    claims: Vec<LogOfClaim>,
}

/// Log lines of one job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogOfClaim {
    /// The id of the job.
    job: String,
    /// The number of the claim.
    no: u32,
    /// In their order. A log has at most 1,000 lines and 256 KiB; later ones are dropped.
    #[schema(max_items = 1000)]
    lines: Vec<LineBody>,
}

/// Log lines of the job that the path names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinesBody {
    /// In their order: at most 1,000.
    #[schema(max_items = 1000)]
    pub(super) lines: Vec<LineBody>,
}

/// A log line.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LineBody {
    /// When it was written, RFC 3339; by default now.
    at: Option<String>,
    level: Level,
    /// More than 8 KiB are cut.
    text: String,
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Level::Trace => "TRACE",
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}

/// The lines of a body.
pub(super) fn lines(lines: Vec<LineBody>, pointer: &str) -> Result<Vec<NewLogLine>, Problem> {
    let line = |(n, line): (usize, LineBody)| {
        let at = line.at.as_deref().map(|at| moment(at, &format!("{pointer}/lines/{n}/at"))).transpose()?;
        Ok(NewLogLine { logged_at: at, level: line.level.as_str().to_owned(), message: line.text })
    };
    lines.into_iter().enumerate().map(line).collect()
}

pub(super) fn check_count(count: usize, pointer: &str) -> Result<(), Problem> {
    if count > LINES_MAX {
        let detail = format!("at most {LINES_MAX} lines in one request, not {count}; send several");
        return Err(unprocessable("batch_max", detail).at(pointer));
    }
    Ok(())
}

/// Appends lines to the logs of claims, and returns what happened to each.
pub(super) async fn append(
    app: &App,
    node: Option<NodeId>,
    logs: Vec<(ClaimRef, Vec<NewLogLine>)>,
) -> Result<Vec<&'static str>, Problem> {
    let Some(node) = node else { return Ok(vec![STALE; logs.len()]) };
    let appended = app.client.store().append_log(node, logs).await?;
    Ok(appended.into_iter().map(|is_held| if is_held { RECORDED } else { STALE }).collect())
}

/// Appends lines to the logs of jobs.
#[utoipa::path(
    post, path = "/claims/logs", operation_id = "append_logs", tag = "claims", request_body = LogsBody, security(("token" = ["worker"])),
    responses((status = 200, body = ClaimResults), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn report(
    state: State<App>,
    caller: Caller,
    body: JsonBody<LogsBody>,
) -> Result<Json<ClaimResults>, Problem> {
    let LogsBody { worker, claims: logs } = body.0;
    let claims = claims_at("claims", logs.iter().map(|log| (log.job.as_str(), log.no)))?;
    check_count(logs.iter().map(|log| log.lines.len()).sum(), "/claims")?;
    let read = |(n, log): (usize, LogOfClaim)| lines(log.lines, &format!("/claims/{n}"));
    let lines = logs.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    let node = node_of(&state, &caller.0, &worker).await?;
    let statuses = append(&state, node, claims.iter().copied().zip(lines).collect()).await?;
    let results = claims.into_iter().zip(statuses).map(|(claim, status)| ClaimResult::of(claim, status));
    Ok(Json(ClaimResults { claims: results.collect() }))
}
