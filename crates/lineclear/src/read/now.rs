//! How things stand right now, for a screen: stages, what runs, and what comes next.

use std::time::Duration;

use lineclear_model::{Micros, Name};

use crate::db::statements::Statement;
use crate::db::{Row, Value};
use crate::read::rows::progress_of;
use crate::store::{COUNT_MAX, JobId, ProgressView, Store, StoreError, StoreResult};

/// What stands at one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageView {
    /// How much; counting stops at [`COUNT_MAX`].
    pub count: u64,
    /// Since when the first of it, where that says something.
    pub since: Option<Micros>,
}

/// The stages of a job's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineView {
    /// Manifests whose time has come, and that are not planned yet.
    pub due: StageView,
    /// Jobs that are due later, and were never tried.
    pub scheduled: StageView,
    /// Jobs that wait to be dispatched.
    pub queued: StageView,
    /// Jobs that wait for a place under a limit.
    pub held: StageView,
    /// Jobs that are paused, or that nobody alive can run.
    pub parked: StageView,
    /// Jobs that were handed to workers and not taken yet.
    pub ready: StageView,
    /// Jobs that run.
    pub running: StageView,
    /// Jobs that failed, and wait for their next try.
    pub retrying: StageView,
    /// Dead letters that await a person.
    pub dead: StageView,
    /// Whether anything has ever ended that is still kept.
    pub has_history: bool,
    /// What time it is there.
    pub now: Micros,
}

impl PipelineView {
    /// Whether nothing stands anywhere, and nothing ever did.
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
    /// Since when.
    pub claimed_at: Micros,
    /// Who runs it.
    pub node: Option<String>,
    /// How far it is, if its handler says so.
    pub progress: Option<ProgressView>,
    /// Somebody asked for its end.
    pub cancelling: bool,
}

/// A manifest whose next tick comes soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpcomingView {
    /// Its key.
    pub key: Name,
    /// The kind of work.
    pub kind: String,
    /// Its group.
    pub group: Option<String>,
    /// When.
    pub next_due_at: Micros,
}

fn stage(row: &Row, name: &'static str, since: Option<&'static str>) -> StoreResult<StageView> {
    let since = since.map(|since| row.get::<Option<Micros>>(since)).transpose()?.flatten();
    Ok(StageView { count: row.get::<u64>(name)?.min(u64::from(COUNT_MAX)), since })
}

impl Store {
    /// How much stands at each stage. Costs the same with a million jobs as with ten thousand.
    pub async fn pipeline(&self) -> StoreResult<PipelineView> {
        let rows =
            self.read_rows(Statement::StatPipeline, vec![Value::Int(Some(i64::from(COUNT_MAX)))]).await?;
        let row = rows
            .first()
            .ok_or_else(|| StoreError::Corrupt { what: "stat_pipeline did not answer".to_owned() })?;
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

    /// Jobs that run, the longest first.
    pub async fn running(&self, most: u32) -> StoreResult<Vec<RunningView>> {
        let rows = self.read_rows(Statement::ListRunning, vec![Value::Int(Some(i64::from(most)))]).await?;
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
        rows.iter().map(of).collect()
    }

    /// Manifests whose next tick comes within this time, the next first.
    pub async fn upcoming(&self, within: Duration, most: u32) -> StoreResult<Vec<UpcomingView>> {
        let within = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
        let params = vec![Value::Int(Some(within)), Value::Int(Some(i64::from(most)))];
        let of = |row: &Row| {
            Ok(UpcomingView {
                key: row.word("key", |key| Name::new(key).ok())?,
                kind: row.get("kind")?,
                group: row.get("group_name")?,
                next_due_at: row.get("next_due_at")?,
            })
        };
        self.read_rows(Statement::ListUpcoming, params).await?.iter().map(of).collect()
    }
}
