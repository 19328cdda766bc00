//! settle: background_job → history, another try, or the dead letters.

pub(crate) mod dependents;
pub(crate) mod freed_groups;
pub(crate) mod settler;
pub(crate) mod success;
pub(crate) mod wake;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use lineclear_model::{DeadReason, Failure, Outcome, Verdict};

use crate::db::statements::Statement;
use crate::db::{Column, Params, Row, Session, Verb, values};
use crate::journey::claim::Claim;
use crate::journey::claim::renew::claim_columns;
use crate::journey::enqueue::insert::millis;
use crate::journey::isolate::{Attempt, isolate};
use crate::journey::settle::success::Success;
use crate::store::{ClaimRef, JobId, ManifestId, NodeId, Store, StoreError, StoreResult};
use crate::validate;

/// How a claim ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    pub(crate) claim: ClaimRef,
    /// Decides which locks are taken, so it comes only from the claim.
    pub(crate) manifest: Option<ManifestId>,
    pub(crate) outcome: Outcome,
    pub(crate) verdict: Verdict,
    /// An error to record with an outcome that is no failure.
    pub(crate) note: Option<Failure>,
    /// How long its handler ran, for a claim whose start was not recorded.
    pub(crate) ran: Option<Duration>,
}

impl Settlement {
    /// The settlement of a claim that ended with `outcome`, for which the rules say `verdict`.
    pub fn new(claim: &Claim, outcome: Outcome, verdict: Verdict) -> Settlement {
        Settlement {
            claim: claim.reference(),
            manifest: claim.manifest,
            outcome,
            verdict,
            note: None,
            ran: None,
        }
    }

    /// Records an error with it, although the outcome is no failure.
    pub(crate) fn with_note(self, note: Failure) -> Settlement {
        Settlement { note: Some(note), ..self }
    }

    /// Records how long its handler ran.
    pub(crate) fn with_run(self, ran: Duration) -> Settlement {
        Settlement { ran: Some(ran), ..self }
    }

    /// About what it takes in memory until it is written.
    pub(crate) fn bytes(&self) -> usize {
        let output = match &self.outcome {
            Outcome::Completed { output: Some(output) } => output.as_str().len(),
            _ => 0,
        };
        size_of::<Settlement>() + output + self.failure().map_or(0, |failure| failure.message.len())
    }

    /// The error to record.
    fn failure(&self) -> Option<&Failure> {
        self.outcome.failure().or(self.note.as_ref())
    }
}

/// How long a caller's settlement waits for a lock.
const LOCKED_PATIENCE: Duration = Duration::from_secs(10);
/// The pause before a locked settlement is tried again: about as long as another settler holds a lock.
const LOCKED_PAUSE: Duration = Duration::from_millis(10);

/// What is written instead of an outcome that no rule lets through.
const UNRECORDABLE: &str = "unrecordable";

impl Settlement {
    /// The job as a dead letter with the reason, for an outcome that the database refuses.
    pub(crate) fn as_unrecordable(&self, why: &str) -> Settlement {
        let failure = Failure::new(UNRECORDABLE, format!("the outcome could not be recorded: {why}"));
        let (outcome, verdict) =
            (Outcome::DeadLetter(failure), Verdict::Bury { reason: DeadReason::Permanent });
        Settlement { outcome, verdict, note: None, ..self.clone() }
    }

    /// The manifest that completes with it.
    fn completed_manifest(&self) -> Option<i64> {
        self.manifest.filter(|_| self.verdict == Verdict::Complete).map(|id| id.0)
    }

    /// What one of the databases would refuse, or keep as something else, is refused on both.
    fn check(&self) -> StoreResult<()> {
        let failure = self.failure();
        let texts = failure.map(|failure| [&failure.error_type, &failure.message]);
        if texts.is_some_and(|texts| texts.iter().any(|text| text.contains('\0'))) {
            return Err(StoreError::refused("text", "an error's text cannot have a NUL"));
        }
        Ok(())
    }
}

