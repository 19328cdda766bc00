//! settle: background_job → history, another try, or the dead letters.

pub(crate) mod dependents;
pub(crate) mod settler;
pub(crate) mod wake;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lineclear_model::{DeadReason, Failure, Outcome, Verdict};

use crate::db::statements::Statement;
use crate::db::{Column, Row, Session, Value, Verb};
use crate::journey::claim::Claim;
use crate::journey::claim::renew::claim_columns;
use crate::journey::enqueue::insert::millis;
use crate::journey::isolate::{Attempt, isolate};
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
}

impl Settlement {
    /// The settlement of a claim that ended with `outcome`, for which the rules say `verdict`.
    pub fn new(claim: &Claim, outcome: Outcome, verdict: Verdict) -> Settlement {
        Settlement { claim: claim.reference(), manifest: claim.manifest, outcome, verdict }
    }
}

/// The error type that replaces an outcome which the database refuses.
const UNRECORDABLE: &str = "unrecordable";

impl Settlement {
    /// The job as a dead letter with the reason, for an outcome that the database refuses.
    pub(crate) fn as_unrecordable(&self, why: &str) -> Settlement {
        let failure = Failure::new(UNRECORDABLE, format!("the outcome could not be recorded: {why}"));
        let (outcome, verdict) =
            (Outcome::DeadLetter(failure), Verdict::Bury { reason: DeadReason::Permanent });
        Settlement { outcome, verdict, ..self.clone() }
    }

    /// Refuses values that one of the databases would refuse or change.
    fn check(&self) -> StoreResult<()> {
        let failure = self.outcome.failure();
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

/// The result of each settlement, and the limit keys that have a free slot now.
pub(crate) struct SettleAnswer {
    pub(crate) settled: Vec<FencedWrite>,
    pub(crate) freed_keys: Vec<String>,
}

/// Verb: settle many claims of one node.
pub(crate) struct Settle {
    pub(crate) node: NodeId,
    pub(crate) settlements: Vec<Settlement>,
}

impl Settle {
    /// Of two settlements of one claim, the first counts.
    fn first_of_each(&self) -> Vec<&Settlement> {
        let mut seen = HashSet::new();
        self.settlements.iter().filter(|settlement| seen.insert(settlement.claim)).collect()
    }

    fn completes_a_manifest(&self) -> bool {
        self.settlements.iter().any(|s| s.verdict == Verdict::Complete && s.manifest.is_some())
    }

    fn manifests(&self) -> Vec<i64> {
        let ids: HashSet<i64> = self.settlements.iter().filter_map(|s| s.manifest).map(|id| id.0).collect();
        ids.into_iter().collect()
    }
}

impl Verb for Settle {
    type Answer = SettleAnswer;

    fn is_transaction(&self) -> bool {
        self.completes_a_manifest()
    }

    async fn run(&self, session: &mut Session) -> StoreResult<SettleAnswer> {
        self.settlements.iter().try_for_each(Settlement::check)?;
        if self.completes_a_manifest() {
            // Lock order: job rows, then all state rows that the batch touches, children's included, together.
            let jobs = self.settlements.iter().map(|s| s.claim.job.0).collect();
            session.rows(Statement::SettleRows, vec![Value::Ints(jobs)]).await?;
            session.rows(Statement::SettleLock, vec![Value::Ints(self.manifests())]).await?;
        }
        let recorded = session.rows(Statement::Settle, columns(&self.first_of_each())).await?;

        crate::crash::point("settle.before_commit");
        let arrivals = arrivals(&recorded)?;
        if !arrivals.is_empty() {
            dependents::children(session, &arrivals).await?;
        }
        let freed_keys = recorded
            .iter()
            .map(|row| row.get::<Option<String>>("limit_key"))
            .collect::<StoreResult<Vec<_>>>()?;
        Ok(SettleAnswer {
            settled: self.answer(session, &recorded).await?,
            freed_keys: freed_keys.into_iter().flatten().collect(),
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
    /// Recorded now; or found in history, written by this node before; or stale.
    async fn answer(&self, session: &mut Session, recorded: &[Row]) -> StoreResult<Vec<FencedWrite>> {
        let mut ours: HashSet<ClaimRef> = HashSet::new();
        for row in recorded {
            ours.insert(ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? });
        }
        let missing: Vec<ClaimRef> =
            self.settlements.iter().map(|s| s.claim).filter(|c| !ours.contains(c)).collect();
        if !missing.is_empty() {
            for row in session.rows(Statement::SettleSeen, claim_columns(&missing)).await? {
                // A reclaimed claim is in history, too, but this node did not settle it.
                let by_us = row.get::<Option<i64>>("node")? == Some(self.node.0)
                    && row.get::<String>("outcome")? != "lost";
                if by_us {
                    ours.insert(ClaimRef { job: JobId(row.get("job_id")?), no: row.get("claim_no")? });
                }
            }
        }
        let of =
            |claim: &ClaimRef| if ours.contains(claim) { FencedWrite::Recorded } else { FencedWrite::Stale };
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
        texts(|s| s.outcome.failure().map(|failure| failure.error_type.clone())),
        texts(|s| s.outcome.failure().map(|failure| failure.message.clone())),
        texts(|s| s.outcome.failure().map(|failure| failure.fingerprint())),
        Column::Ints(settlements.iter().map(|s| Some(millis(delay(s.verdict)))).collect()),
        texts(|s| match s.verdict {
            Verdict::Bury { reason } => Some(reason.as_str().to_owned()),
            _ => None,
        }),
    ]);
    columns
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
        self.settle_each(node, &settlements).await.into_iter().collect()
    }

    /// Settles claims of `node`, with a result for each. An outcome that a rule refuses is buried as unrecordable.
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
        results
    }
}

struct Together<'a> {
    store: &'a Store,
    node: NodeId,
}

impl Attempt for Together<'_> {
    type Item = Settlement;
    type Answer = FencedWrite;

    async fn attempt(&self, settlements: &[Settlement]) -> StoreResult<Vec<FencedWrite>> {
        let answer = self.store.run(Settle { node: self.node, settlements: settlements.to_vec() }).await?;
        self.store.wake_or_warn(answer.freed_keys).await;
        Ok(answer.settled)
    }
}
