//! What lists and details are made of.

use lineclear_model::job::{ExecutionOutcome, JobState, Origin};
use lineclear_model::secret::Secrets;
use lineclear_model::{DeadReason, Manifest, Micros, Name, Spec};

use crate::db::Row;
use crate::store::{DeadLetterId, JobId, LogLine, ManifestId, NodeId, ProgressView, StoreResult};

/// A job in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Where it is in its life.
    pub state: JobState,
    /// The kind of work, as it is stored.
    pub kind: String,
    /// The manifest it stands for.
    pub manifest: Option<ManifestId>,
    /// The key of that manifest.
    pub manifest_key: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The lane it waits in; unknown once it has completed or was cancelled.
    pub route: Option<String>,
    /// At most so many jobs with this key are active at a time; unknown once it is over.
    pub limit_key: Option<String>,
    /// Where it stands while it waits: later, ready, held or parked.
    pub phase: Option<String>,
    /// The tick it stands for.
    pub tick_at: Option<Micros>,
    /// What made it.
    pub origin: Origin,
    /// Claims so far.
    pub claim_no: u32,
    /// Tries that failed since it was accepted or revived; unknown once it is over.
    pub failures: Option<u32>,
    /// When it was accepted.
    pub created_at: Micros,
    /// When it is or was due.
    pub due_at: Micros,
    /// When it ended.
    pub finished_at: Option<Micros>,
    /// Who runs or ran it.
    pub node: Option<NodeId>,
    /// The name of that node, if it is still known.
    pub node_name: Option<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// How far it is, while it runs and if its handler says so.
    pub progress: Option<ProgressView>,
}

impl JobView {
    pub(crate) fn of(row: &Row) -> StoreResult<JobView> {
        Ok(JobView {
            id: JobId(row.get("id")?),
            state: row.word("state", JobState::from_word)?,
            kind: row.get("kind")?,
            manifest: row.get::<Option<i64>>("manifest_id")?.map(ManifestId),
            manifest_key: row.get("manifest_key")?,
            group: row.get("group_name")?,
            tags: tags_of(row)?,
            route: row.get("route")?,
            limit_key: row.get("limit_key")?,
            phase: row.get("phase")?,
            tick_at: row.get("tick_at")?,
            origin: row.word("origin", Origin::from_word)?,
            claim_no: row.get("claim_no")?,
            failures: row.get("failures")?,
            created_at: row.get("created_at")?,
            due_at: row.get("due_at")?,
            finished_at: row.get("finished_at")?,
            node: row.get::<Option<i64>>("node")?.map(NodeId),
            node_name: row.get("node_name")?,
            last_error: row.get("last_error")?,
            progress: progress_of(row)?,
        })
    }
}

fn tags_of(row: &Row) -> StoreResult<Vec<String>> {
    let text: Option<String> = row.get("tags")?;
    Ok(text.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect())
}

pub(crate) fn progress_of(row: &Row) -> StoreResult<Option<ProgressView>> {
    let text: Option<String> = row.get("progress")?;
    // Only shown: one that cannot be read must not hide its job.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// One step of a job's handler.
#[derive(Clone, Debug, PartialEq)]
pub struct StepView {
    /// Its name.
    pub name: String,
    /// The claim that did it last.
    pub claim_no: u32,
    /// What it returned, as JSON; `None`: it failed.
    pub output: Option<String>,
    /// How it failed.
    pub error: Option<String>,
    /// When it began.
    pub started_at: Micros,
    /// When it ended.
    pub finished_at: Micros,
}

pub(crate) fn step_of(row: &Row) -> StoreResult<StepView> {
    Ok(StepView {
        name: row.get("name")?,
        claim_no: row.get("claim_no")?,
        output: row.get("output")?,
        error: row.get("error")?,
        started_at: row.get("started_at")?,
        finished_at: row.get("finished_at")?,
    })
}

/// A line, and the claim it belongs to.
pub(crate) fn log_line_of(row: &Row) -> StoreResult<(u32, LogLine)> {
    let line = LogLine {
        line_no: row.get("line_no")?,
        logged_at: row.get("logged_at")?,
        level: row.get("level")?,
        target: row.get("target")?,
        message: row.get("message")?,
    };
    Ok((row.get("claim_no")?, line))
}

/// One ended claim of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionView {
    /// Its number.
    pub claim_no: u32,
    /// Whether it ended the job.
    pub is_final: bool,
    /// How it ended.
    pub outcome: ExecutionOutcome,
    /// Who ran it.
    pub node: Option<NodeId>,
    /// The name of that node, if it is still known.
    pub node_name: Option<String>,
    /// What the handler returned.
    pub output: Option<String>,
    /// What kind of error.
    pub error_type: Option<String>,
    /// What it said.
    pub error_message: Option<String>,
    /// The family of errors it belongs to.
    pub fingerprint: Option<String>,
    /// When it was claimed.
    pub claimed_at: Option<Micros>,
    /// When it ended.
    pub finished_at: Micros,
}

