//! The current state, for the overview page: counts by stage, running jobs, and upcoming ticks.

use std::time::Duration;

use lineclear_model::{Micros, Name};

use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::read::jobs::progress_of;
use crate::store::{COUNT_MAX, JobId, ProgressView, Store, StoreResult};

/// The jobs or manifests at one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageView {
    /// How many; counting stops at [`COUNT_MAX`].
    pub count: u64,
    /// Since when the oldest is there, where that is meaningful.
    pub since: Option<Micros>,
}

/// Counts for each stage of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineView {
    /// Manifests that are due and not planned yet.
    pub due: StageView,
    /// Jobs that are due later and were never claimed.
    pub scheduled: StageView,
    /// Jobs that wait to be dispatched.
    pub queued: StageView,
    /// Jobs that a limit holds back.
    pub held: StageView,
    /// Jobs that are paused, or whose kind no live node runs.
    pub parked: StageView,
    /// Jobs that were dispatched and not claimed yet.
    pub ready: StageView,
    /// Jobs that run.
    pub running: StageView,
    /// Jobs that failed and wait for a retry.
    pub retrying: StageView,
    /// Dead letters that await a person.
    pub dead: StageView,
    /// Whether the history has any execution.
    pub has_history: bool,
    /// The database's clock.
    pub now: Micros,
}

impl PipelineView {
    /// Whether all stages and the history are empty.
    pub fn is_empty(&self) -> bool {
        let all = [
            self.due,
            self.scheduled,
            self.queued,
            self.held,
            self.parked,
            self.ready,
            self.running,
            self.retrying,
            self.dead,
        ];
        !self.has_history && all.iter().all(|stage| stage.count == 0)
    }
}

/// A job that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningView {
    /// Its id.
    pub id: JobId,
    /// The kind of work.
    pub kind: String,
    /// The key of its manifest.
    pub manifest: Option<String>,
    /// The claim that runs.
    pub claim_no: u32,
    /// When it was claimed.
    pub claimed_at: Micros,
    /// The node that runs it.
    pub node: Option<String>,
    /// Its progress, if its handler reports any.
    pub progress: Option<ProgressView>,
    /// Its cancellation was requested.
    pub cancelling: bool,
}

/// A manifest with an upcoming tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpcomingView {
    /// Its key.
    pub key: Name,
    /// The kind of work.
    pub kind: String,
    /// Its group.
    pub group: Option<String>,
    /// When the tick is due.
    pub next_due_at: Micros,
}

fn stage(row: &Row, name: &'static str, since: Option<&'static str>) -> StoreResult<StageView> {
    let since = since.map(|since| row.get::<Option<Micros>>(since)).transpose()?.flatten();
    Ok(StageView { count: row.get::<u64>(name)?.min(u64::from(COUNT_MAX)), since })
}

fn pipeline_of(row: &Row) -> StoreResult<PipelineView> {
    Ok(PipelineView {
        due: stage(row, "due", Some("due_since"))?,
        scheduled: stage(row, "scheduled", None)?,
        queued: stage(row, "queued", None)?,
        held: stage(row, "held", None)?,
        parked: stage(row, "parked", None)?,
        ready: stage(row, "ready", Some("ready_since"))?,
        running: stage(row, "running", Some("running_since"))?,
        retrying: stage(row, "retrying", None)?,
        dead: stage(row, "dead", Some("dead_since"))?,
        has_history: row.get("has_history")?,
        now: row.get("now")?,
    })
}

impl Store {
    /// Counts jobs at each stage. Costs the same with a million jobs as with ten thousand.
    pub async fn pipeline(&self) -> StoreResult<PipelineView> {
        self.db.read(Query::one(Statement::StatPipeline, values![COUNT_MAX], pipeline_of)).await
    }

    /// Running jobs, the longest-running first.
    pub async fn running(&self, most: u32) -> StoreResult<Vec<RunningView>> {
        let of = |row: &Row| {
            Ok(RunningView {
                id: JobId(row.get("id")?),
                kind: row.get("kind")?,
                manifest: row.get("manifest_key")?,
                claim_no: row.get("claim_no")?,
                claimed_at: row.get("claimed_at")?,
                node: row.get("node_name")?,
                progress: progress_of(row)?,
                cancelling: row.get("cancelling")?,
            })
        };
        self.db.read(Query::each(Statement::ListRunning, values![most], of)).await
    }

    /// Manifests whose next tick is due within this time, the earliest first.
    pub async fn upcoming(&self, within: Duration, most: u32) -> StoreResult<Vec<UpcomingView>> {
        let within = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
        let of = |row: &Row| {
            Ok(UpcomingView {
                key: row.word("key", |key| Name::new(key).ok())?,
                kind: row.get("kind")?,
                group: row.get("group_name")?,
                next_due_at: row.get("next_due_at")?,
            })
        };
        self.db.read(Query::each(Statement::ListUpcoming, values![within, most], of)).await
    }
}
