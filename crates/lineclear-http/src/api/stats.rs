//! Figures: what ended when and how long it took, and how things stand now.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use lineclear::store::{COUNT_MAX, Stat, StatNow, StatsBy};
use lineclear_model::Micros;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::shape::{Asked, moment, time, unprocessable};
use crate::App;
use crate::problem::Problem;

/// Steps that one request returns at most.
const STEPS_MAX: i64 = 1_500;

/// Which figures.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// From this moment; RFC 3339. An hour before `to`, if nothing is said.
    from: Option<String>,
    /// Up to and without this moment; now, if nothing is said.
    to: Option<String>,
    /// `minute`, `hour` or `day` (of UTC); at most 1,500 of them.
    #[serde(default)]
    step: Step,
    /// `none`, `kind`, `group`, `manifest` or `outcome`.
    by: Option<String>,
}

/// Steps of time.
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

/// What ended in one step of time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Point {
    /// When the step begins.
    at: String,
    /// The kind, group, manifest or outcome; none: by nothing, or it has none.
    key: Option<String>,
    /// Claims that ended.
    claims: u64,
    /// How they ended: how many of each outcome.
    outcomes: BTreeMap<&'static str, u64>,
    /// How long they ran, all together.
    run_ms: u64,
    run_ms_max: u64,
    /// How long they had waited since they were due, all together.
    wait_ms: u64,
    wait_ms_max: u64,
}

/// Figures in the order of time; steps in which nothing ended are left out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsAnswer {
    items: Vec<Point>,
    from: String,
    to: String,
    /// From here on, what ended was counted just now, and is not in the table of minutes yet.
    live_from: Option<String>,
}

/// Figures of some time: how many claims ended, how, and how long they waited and ran.
#[utoipa::path(
    get, path = "/stats", operation_id = "stats", tag = "stats", params(Which),
    security(("token" = ["read"])),
    responses((status = 200, body = StatsAnswer), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn stats(state: State<App>, asked: Asked<Which>) -> Result<Json<StatsAnswer>, Problem> {
    let Which { from, to, step, by } = asked.0;
    let word = by.as_deref().unwrap_or("none");
    let by = StatsBy::ALL.iter().copied().find(|by| by.as_str() == word).ok_or_else(|| {
        Problem::malformed("by", format!("{word:?} is none of none, kind, group, manifest and outcome"))
    })?;
    let to = match to {
        Some(text) => moment(&text, "/to")?,
        None => Micros::from(jiff::Timestamp::now()).offset(60_000_000),
    };
    let from = match from {
        Some(text) => moment(&text, "/from")?,
        None => to.offset(-3_600_000_000),
    };
    // Whole steps: half a minute has no row.
    let length = step.seconds() * 1_000_000;
    let from = Micros::EPOCH.offset(from.get().div_euclid(length) * length);
    if from < Micros::EPOCH || from >= to || (to.get() - from.get()) / length > STEPS_MAX {
        let detail =
            format!("from lies after 1970 and before to, by {STEPS_MAX} steps at most; take longer steps");
        return Err(unprocessable("range", detail).at("/from"));
    }
    let stats = state.reading.stats(from, to, step.seconds(), by).await?;
    let items = points(stats.items);
    Ok(Json(StatsAnswer { items, from: time(from), to: time(to), live_from: stats.live_from.map(time) }))
}

/// Rows of one step and key are one point.
fn points(stats: Vec<Stat>) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for stat in stats {
        let at = time(stat.at);
        if points.last().is_none_or(|last| last.at != at || last.key != stat.word) {
            points.push(Point {
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

/// How things stand.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NowAnswer {
    /// Jobs that wait, for whatever.
    waiting: Figure,
    /// Those of them that could be taken now, if there were room.
    due: Figure,
    /// Jobs that run.
    running: Figure,
    /// Dead letters that await a person.
    dead_letters: Figure,
    /// Nodes that were heard of in the last 30 seconds.
    nodes: u64,
    /// How long the first in line has been due. Of each route, the first two hundred of each line are looked at, of 50 routes.
    oldest_waiting_ms: Option<i64>,
    at: String,
}

/// A count that stops at ten thousand.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Figure {
    count: u64,
    /// There are at least so many, and perhaps more.
    at_least: bool,
}

impl Figure {
    pub(super) fn of(count: u64) -> Figure {
        Figure { count, at_least: count >= u64::from(COUNT_MAX) }
    }
}

/// How much waits, runs and needs a person, right now. Costs the same with a million jobs as with ten thousand.
#[utoipa::path(
    get, path = "/stats/now", operation_id = "stats_now", tag = "stats",
    security(("token" = ["read"])),
    responses((status = 200, body = NowAnswer),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn now(state: State<App>) -> Result<Json<NowAnswer>, Problem> {
    let StatNow { waiting, due, running, dead_letters, nodes, oldest_due_at, now } =
        state.reading.stat_now().await?;
    Ok(Json(NowAnswer {
        waiting: Figure::of(waiting),
        due: Figure::of(due),
        running: Figure::of(running),
        dead_letters: Figure::of(dead_letters),
        nodes,
        oldest_waiting_ms: oldest_due_at.map(|due| (now.get() - due.get()).max(0) / 1_000),
        at: time(now),
    }))
}