/// A job with its input and its claims.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    /// The job.
    pub job: JobView,
    /// What its handler gets or got.
    pub input: Option<String>,
    /// Its ended claims, oldest first; of more than [`crate::read::PAGE_MAX`] the last ones.
    pub executions: Vec<ExecutionView>,
    /// The recorded steps of its handler, in their order.
    pub steps: Vec<StepView>,
    /// What of its input and outputs must not be shown.
    pub secrets: Secrets,
    /// When the claim that runs it began; `None`: it does not run.
    pub claimed_at: Option<Micros>,
    /// What time it is there.
    pub now: Micros,
}

/// What the manifest of a job marks as secret, or marked once; its row stays when it is removed. One that cannot be read, or is not
/// there, may have marked anything.
pub(crate) fn secrets_of(row: &Row) -> StoreResult<Secrets> {
    let manifest: Option<i64> = row.get("manifest_id")?;
    let spec: Option<String> = row.get("spec")?;
    Ok(match (manifest, spec) {
        (None, _) => Secrets::by_name(),
        (Some(_), Some(spec)) => Secrets::marked(&Spec::secret_fields(&spec)),
        (Some(_), None) => Secrets::all(),
    })
}

/// A manifest in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestView {
    /// Its row.
    pub id: ManifestId,
    /// Its key.
    pub key: Name,
    /// Grows with every change.
    pub version: i64,
    /// What it says, or why that cannot be read: one broken row must not hide the others.
    pub manifest: Result<Manifest, String>,
    /// Waits for a person to look at its dead letter.
    pub held: bool,
    /// The next tick.
    pub next_due_at: Option<Micros>,
    /// When one of its jobs last completed.
    pub last_success_at: Option<Micros>,
    /// Which one.
    pub last_success_job: Option<JobId>,
}

/// What became of a tick, or of a range of ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickView {
    /// The tick, or the first of a skipped range.
    pub tick_at: Micros,
    /// The last of a skipped range.
    pub until_tick_at: Option<Micros>,
    /// The job it became.
    pub job: Option<JobId>,
    /// Why it became none.
    pub skip_reason: Option<String>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its name; `*` is everybody's.
    pub name: String,
    /// Its limit.
    pub limit: Option<u32>,
    /// Its priority.
    pub priority: u8,
    /// Its switch.
    pub enabled: bool,
    /// Its jobs that are handed out now.
    pub active: u64,
    /// Grows with every change.
    pub version: i64,
}

impl GroupView {
    pub(crate) fn of(row: &Row) -> StoreResult<GroupView> {
        Ok(GroupView {
            name: row.get("name")?,
            limit: row.get("max_active")?,
            priority: row.get("priority")?,
            enabled: row.get("enabled")?,
            active: row.get("active")?,
            version: row.get("version")?,
        })
    }
}