/// The result of a fenced write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FencedWrite {
    /// Written, now or by an earlier try whose answer was lost.
    Recorded,
    /// Another claim has the job, or it is over: nothing was changed.
    Stale,
}

/// What settling answers: per settlement, and what is to be done after the commit.
pub(crate) struct SettleAnswer {
    /// `None`: another transaction holds the job's row, or the state of its manifest; nothing was changed.
    pub(crate) settled: Vec<Option<FencedWrite>>,
    /// Limit keys that have a place free now.
    pub(crate) freed_keys: Vec<String>,
    /// Gated groups that have a place free now.
    pub(crate) freed_groups: Vec<i64>,
    /// Completed jobs whose manifests' states were held.
    pub(crate) unnoted: Vec<Success>,
}

/// Verb: settle many claims of one node.
pub(crate) struct Settle {
    pub(crate) node: NodeId,
    pub(crate) settlements: Vec<Settlement>,
}

impl Settle {
    /// A claim that was given twice is settled as it was given first. Without completed jobs of `locked` families.
    fn first_of_each(&self, locked: &HashSet<i64>) -> Vec<&Settlement> {
        let mut seen = HashSet::new();
        let is_free = |s: &&Settlement| !s.completed_manifest().is_some_and(|id| locked.contains(&id));
        self.settlements.iter().filter(|settlement| seen.insert(settlement.claim)).filter(is_free).collect()
    }

    fn completes_a_manifest(&self) -> bool {
        self.settlements.iter().any(|s| s.completed_manifest().is_some())
    }

    /// Locks what completed manifests are going to write; returns those of which another transaction holds something.
    async fn lock_families(&self, session: &mut Session) -> StoreResult<HashSet<i64>> {
        let completed = |s: &Settlement| s.completed_manifest();
        let manifests: BTreeSet<i64> = self.settlements.iter().filter_map(completed).collect();
        // Lock order: job rows, then the states of manifests and their dependents, together.
        let jobs: Vec<i64> = self.settlements.iter().map(|s| s.claim.job.0).collect();
        session.rows(Statement::SettleRows, values![jobs]).await?;
        let manifests: Vec<i64> = manifests.into_iter().collect();
        let mut locked = HashSet::new();
        for row in session.rows(Statement::SettleLock, values![manifests]).await? {
            if !row.get::<bool>("held")? {
                locked.insert(row.get("manifest_id")?);
            }
        }
        Ok(locked)
    }
}

impl Verb for Settle {
    type Answer = SettleAnswer;

    fn is_transaction(&self) -> bool {
        self.completes_a_manifest()
    }

    async fn run(&self, session: &mut Session) -> StoreResult<SettleAnswer> {
        self.settlements.iter().try_for_each(Settlement::check)?;
        let locked = match self.completes_a_manifest() {
            true => self.lock_families(session).await?,
            false => HashSet::new(),
        };
        let batch = columns(&self.first_of_each(&locked));
        let recorded =
            session.rows(Statement::Settle, Params { values: values![self.node.0], batch }).await?;

        crate::crash::point("settle.before_commit");
        let arrivals = arrivals(&recorded)?;
        if !arrivals.is_empty() {
            dependents::children(session, &arrivals).await?;
        }
        let (mut freed_keys, mut freed_groups, mut unnoted) = (Vec::new(), Vec::new(), Vec::new());
        for row in &recorded {
            freed_keys.extend(row.get::<Option<String>>("limit_key")?);
            freed_groups.extend(row.get::<Option<i64>>("group_id")?);
            if row.get("unnoted")? {
                let id = JobId(row.get("id")?);
                let settlement = self.settlements.iter().find(|settlement| settlement.claim.job == id);
                unnoted.extend(settlement.and_then(Success::of));
            }
        }
        Ok(SettleAnswer {
            settled: self.answer(session, &recorded).await?,
            freed_keys,
            freed_groups,
            unnoted,
        })
    }
}

