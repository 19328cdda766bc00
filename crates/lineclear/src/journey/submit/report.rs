//! What remote workers report about their claims: they renew, and they settle.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lineclear_model::{Backoff, Name, Outcome, Verdict, judge};

use crate::client::Client;
use crate::db::Query;
use crate::db::statements::Statement;
use crate::handler::KindOptions;
use crate::journey::claim::renew::claim_columns;
use crate::journey::claim::renewer::lease;
use crate::journey::execute::policy;
use crate::journey::settle::is_locked;
use crate::journey::submit::claim_token::BadClaimToken;
use crate::node::{Event, JobEvent, metrics};
use crate::store::{
    Claim, ClaimRef, FencedWrite, JobId, Lease, ManifestId, NodeId, Renewal, Settlement, Store, StoreResult,
};
use crate::validate;

/// How long the settlement of a remote worker waits for a lock: about as long as another settler holds one. The
/// worker's other results wait meanwhile.
const LOCKED_PATIENCE: Duration = Duration::from_millis(200);

/// What decides how a claim is settled. None of it changes while the claim lasts, but for the holder, when a submitter passes its lease on.
#[derive(Clone)]
pub(super) struct ClaimFacts {
    claim: ClaimRef,
    holder: NodeId,
    manifest: Option<ManifestId>,
    kind: Option<Name>,
    failures: u32,
    retries: Option<u32>,
    backoff: Option<Backoff>,
}

impl ClaimFacts {
    /// Those of a claim that a worker was given.
    pub(super) fn of(claim: &Claim, holder: NodeId) -> ClaimFacts {
        ClaimFacts {
            claim: claim.reference(),
            holder,
            manifest: claim.manifest,
            kind: Some(claim.kind.clone()),
            failures: claim.failures,
            retries: claim.retries,
            backoff: claim.backoff,
        }
    }
}

impl Store {
    async fn claim_facts(&self, claims: &[ClaimRef]) -> StoreResult<HashMap<ClaimRef, ClaimFacts>> {
        validate::check_batch(claims.len())?;
        if claims.is_empty() {
            return Ok(HashMap::new());
        }
        let read = Query::each(Statement::ClaimFacts, claim_columns(claims), |row| {
            Ok(ClaimFacts {
                claim: ClaimRef { job: JobId(row.get("id")?), no: row.get("claim_no")? },
                holder: NodeId(row.get("leased_by")?),
                manifest: row.get::<Option<i64>>("manifest_id")?.map(ManifestId),
                kind: Name::new(row.get::<String>("kind")?).ok(),
                failures: row.get("failures")?,
                retries: row.get("retries")?,
                backoff: Claim::backoff(row)?,
            })
        });
        let facts = self.db.read(read).await?;
        Ok(facts.into_iter().map(|facts| (facts.claim, facts)).collect())
    }

    /// The node that has the lease of a claim. `None`: the claim is over.
    pub(super) async fn holder(&self, claim: ClaimRef) -> StoreResult<Option<NodeId>> {
        Ok(self.claim_facts(&[claim]).await?.get(&claim).map(|facts| facts.holder))
    }
}

impl Client {
    /// Renews leases of a worker.
    pub async fn renew_claims(&self, node: NodeId, claims: Vec<ClaimRef>) -> StoreResult<Vec<Renewal>> {
        self.shared.remote_workers.heard().insert(node);
        let length = lease(&self.shared).length;
        self.shared.store.renew(Lease { node, length }, claims).await
    }

    /// How long a lease lasts.
    pub fn lease_length(&self) -> Duration {
        lease(&self.shared).length
    }

    /// How long a job of this kind may run, unless the job says otherwise.
    pub fn timeout_of(&self, claim: &Claim) -> Duration {
        claim.timeout.unwrap_or_else(|| self.options_of(&claim.kind).timeout)
    }

    /// Keys of the manifests of these claims.
    pub async fn manifest_keys_of(&self, claims: &[Claim]) -> HashMap<ManifestId, String> {
        let ids: BTreeSet<ManifestId> = claims.iter().filter_map(|claim| claim.manifest).collect();
        self.shared.manifest_keys.of(&self.shared, ids.into_iter().collect()).await
    }

    fn options_of(&self, kind: &Name) -> KindOptions {
        let known = self.shared.kinds.get(kind).map(|kind| kind.options.clone());
        known.unwrap_or_else(|| self.shared.routing.defaults.clone())
    }