/// A dead letter in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterView {
    /// Its id.
    pub id: DeadLetterId,
    /// Its job.
    pub job: JobId,
    /// Key of its manifest.
    pub manifest: Option<String>,
    /// The kind of work.
    pub kind: String,
    /// Why it died.
    pub reason: DeadReason,
    /// The family of errors.
    pub fingerprint: Option<String>,
    /// awaiting, revived or acknowledged.
    pub status: String,
    /// What a person wrote.
    pub note: Option<String>,
    /// Tries that failed.
    pub failures: u32,
    /// Workers that vanished.
    pub crashes: u32,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When it died.
    pub dead_at: Micros,
    /// When it was resolved.
    pub resolved_at: Option<Micros>,
    /// By whom.
    pub resolved_by: Option<String>,
}

/// A node in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Its machine.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Unique for each start of a process.
    pub incarnation: String,
    /// Version of the program.
    pub version: String,
    /// What it does, as a JSON list.
    pub roles: String,
    /// The routes it serves, as a JSON list.
    pub routes: String,
    /// The kinds it runs, as a JSON list; `None`: it is of a version that does not say.
    pub kinds: Option<String>,
    /// Jobs it can run at once.
    pub slots: u32,
    /// How its runners are, as JSON: passes, failures, the last error, and how long ago the last pass was.
    pub runners: String,
    /// When it started.
    pub started_at: Micros,
    /// When it was last heard of, on the database's clock.
    pub seen_at: Micros,
    /// Since when it shall take nothing new; `None`: it takes work.
    pub drain_at: Option<Micros>,
    /// Who said so.
    pub drain_by: Option<String>,
    /// It has heard of it, and takes nothing any more.
    pub takes_nothing: bool,
    /// Jobs that it holds.
    pub holds: u64,
    /// What time it is there now.
    pub now: Micros,
}

/// A node that was not heard of for so long is silent.
const SILENT_AFTER: i64 = 30_000_000;

impl NodeView {
    /// How far its clock is before the database's, by its own last measurement; `None`: it has not said so yet.
    pub fn clock_skew_ms(&self) -> Option<i64> {
        let report: serde_json::Value = serde_json::from_str(&self.runners).ok()?;
        report["clock"]["skew_ms"].as_i64()
    }

    /// In one word: alive, draining, drained (it holds nothing any more), silent or lost (silent with jobs in its hands).
    pub fn state(&self) -> &'static str {
        match (self.now.get() - self.seen_at.get(), self.drain_at) {
            (SILENT_AFTER.., _) if self.holds > 0 => "lost",
            (SILENT_AFTER.., _) => "silent",
            (_, Some(_)) if self.takes_nothing && self.holds == 0 => "drained",
            (_, Some(_)) => "draining",
            (_, None) => "alive",
        }
    }
}

pub(crate) fn execution_of(row: &Row) -> StoreResult<ExecutionView> {
    Ok(ExecutionView {
        claim_no: row.get("claim_no")?,
        is_final: row.get("final")?,
        outcome: row.word("outcome", ExecutionOutcome::from_word)?,
        node: row.get::<Option<i64>>("node")?.map(NodeId),
        node_name: row.get("node_name")?,
        output: row.get("output")?,
        error_type: row.get("error_type")?,
        error_message: row.get("error_message")?,
        fingerprint: row.get("fingerprint")?,
        claimed_at: row.get("claimed_at")?,
        finished_at: row.get("finished_at")?,
    })
}

pub(crate) fn dead_letter_of(row: &Row) -> StoreResult<DeadLetterView> {
    Ok(DeadLetterView {
        id: DeadLetterId(row.get("id")?),
        job: JobId(row.get("job_id")?),
        manifest: row.get("manifest_key")?,
        kind: row.get("kind")?,
        reason: row.word("reason", DeadReason::from_word)?,
        fingerprint: row.get("fingerprint")?,
        status: row.get("status")?,
        note: row.get("note")?,
        failures: row.get("failures")?,
        crashes: row.get("crashes")?,
        last_error: row.get("last_error")?,
        dead_at: row.get("dead_at")?,
        resolved_at: row.get("resolved_at")?,
        resolved_by: row.get("resolved_by")?,
    })
}