/// Completed jobs of manifests: manifest → jobs.
fn arrivals(recorded: &[Row]) -> StoreResult<HashMap<i64, Vec<JobId>>> {
    let mut arrivals: HashMap<i64, Vec<JobId>> = HashMap::new();
    for row in recorded {
        if let Some(manifest) = row.get::<Option<i64>>("manifest_id")?
            && row.get::<String>("verdict")? == "complete"
        {
            arrivals.entry(manifest).or_default().push(JobId(row.get("id")?));
        }
    }
    Ok(arrivals)
}

impl Settle {
    fn releases(&self, claim: ClaimRef) -> bool {
        self.settlements.iter().any(|s| s.claim == claim && matches!(s.outcome, Outcome::Released))
    }

    /// Recorded now; or found in history, written by this node before; or still active, because it is locked; or stale.
    async fn answer(&self, session: &mut Session, recorded: &[Row]) -> StoreResult<Vec<Option<FencedWrite>>> {
        let mut ours: HashSet<ClaimRef> = HashSet::new();
        for row in recorded {
            ours.insert(ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? });
        }
        let missing: Vec<ClaimRef> =
            self.settlements.iter().map(|s| s.claim).filter(|c| !ours.contains(c)).collect();
        let mut locked: HashSet<ClaimRef> = HashSet::new();
        if !missing.is_empty() {
            for row in session.rows(Statement::SettleSeen, claim_columns(&missing)).await? {
                if row.get::<Option<i64>>("node")? != Some(self.node.0) {
                    continue;
                }
                let claim = ClaimRef { job: JobId(row.get("job_id")?), no: row.get("claim_no")? };
                match row.get::<Option<String>>("outcome")?.as_deref() {
                    None => locked.insert(claim),
                    // A claim that this node gave back, because its worker hung up, is no claim of that worker any more.
                    Some("released") if !self.releases(claim) => false,
                    // A claim that was taken back is in history, too, but not because this node settled it.
                    Some("lost") => false,
                    Some(_) => ours.insert(claim),
                };
            }
        }
        let of = |claim: &ClaimRef| match claim {
            claim if ours.contains(claim) => Some(FencedWrite::Recorded),
            claim if locked.contains(claim) => None,
            _ => Some(FencedWrite::Stale),
        };
        Ok(self.settlements.iter().map(|s| of(&s.claim)).collect())
    }
}

fn columns(settlements: &[&Settlement]) -> Vec<Column> {
    let texts =
        |of: fn(&Settlement) -> Option<String>| Column::Texts(settlements.iter().map(|s| of(s)).collect());
    let claims: Vec<ClaimRef> = settlements.iter().map(|s| s.claim).collect();
    let mut columns = claim_columns(&claims);
    columns.extend([
        texts(|s| Some(verdict_word(s.verdict).to_owned())),
        texts(|s| Some(s.outcome.word().as_str().to_owned())),
        texts(|s| output(&s.outcome)),
        texts(|s| s.failure().map(|failure| failure.error_type.clone())),
        texts(|s| s.failure().map(|failure| failure.message.clone())),
        texts(|s| s.failure().map(|failure| failure.fingerprint())),
        Column::Ints(settlements.iter().map(|s| Some(millis(delay(s.verdict)))).collect()),
        texts(|s| match s.verdict {
            Verdict::Bury { reason } => Some(reason.as_str().to_owned()),
            _ => None,
        }),
        Column::Ints(settlements.iter().map(|s| s.ran.map(micros)).collect()),
    ]);
    columns
}

fn micros(ran: Duration) -> i64 {
    i64::try_from(ran.as_micros()).unwrap_or(i64::MAX)
}

fn output(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Completed { output: Some(output) } => Some(output.as_str().to_owned()),
        _ => None,
    }
}

