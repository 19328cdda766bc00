//! Statistics: executions over time, and current counts.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use lineclear::store::{COUNT_MAX, Stat, StatNow, StatsBy};
use lineclear_model::Micros;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::api::json_types::{QueryParams, moment, time, unprocessable};
use crate::problem::Problem;

/// Steps in one response.
const STEPS_MAX: i64 = 1_500;

/// A range of time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// The first moment, inclusive; RFC 3339. The default is an hour before `to`.
    from: Option<String>,
    /// The last moment, exclusive; RFC 3339. The default is now.
    to: Option<String>,
    /// `minute`, `hour` or `day` (UTC); the range may have up to 1,500 steps.
    #[serde(default)]
    step: Step,
    /// `none`, `kind`, `group`, `manifest` or `outcome`.
    by: Option<String>,
}

/// The length of a step.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    #[default]
    Minute,
    Hour,
    Day,
}

impl Step {
    const fn seconds(self) -> i64 {
        match self {
            Step::Minute => 60,
            Step::Hour => 3_600,
            Step::Day => 86_400,
        }
    }
}

/// The executions that ended in one step.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsPoint {
    /// The start of the step.
    at: String,
    /// The kind, group, manifest or outcome; null with `by=none`, or if there is none.
    key: Option<String>,
    /// The number of executions.
    claims: u64,
    /// The number of executions by outcome.
    outcomes: BTreeMap<&'static str, u64>,
    /// The sum of their run times.
    run_ms: u64,
    run_ms_max: u64,
    /// The sum of their waiting times since they were due.
    wait_ms: u64,
    wait_ms_max: u64,
}

/// Statistics in order of time, without empty steps.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsResponse {
    items: Vec<StatsPoint>,
    from: String,
    to: String,
    /// From here on, executions were counted live; the table of minutes does not have them yet.
    live_from: Option<String>,
}

/// Returns executions over time: how many ended, with which outcome, and how long they waited and ran.
#[utoipa::path(
    get, path = "/stats", operation_id = "stats", tag = "stats", params(ListParams),
    security(("token" = ["read"])),
    responses((status = 200, body = StatsResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn stats(
    state: State<App>,
    params: QueryParams<ListParams>,
) -> Result<Json<StatsResponse>, Problem> {
    let ListParams { from, to, step, by } = params.0;
    let word = by.as_deref().unwrap_or("none");
    let by = StatsBy::ALL.iter().copied().find(|by| by.as_str() == word).ok_or_else(|| {
        Problem::malformed(
            "by",
            format!("`by` must be one of none, kind, group, manifest, outcome; it is {word:?}"),
        )
    })?;
    let to = match to {
        Some(text) => moment(&text, "/to")?,
        None => state.reading.now().await?.offset(60_000_000),
    };
    let from = match from {
        Some(text) => moment(&text, "/from")?,
        None => to.offset(-3_600_000_000),
    };
    // Rounded down to a whole step.
    let length = step.seconds() * 1_000_000;
    let from = Micros::EPOCH.offset(from.get().div_euclid(length) * length);
    if from < Micros::EPOCH || from >= to || (to.get() - from.get()) / length > STEPS_MAX {
        let detail = format!(
            "`from` must be after 1970-01-01 and before `to`, by at most {STEPS_MAX} steps; use a longer step"
        );
        return Err(unprocessable("range", detail).at("/from"));
    }
    let stats = state.reading.stats(from, to, step.seconds(), by).await?;
    let items = points(stats.items);
    Ok(Json(StatsResponse { items, from: time(from), to: time(to), live_from: stats.live_from.map(time) }))
}

/// Merges the rows of one step and key.
fn points(stats: Vec<Stat>) -> Vec<StatsPoint> {
    let mut points: Vec<StatsPoint> = Vec::new();
    for stat in stats {
        let at = time(stat.at);
        if points.last().is_none_or(|last| last.at != at || last.key != stat.word) {
            points.push(StatsPoint {
                at,
                key: stat.word,
                claims: 0,
                outcomes: BTreeMap::new(),
                run_ms: 0,
                run_ms_max: 0,
                wait_ms: 0,
                wait_ms_max: 0,
            });
        }
        let Some(point) = points.last_mut() else { continue };
        point.claims += stat.claims;
        *point.outcomes.entry(stat.outcome.as_str()).or_default() += stat.claims;
        point.run_ms += stat.run_ms;
        point.run_ms_max = point.run_ms_max.max(stat.run_ms_max);
        point.wait_ms += stat.wait_ms;
        point.wait_ms_max = point.wait_ms_max.max(stat.wait_ms_max);
    }
    points
}

/// Current counts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsNowResponse {
    /// Waiting jobs.
    waiting: BoundedCount,
    /// Waiting jobs that a worker could claim now.
    due: BoundedCount,
    /// Running jobs.
    running: BoundedCount,
    /// Awaiting dead letters.
    dead_letters: BoundedCount,
    /// Nodes with a heartbeat in the last 30 seconds.
    nodes: u64,
    /// Remote workers that were heard of in the last 30 seconds.
    workers: u64,
    /// How long the oldest waiting job has been due. The server looks at the first 200 jobs of each queue of 50 routes.
    oldest_waiting_ms: Option<i64>,
    at: String,
}

/// A count that stops at 10,000.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BoundedCount {
    count: u64,
    /// The count reached the bound; there may be more.
    at_least: bool,
}

impl BoundedCount {
    pub(super) fn of(count: u64) -> BoundedCount {
        BoundedCount { count, at_least: count >= u64::from(COUNT_MAX) }
    }
}

/// Returns current counts of jobs, dead letters and nodes. The cost does not grow with the number of jobs.
#[utoipa::path(
    get, path = "/stats/now", operation_id = "stats_now", tag = "stats",
    security(("token" = ["read"])),
    responses((status = 200, body = StatsNowResponse),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn now(state: State<App>) -> Result<Json<StatsNowResponse>, Problem> {
    let StatNow { waiting, due, running, dead_letters, nodes, workers, oldest_due_at, now, .. } =
        state.reading.stat_now().await?;
    Ok(Json(StatsNowResponse {
        waiting: BoundedCount::of(waiting),
        due: BoundedCount::of(due),
        running: BoundedCount::of(running),
        dead_letters: BoundedCount::of(dead_letters),
        nodes,
        workers,
        oldest_waiting_ms: oldest_due_at.map(|due| (now.get() - due.get()).max(0) / 1_000),
        at: time(now),
    }))
}