    /// Judges outcomes by the retry policies of their jobs, and settles them. The answers are in the order of the outcomes. `None`: another
    /// transaction holds the job's row, and nothing was changed; settle it again.
    pub async fn settle_claims(
        &self,
        node: NodeId,
        outcomes: Vec<(ClaimRef, Outcome)>,
    ) -> StoreResult<Vec<Option<FencedWrite>>> {
        let shared = &self.shared;
        let claims: Vec<ClaimRef> = outcomes.iter().map(|(claim, _)| *claim).collect();
        validate::check_batch(claims.len())?;
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        // This node gave most of them out itself; the others come from the database.
        let (mut facts, unknown) = shared.remote_workers.facts_of(&claims);
        facts.extend(shared.store.claim_facts(&unknown).await?);
        let settlement = |(claim, outcome): (ClaimRef, Outcome)| {
            // Without a row it is over: settling says whether this worker ended it.
            let Some(facts) = facts.get(&claim) else {
                return Settlement {
                    claim,
                    manifest: None,
                    outcome,
                    verdict: Verdict::Release,
                    note: None,
                    ran: None,
                };
            };
            let options = facts.kind.as_ref().map(|kind| self.options_of(kind)).unwrap_or_default();
            let policy = policy(&options, facts.retries, facts.backoff);
            let verdict = judge(&outcome, facts.failures, &policy);
            Settlement { claim, manifest: facts.manifest, outcome, verdict, note: None, ran: None }
        };
        let settlements: Vec<Settlement> = outcomes.into_iter().map(settlement).collect();
        let results = shared.store.settle_within(node, &settlements, LOCKED_PATIENCE).await;
        shared.store.note_successes().await?;
        let answer = |result: StoreResult<FencedWrite>| match result {
            locked if is_locked(&locked) => Ok(None),
            result => result.map(Some),
        };
        let answers: Vec<Option<FencedWrite>> =
            results.into_iter().map(answer).collect::<StoreResult<_>>()?;
        let settled = || settlements.iter().zip(&answers).filter(|(_, answer)| answer.is_some());
        let claims: Vec<ClaimRef> = settled().map(|(settlement, _)| settlement.claim).collect();
        shared.remote_workers.forget_claims(&claims);
        shared.waiters.settled(claims.iter().map(|claim| claim.job));
        for (settlement, _) in settled().filter(|(_, answer)| **answer == Some(FencedWrite::Recorded)) {
            let Some(kind) = facts.get(&settlement.claim).and_then(|facts| facts.kind.clone()) else {
                continue;
            };
            shared.polls.some_waiting(&kind);
            metrics::settled(&kind, settlement.outcome.word());
            if let Some(event) = Event::of(settlement) {
                shared.hooks.tell(|| JobEvent { job: settlement.claim.job, kind, event });
            }
        }
        let stale = answers.iter().filter(|answer| **answer == Some(FencedWrite::Stale)).count();
        if stale > 0 {
            metrics::stale(stale);
        }
        Ok(answers)
    }

    /// Which of these claims the worker still holds.
    pub async fn holds(&self, node: NodeId, claims: &[ClaimRef]) -> StoreResult<Vec<bool>> {
        let facts = self.shared.store.claim_facts(claims).await?;
        let holds = |claim: &ClaimRef| facts.get(claim).is_some_and(|facts| facts.holder == node);
        Ok(claims.iter().map(holds).collect())
    }

    /// A token that lets its bearer report about this claim, which one of the holders has, for so long from now.
    pub async fn claim_token(
        &self,
        claim: ClaimRef,
        holders: [NodeId; 2],
        valid: Duration,
    ) -> StoreResult<String> {
        self.shared.claim_tokens.issue(&self.shared, claim, holders, valid).await
    }

    /// The claim that a token is about, and the nodes that may hold its lease. The lease of an accepted job moves once, from the
    /// first to the second, and may do so at any moment: a write that is stale for the first must be tried with the second.
    pub async fn verify_claim_token(
        &self,
        token: &str,
    ) -> StoreResult<Result<(ClaimRef, Vec<NodeId>), BadClaimToken>> {
        let about = match self.shared.claim_tokens.check(&self.shared, token).await? {
            Ok(about) => about,
            Err(bad) => return Ok(Err(bad)),
        };
        let facts = self.shared.store.claim_facts(&[about.claim]).await?;
        let [submitted_by, accepted_by] = about.holders;
        let has_moved = facts.get(&about.claim).is_some_and(|facts| facts.holder == accepted_by);
        // A claim that is over was settled by either.
        let holders = if has_moved { vec![accepted_by] } else { vec![submitted_by, accepted_by] };
        Ok(Ok((about.claim, holders)))
    }
}