const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Complete => "complete",
        Verdict::Retry { .. } => "retry",
        Verdict::Bury { .. } => "bury",
        Verdict::Cancel => "cancel",
        Verdict::Snooze { .. } => "snooze",
        Verdict::Release => "release",
        Verdict::Park => "park",
    }
}

const fn delay(verdict: Verdict) -> Duration {
    match verdict {
        Verdict::Retry { after } | Verdict::Snooze { after } => after,
        _ => Duration::ZERO,
    }
}

impl Store {
    /// Settles claims of `node`; the answers are in the order of the settlements. They are one transaction, unless a
    /// rule refuses one of them: then that one is buried as unrecordable, and the others are settled without it.
    pub async fn settle(&self, node: NodeId, settlements: Vec<Settlement>) -> StoreResult<Vec<FencedWrite>> {
        validate::check_batch(settlements.len())?;
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let results = self.settle_within(node, &settlements, LOCKED_PATIENCE).await;
        self.note_successes().await?;
        results.into_iter().collect()
    }

    /// Settles claims of `node`, with a result for each, and waits for locks no longer than `patience`.
    pub(crate) async fn settle_within(
        &self,
        node: NodeId,
        settlements: &[Settlement],
        patience: Duration,
    ) -> Vec<StoreResult<FencedWrite>> {
        let mut results = self.settle_each(node, settlements).await;
        let give_up_at = Instant::now() + patience;
        while Instant::now() < give_up_at && results.iter().any(is_locked) {
            tokio::time::sleep(LOCKED_PAUSE).await;
            let locked: Vec<usize> = (0..results.len()).filter(|at| is_locked(&results[*at])).collect();
            let again: Vec<Settlement> = locked.iter().map(|at| settlements[*at].clone()).collect();
            for (at, result) in locked.into_iter().zip(self.settle_each(node, &again).await) {
                results[at] = result;
            }
        }
        results
    }

    /// Settles claims of `node`, with a result for each. An outcome that a rule refuses is buried as unrecordable. Waits for no lock:
    /// what another transaction holds is [`StoreError::Locked`].
    pub(crate) async fn settle_each(
        &self,
        node: NodeId,
        settlements: &[Settlement],
    ) -> Vec<StoreResult<FencedWrite>> {
        let together = Together { store: self, node };
        let mut results = isolate(&together, settlements).await;
        for (result, settlement) in results.iter_mut().zip(settlements) {
            if let Err(StoreError::Refused { rule, why, .. }) = result {
                let unrecordable = settlement.as_unrecordable(&format!("{rule}: {why}"));
                let buried = together.attempt(std::slice::from_ref(&unrecordable)).await;
                *result = buried.and_then(|answers| {
                    answers.first().copied().ok_or_else(|| crate::error::no_answer("settle"))
                });
            }
        }
        let locked =
            || StoreError::Locked { source: "the job, or the state of its manifest, is locked".into() };
        results.into_iter().map(|result| result.and_then(|answer| answer.ok_or_else(locked))).collect()
    }
}

/// Another transaction holds the row.
pub(crate) fn is_locked<T>(result: &StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::Locked { .. }))
}

struct Together<'a> {
    store: &'a Store,
    node: NodeId,
}

impl Attempt for Together<'_> {
    type Item = Settlement;
    type Answer = Option<FencedWrite>;

    async fn attempt(&self, settlements: &[Settlement]) -> StoreResult<Vec<Option<FencedWrite>>> {
        let answer = self.store.run(Settle { node: self.node, settlements: settlements.to_vec() }).await?;
        let queues = |s: &Settlement| s.verdict != Verdict::Complete || s.manifest.is_some();
        if !answer.freed_groups.is_empty() || settlements.iter().any(queues) {
            self.store.note_work();
        }
        self.store.freed_groups.add(answer.freed_groups);
        self.store.wake_or_warn(answer.freed_keys).await;
        self.store.successes.add(answer.unnoted);
        Ok(answer.settled)
    }
}
