//! The store: everything the engine may ask of a database. Verbs, not rows; each is one atomic transition, in the order
//! of the journey. PostgreSQL and SQLite pass the same tests.
//!
//! Reading for pages and programs is apart, in [`views`]: a page can never change a job.

mod access;
mod asking;
mod audit;
mod choice;
mod classify;
pub(crate) mod clock;
mod db;
mod declare;
mod door;
mod error;
mod gather;
pub(crate) mod head;
mod ids;
mod migrate;
mod options;
mod own;
mod secret;
mod sql;
mod verbs;
pub mod views;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lineclear_model::{GroupSpec, Manifest, Micros, Name, Payload};
use tokio::sync::watch;

use crate::trace;
pub use asking::{Count, STARTS_IN_MAX};
pub use choice::StoreChoice;
use db::{Db, Verb};
pub use declare::{Declaration, Prune};
pub use door::KEY_BYTES_MAX;
pub use error::{Source, StoreError, StoreResult};
use head::{FRONT, Head};
pub use ids::{AuditId, ClaimRef, DeadLetterId, JobId, ManifestId, NodeId, TokenId};
pub use migrate::{Migration, MigrationStatus};
pub use options::StoreOptions;
pub use secret::{Presented, Secret, SessionSecret};
pub use verbs::activate::Activated;
pub use verbs::audit::{AuditEnd, AuditFilter, AuditView, NewAudit};
pub use verbs::backfill::{BACKFILL_MAX, BackfillOptions, Backfilled};
pub use verbs::batch::{Action, Batch, BatchId, BatchStatus, NewBatch, PORTION};
pub use verbs::cancel::Cancelled;
pub use verbs::claim::{Claim, Lease};
pub use verbs::clean::{Cleaned, Retention};
pub use verbs::dead_letter::{DeadLetterFilter, Resolved, Revival};
pub use verbs::declare::{Change, Declared, Plan};
pub use verbs::dispatch::Limits;
pub use verbs::enqueue::{BATCH_MAX, Enqueued, NewJob, Placed, UniqueKey, WhenTaken, main_route};
pub use verbs::events::{About, EVENTS_MAX, EventView, Events};
pub use verbs::group::{GLOBAL_GROUP, Voice};
pub use verbs::log::{LOG_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, LogLine};
pub use verbs::look::{Look, RouteLook};
pub use verbs::manifest::Written;
pub use verbs::node::{Beat, Led, NodeInfo};
pub(crate) use verbs::notify::Hint;
pub use verbs::once::{Created, Creation, Once, OnceKey};
pub use verbs::plan::{NextPlan, PlanRules, Planned};
pub use verbs::progress::{PROGRESS_BYTES_MAX, ProgressView};
pub use verbs::reclaim::{Fate, Reclaimed};
pub(crate) use verbs::renew::Renewing;
pub use verbs::renew::{Renewal, RenewalStatus};
pub use verbs::retry::{Retried, RetryOptions};
pub use verbs::session::KnownSession;
pub use verbs::setting::{Override, Setting, Settings};
pub use verbs::settle::{Settled, Settlement};
pub use verbs::stats::{By, COUNT_MAX, STATS_MAX, Stat, StatNow, Stats};
pub use verbs::step::{Noted, StepRecord};
pub use verbs::token::{KnownToken, NewToken, TokenView, WhichToken};
pub use verbs::trigger::TriggerOptions;

use verbs::{
    activate, backfill, cancel, claim, clean, dead_letter, dispatch, enqueue, events, group, log, look,
    manifest, node, notify, once, over, parent, plan, progress, promote, reclaim, renew, setting, settle,
    stats, step, switch, trigger, wake,
};

/// The most that one statement takes, whatever it is asked for.
const BATCH: u32 = BATCH_MAX as u32;

/// Dead letters that one transaction resolves when all that match are.
const DEAD_LETTERS_PER_BATCH: u32 = 500;

/// How often a job that moves between tables is looked for.
const CANCEL_ROUNDS_MAX: u32 = 5;

/// Passes over the lane with limits in one dispatch.
const GATED_PASSES_MAX: u32 = 50;

/// Why listening ended.
pub(crate) enum Listening {
    /// The connection was closed.
    Ended,
    /// There is nothing to listen to.
    Impossible,
}

/// A database with our tables. Cheap to clone; all clones share its connections.
#[derive(Clone)]
pub struct Store {
    db: Db,
    options: Arc<StoreOptions>,
    /// Ids of groups by name; a group's id never changes.
    group_ids: Arc<Mutex<HashMap<Name, i64>>>,
    /// Where jobs that are enqueued one by one meet.
    gather: Arc<gather::Gather>,
    /// Part of a dispatch was not answered: there may be leases that nobody knows of.
    unanswered: Arc<AtomicBool>,
    /// Standing orders have changed; planners of this process hear of it here.
    orders: Arc<watch::Sender<()>>,
}

impl std::fmt::Debug for Store {
    /// Where it is, without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.options).finish()
    }
}

impl Store {
    /// Connects, and brings the schema up to date unless the options say otherwise.
    pub async fn open(options: StoreOptions) -> StoreResult<Store> {
        let db = Db::open(&options).await?;
        let store = Store {
            db,
            options: Arc::new(options),
            group_ids: Arc::default(),
            gather: gather::Gather::new(),
            unanswered: Arc::default(),
            orders: Arc::default(),
        };
        if store.options.migrates() {
            store.migrate().await?;
        }
        Ok(store)
    }

    /// How it was opened.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    async fn run<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        self.db.run(verb).await
    }

    /// A statement as it is sent to PostgreSQL, for whoever measures what the engine adds to it.
    #[doc(hidden)]
    pub fn statement_text(&self, name: &str) -> Option<&str> {
        let statement = sql::Statement::ALL.iter().find(|statement| statement.name() == name)?;
        match &self.db {
            Db::Postgres(db) => Some(db.text(*statement)),
            Db::Sqlite(_) => None,
        }
    }

    // 0 · the schema

    /// Applies migrations that are still missing. Any number of nodes may do so at once.
    pub async fn migrate(&self) -> StoreResult<MigrationStatus> {
        // A role that may not change the schema can use one that is up to date.
        let status = self.migration_status().await?;
        if status.pending.is_empty() {
            return Ok(status);
        }
        self.run(migrate::Migrate { options: (*self.options).clone(), apply: true }).await
    }

    /// How far the schema is, without changing it.
    pub async fn migration_status(&self) -> StoreResult<MigrationStatus> {
        self.run(migrate::Migrate { options: (*self.options).clone(), apply: false }).await
    }

    // 1 · standing orders

    /// Groups as they shall be, by name; [`GLOBAL_GROUP`] is everybody's.
    pub async fn upsert_groups(&self, groups: BTreeMap<String, GroupSpec>, voice: Voice) -> StoreResult<()> {
        self.write_groups(groups, voice, None).await
    }

    /// A group as a person wants it. With a version, only if it is still the one that the person has seen; otherwise it is refused
    /// (`changed_since`).
    pub async fn edit_group(&self, name: &str, spec: GroupSpec, seen: Option<i64>) -> StoreResult<()> {
        self.write_groups(BTreeMap::from([(name.to_owned(), spec)]), Voice::Edit, seen).await
    }

    async fn write_groups(
        &self,
        groups: BTreeMap<String, GroupSpec>,
        voice: Voice,
        seen: Option<i64>,
    ) -> StoreResult<()> {
        declare::check_groups(&groups)?;
        let advisory_key = self.options.advisory_key("declare");
        let repriced = self.run(group::UpsertGroups { groups, voice, advisory_key, seen }).await?;
        self.restamp(repriced).await
    }

    /// Manifests as they shall be, all or none, by key.
    pub async fn upsert_manifests(
        &self,
        manifests: impl IntoIterator<Item = Manifest>,
        voice: Voice,
    ) -> StoreResult<BTreeMap<Name, Written>> {
        let manifests = declare::by_key(manifests)?;
        self.upsert(manifests, voice, None).await
    }

    /// A manifest as a person wants it. With a version, only if it is still the one that the person has seen; otherwise it is
    /// refused (`changed_since`).
    pub async fn edit_manifest(&self, manifest: Manifest, seen: Option<i64>) -> StoreResult<Written> {
        let key = manifest.key.clone();
        let written = self.upsert(declare::by_key([manifest])?, Voice::Edit, seen).await?;
        Ok(written.get(&key).copied().unwrap_or(Written::Unchanged))
    }

    async fn upsert(
        &self,
        manifests: BTreeMap<Name, Manifest>,
        voice: Voice,
        seen: Option<i64>,
    ) -> StoreResult<BTreeMap<Name, Written>> {
        let advisory_key = self.options.advisory_key("declare");
        let upserted = self.run(manifest::UpsertManifests { manifests, voice, advisory_key, seen }).await?;
        self.wake_or_warn(upserted.limit_keys).await;
        self.orders_changed().await;
        Ok(upserted.written)
    }

    /// Pauses manifests: no new ticks, and waiting jobs step aside. Returns those that exist.
    pub async fn pause(&self, keys: Vec<Name>) -> StoreResult<Vec<Name>> {
        self.switch(keys, false).await
    }

    /// Resumes manifests. Ticks that fell into the pause are skipped.
    pub async fn resume(&self, keys: Vec<Name>) -> StoreResult<Vec<Name>> {
        self.switch(keys, true).await
    }

    async fn switch(&self, keys: Vec<Name>, enabled: bool) -> StoreResult<Vec<Name>> {
        let switched = self.run(switch::Switch { keys, enabled }).await?;
        self.wake_or_warn(switched.limit_keys).await;
        self.orders_changed().await;
        Ok(switched.found)
    }

    // 2 · new jobs

    /// Enqueues one job. Jobs that many callers enqueue at once share a commit, and each gets its own answer.
    pub async fn enqueue(&self, mut job: NewJob) -> StoreResult<Enqueued> {
        trace::carry(std::slice::from_mut(&mut job));
        door::check_jobs(std::slice::from_ref(&job))?;
        // Outside of a runtime (SQLite needs none) there is nobody who could send for others.
        if job.unique_key.is_some() || tokio::runtime::Handle::try_current().is_err() {
            let all = self.enqueue_many(vec![job]).await?;
            let unanswered = || StoreError::Corrupt { what: "enqueue did not answer".to_owned() };
            return all.into_iter().next().ok_or_else(unanswered);
        }
        let group_ids = self.group_ids(std::slice::from_ref(&job)).await?;
        let group_id = enqueue::group_id(&job, &group_ids)?;
        self.gather.enqueue(&self.db, job, group_id).await
    }

    /// Enqueues many jobs, all or none, in one statement. The answers are in the order of the jobs.
    pub async fn enqueue_many(&self, mut jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        trace::carry(&mut jobs);
        door::check_jobs(&jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let group_ids = self.group_ids(&jobs).await?;
        self.run(enqueue::Enqueue { jobs, group_ids }).await
    }

    /// Ids of the groups that jobs name, from memory where they are known.
    async fn group_ids(&self, jobs: &[NewJob]) -> StoreResult<HashMap<Name, i64>> {
        let mut named: Vec<Name> = jobs.iter().filter_map(|job| job.group.clone()).collect();
        named.sort_unstable();
        named.dedup();
        let known = |cache: &HashMap<Name, i64>| -> Option<HashMap<Name, i64>> {
            named.iter().map(|name| Some((name.clone(), *cache.get(name)?))).collect()
        };
        let cached = known(&self.group_ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        if let Some(found) = cached {
            return Ok(found);
        }
        let found = self.run(enqueue::GroupIds(named)).await?;
        let mut cache = self.group_ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        cache.extend(found.clone());
        Ok(found)
    }

    /// Runs a manifest now, or when the options say. `None`: there is no such manifest.
    pub async fn trigger(&self, key: Name, mut options: TriggerOptions) -> StoreResult<Option<JobId>> {
        options.trace = trace::or_callers(options.trace);
        door::check_due_at(options.due_at)?;
        self.run(trigger::Trigger { key, options }).await
    }

    /// Runs all enabled manifests of a group, all or none; returns the job of each. `None`: there is no such group.
    pub async fn trigger_group(
        &self,
        group: Name,
        mut options: TriggerOptions,
    ) -> StoreResult<Option<Vec<(Name, JobId)>>> {
        options.trace = trace::or_callers(options.trace);
        door::check_due_at(options.due_at)?;
        self.run(trigger::TriggerGroup { group, options }).await
    }

    /// Ticks of a manifest in `from..to` that did not run, because they were missed, skipped or before its time, become
    /// jobs, each once: doing it again adds nothing. Excluded times stay excluded. `None`: there is no such manifest.
    pub async fn backfill(
        &self,
        key: Name,
        from: Micros,
        to: Micros,
        options: BackfillOptions,
    ) -> StoreResult<Option<Backfilled>> {
        door::check_backfill(from, to, &options)?;
        self.run(backfill::Backfill { key, from, to, options }).await
    }

    /// Makes something once, whoever asks how often under this key: the same request again gets what `record` made of the
    /// first answer. Another request under the key is refused (`idempotency_key_reused`), and so is one while the first is
    /// under way (`idempotency_in_flight`). Where `record` says `None`, the key is free again.
    pub async fn create_once(
        &self,
        once: OnceKey,
        mut creation: Creation,
        record: impl Fn(&Created) -> Option<String> + Send + Sync + 'static,
    ) -> StoreResult<Once> {
        door::check_key(&once.key)?;
        [&once.principal, &once.request, &once.body_hash]
            .into_iter()
            .try_for_each(|text| door::check_text(text))?;
        let mut group_ids = HashMap::new();
        match &mut creation {
            Creation::Jobs(jobs) => {
                door::check_jobs(jobs)?;
                trace::carry(jobs);
                group_ids = self.group_ids(jobs).await?;
            }
            Creation::Run(_, options) | Creation::RunGroup(_, options) => {
                door::check_due_at(options.due_at)?;
                options.trace = trace::or_callers(options.trace.take());
            }
            Creation::Backfill { from, to, options, .. } => door::check_backfill(*from, *to, options)?,
        }
        let advisory_key = self.options.advisory_key(&format!("once/{}/{}", once.principal, once.key));
        let record: once::Record = Arc::new(record);
        let answer = self.run(once::CreateOnce { once, advisory_key, creation, group_ids, record }).await?;
        crate::crash::point("once.after_commit");
        Ok(answer)
    }

    // 3 · plan

    /// One planning pass: ticks that have come become jobs, or recorded skips.
    pub async fn plan(&self, rules: PlanRules) -> StoreResult<Planned> {
        self.plan_except(rules, Vec::new()).await
    }

    /// The same, but jobs that the caller runs itself are not given up: a node that slept must not call itself dead.
    pub async fn plan_except(&self, rules: PlanRules, ours: Vec<JobId>) -> StoreResult<Planned> {
        let advisory_key = self.options.advisory_key("plan");
        let planned = self.run(plan::Plan { rules, advisory_key, ours }).await?;
        if let Planned::Led { reaped, .. } = &planned {
            self.wake_or_warn(reaped.iter().filter_map(|r| r.limit_key.clone()).collect()).await;
        }
        Ok(planned)
    }

    /// When the next manifest is due.
    pub async fn next_plan(&self) -> StoreResult<NextPlan> {
        self.db.read(plan::PlanNext).await
    }

    // 4 · dispatch

    /// Whether there is anything to do on some routes; what was handed over is counted up to `count_to`. Changes nothing.
    pub async fn look_for_work(&self, routes: Vec<Name>, count_to: u32) -> StoreResult<Look> {
        self.db.read(look::LookAt { routes, count_to }).await
    }

    /// Brings up to `most` jobs whose time has come into the line; returns how many.
    pub async fn promote(&self, most: u32) -> StoreResult<u64> {
        self.run(promote::Promote { most: most.min(BATCH) }).await
    }

    /// Hands up to `most` jobs of a route over to whoever claims them.
    pub async fn dispatch(&self, route: Name, most: u32) -> StoreResult<Vec<JobId>> {
        self.dispatch_within(route, most, Limits::Exact).await
    }

    /// The same, with limits as exact as asked for.
    pub async fn dispatch_within(&self, route: Name, most: u32, limits: Limits) -> StoreResult<Vec<JobId>> {
        self.dispatch_from(&mut Head::unknown(), route, most, limits).await
    }

    /// The same, by one who remembers where the line begins.
    pub(crate) async fn dispatch_from(
        &self,
        head: &mut Head,
        route: Name,
        most: u32,
        limits: Limits,
    ) -> StoreResult<Vec<JobId>> {
        let wants = dispatch::Wants { route, most: most.min(BATCH), lease: None, limits, from: head.start() };
        dispatch::ids(&self.take(wants, head).await?)
    }

    /// Takes up to `most` jobs of a route straight into leases.
    pub async fn dispatch_into_lease(&self, route: Name, most: u32, lease: Lease) -> StoreResult<Vec<Claim>> {
        self.dispatch_into_lease_within(route, most, lease, Limits::Exact).await
    }

    /// The same, with limits as exact as asked for.
    pub async fn dispatch_into_lease_within(
        &self,
        route: Name,
        most: u32,
        lease: Lease,
        limits: Limits,
    ) -> StoreResult<Vec<Claim>> {
        self.dispatch_into_lease_from(&mut Head::unknown(), route, most, lease, limits).await
    }

    /// The same, by one who remembers where the line begins.
    pub(crate) async fn dispatch_into_lease_from(
        &self,
        head: &mut Head,
        route: Name,
        most: u32,
        lease: Lease,
        limits: Limits,
    ) -> StoreResult<Vec<Claim>> {
        let wants =
            dispatch::Wants { route, most: most.min(BATCH), lease: Some(lease), limits, from: head.start() };
        let rows = self.take(wants, head).await?;
        self.read_claims(&rows, lease.node).await
    }

    /// The lane without limits in one statement; if there is more behind a gate, a transaction for the rest.
    async fn take(&self, wants: dispatch::Wants, head: &mut Head) -> StoreResult<Vec<db::Row>> {
        if wants.most == 0 {
            return Ok(Vec::new());
        }
        let open = self.take_open(&wants, head).await?;
        let left = wants.most - open.taken();
        let look_again = left > 0 && open.is_worth_another_look();
        let handed = open.handed();
        let mut rows = open.into_rows();
        if let Some(lease) = wants.lease
            && left > 0
            && handed
        {
            // Somebody dispatched without running: who has a free slot claims.
            match self.run(claim::ClaimJobs { route: wants.route.clone(), most: left, lease }).await {
                Ok(claimed) => rows.extend(claimed),
                Err(error) if rows.is_empty() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "dispatched jobs could not be claimed");
                    self.unanswered.store(true, Ordering::Relaxed);
                }
            }
        }
        if look_again {
            self.take_gated(wants, head, &mut rows).await?;
        }
        Ok(rows)
    }

    /// From where the line was last seen to begin; if that is not enough, from its front.
    async fn take_open(&self, wants: &dispatch::Wants, head: &mut Head) -> StoreResult<dispatch::OpenPass> {
        let began = Instant::now();
        let open = self.run(dispatch::DispatchOpen(wants.clone())).await?;
        if let Some(rank) = open.reached().filter(|_| open.taken() == wants.most) {
            head.reached(rank, wants.from, began.elapsed());
            return Ok(open);
        }
        // Behind a gate, the pass that follows looks at the front if there is not enough.
        if wants.from == FRONT || open.is_worth_another_look() {
            return Ok(open);
        }
        *head = Head::unknown();
        let front = dispatch::Wants { most: wants.most - open.taken(), from: FRONT, ..wants.clone() };
        match self.run(dispatch::DispatchOpen(front)).await {
            Ok(front) => Ok(open.and(front)),
            Err(error) if open.taken() == 0 => Err(error),
            // What was taken is taken: dropped here, it would wait for its lease to end.
            Err(error) => {
                tracing::warn!(%error, "the front of the line could not be dispatched");
                self.unanswered.store(true, Ordering::Relaxed);
                Ok(open)
            }
        }
    }

    /// The lane with limits, until there is nothing more for free slots: each pass fills a few groups, and sees so far.
    async fn take_gated(
        &self,
        wants: dispatch::Wants,
        head: &mut Head,
        rows: &mut Vec<db::Row>,
    ) -> StoreResult<()> {
        let (most, from) = (wants.most, wants.from);
        let left = |rows: &[db::Row]| most - u32::try_from(rows.len()).unwrap_or(most).min(most);
        let mut pass = dispatch::DispatchGated::new(dispatch::Wants { most: left(rows), ..wants });
        for _ in 0..GATED_PASSES_MAX {
            if pass.wants.most == 0 {
                break;
            }
            let began = Instant::now();
            match self.run(pass.clone()).await {
                Ok(gated) => {
                    if let Some(rank) = gated.reached {
                        head.reached(rank, from, began.elapsed());
                    }
                    rows.extend(gated.rows);
                    if !gated.more {
                        break;
                    }
                }
                Err(error) if rows.is_empty() => return Err(error),
                // What was taken is taken: dropped here, it would wait for its lease to end.
                Err(error) => {
                    tracing::warn!(%error, "jobs with limits could not be dispatched");
                    self.unanswered.store(true, Ordering::Relaxed);
                    break;
                }
            }
            pass = pass.further(left(rows));
        }
        Ok(())
    }

    /// Claims from their rows. One that cannot be read (somebody else wrote to our tables) is buried, with the reason,
    /// and does not hold up the rest.
    async fn read_claims(&self, rows: &[db::Row], node: NodeId) -> StoreResult<Vec<Claim>> {
        let (claims, unreadable) = claim::read(rows)?;
        if !unreadable.is_empty() {
            tracing::error!(jobs = ?unreadable, "jobs that cannot be read were buried");
            // What can be read must run, whatever becomes of these: their leases end by themselves.
            if let Err(error) = self.settle(node, unreadable).await {
                tracing::warn!(%error, "jobs that cannot be read could not be buried");
            }
        }
        Ok(claims)
    }

    /// At most `max` jobs with this limit key are active at once from now on.
    pub async fn set_limit(&self, key: &str, max: u32) -> StoreResult<()> {
        door::check_key(key)?;
        door::check_limit(max)?;
        self.run(wake::SetLimit { key: key.to_owned(), max }).await?;
        self.wake_or_warn(vec![key.to_owned()]).await;
        Ok(())
    }

    /// The same after something that is done and must not be reported as failed; the cleaner wakes whom we could not.
    async fn wake_or_warn(&self, keys: Vec<String>) {
        if let Err(error) = self.wake(keys).await {
            tracing::warn!(%error, "jobs held by a limit key could not be woken");
        }
    }

    /// Lets jobs that these keys held back try again.
    async fn wake(&self, mut keys: Vec<String>) -> StoreResult<()> {
        keys.sort_unstable();
        keys.dedup();
        if !keys.is_empty() {
            self.run(wake::WakeKeys(keys)).await?;
        }
        Ok(())
    }

    // 5 · claim, renew, give up for lost

    /// Claims up to `most` jobs of a route that were dispatched.
    pub async fn claim(&self, route: Name, most: u32, lease: Lease) -> StoreResult<Vec<Claim>> {
        let rows = self.run(claim::ClaimJobs { route, most: most.min(BATCH), lease }).await?;
        self.read_claims(&rows, lease.node).await
    }

    /// Renews leases, all in one statement.
    pub async fn renew(&self, lease: Lease, claims: Vec<ClaimRef>) -> StoreResult<Vec<Renewal>> {
        let claims = claims.into_iter().map(|claim| Renewing { claim, deadline: None }).collect();
        self.renew_until(lease, claims).await
    }

    /// The same, with the time after its start at which nobody believes a job's worker any more.
    pub(crate) async fn renew_until(&self, lease: Lease, claims: Vec<Renewing>) -> StoreResult<Vec<Renewal>> {
        door::check_batch(claims.len())?;
        self.run(renew::Renew { lease, claims }).await
    }

    /// Whether part of a dispatch was not answered since this was last asked.
    pub(crate) fn was_unanswered(&self) -> bool {
        self.unanswered.swap(false, Ordering::Relaxed)
    }

    /// How many jobs of a route stand first in line for whoever takes them, up to `most`; for those who look closely.
    pub(crate) async fn first_in_line(&self, route: Name, most: u32) -> StoreResult<u64> {
        self.db.read(look::InLine { route, most }).await
    }

    /// A claim whose job's workers vanished before begins now. False: it is lost.
    pub async fn start(&self, claim: ClaimRef) -> StoreResult<bool> {
        Ok(!self.run(claim::Start(vec![claim])).await?.is_empty())
    }

    /// Gives back what `node` holds without knowing it, because the answer to a dispatch was lost; returns how many.
    pub(crate) async fn give_back_unknown(&self, node: NodeId, known: &[ClaimRef]) -> StoreResult<usize> {
        let mut unknown = self.db.read(claim::Leased(node)).await?;
        unknown.retain(|settlement| !known.contains(&settlement.claim));
        unknown.truncate(BATCH_MAX);
        let count = unknown.len();
        self.settle(node, unknown).await?;
        Ok(count)
    }

    /// Jobs that were parked because nobody knew their kind wait again, up to `most`; returns how many.
    pub async fn unpark_kinds(&self, kinds: Vec<Name>, most: u32) -> StoreResult<u64> {
        self.run(switch::UnparkKinds { kinds, most: most.min(BATCH) }).await
    }

    /// Takes back up to `most` jobs whose lease ran out; after `crash_budget` vanished workers a job is buried.
    pub async fn reclaim(&self, most: u32, crash_budget: u32) -> StoreResult<Vec<Reclaimed>> {
        self.reclaim_except(most, crash_budget, Vec::new()).await
    }

    /// The same, but not of jobs that the caller runs itself: a node that slept must not call itself dead.
    pub async fn reclaim_except(
        &self,
        most: u32,
        crash_budget: u32,
        ours: Vec<JobId>,
    ) -> StoreResult<Vec<Reclaimed>> {
        let reclaimed = self.run(reclaim::Reclaim { most: most.min(BATCH), crash_budget, ours }).await?;
        self.wake_or_warn(reclaimed.iter().filter_map(|r| r.limit_key.clone()).collect()).await;
        Ok(reclaimed)
    }

    // 6 · what handlers leave behind while they run

    /// The result of a step that an earlier claim of the job has finished.
    pub async fn finished_step(&self, job: JobId, name: &str) -> StoreResult<Option<Payload>> {
        door::check_key(name)?;
        self.db.read(step::ReadStep { job, name: name.to_owned() }).await
    }

    /// Records what a step came to.
    pub async fn record_step(&self, claim: ClaimRef, step: StepRecord) -> StoreResult<Noted> {
        door::check_key(&step.name)?;
        self.run(step::RecordStep { claim, step }).await
    }

    /// Writes how far running jobs are, all in one statement. A claim that is left out of the answer was lost, or somebody
    /// had its row locked: say it again.
    pub async fn write_progress(
        &self,
        progress: Vec<(ClaimRef, ProgressView)>,
    ) -> StoreResult<Vec<ClaimRef>> {
        door::check_batch(progress.len())?;
        if progress.is_empty() {
            return Ok(Vec::new());
        }
        self.run(progress::WriteProgress(progress)).await
    }

    /// Keeps log lines of claims that still run; those of others are left out.
    pub async fn write_log(&self, lines: Vec<(ClaimRef, LogLine)>) -> StoreResult<()> {
        door::check_batch(lines.len())?;
        if lines.is_empty() {
            return Ok(());
        }
        self.run(log::WriteLog(lines)).await
    }

    // 7 · settle

    /// Settles claims of `node`; the answers are in the order of the settlements. They are one transaction, unless a
    /// rule refuses one of them: then that one is buried as unrecordable, and the others are settled without it.
    pub async fn settle(&self, node: NodeId, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        door::check_batch(settlements.len())?;
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let verb = settle::Settle { node, settlements: settlements.clone() };
        match self.run(verb).await {
            Ok(answer) => {
                self.wake_or_warn(answer.freed_keys).await;
                Ok(answer.settled)
            }
            Err(StoreError::Refused { rule, why }) => {
                Box::pin(self.settle_in_halves(node, settlements, format!("{rule}: {why}"))).await
            }
            Err(error) => Err(error),
        }
    }

    /// Looks for the one that was refused.
    async fn settle_in_halves(
        &self,
        node: NodeId,
        mut all: Vec<Settlement>,
        why: String,
    ) -> StoreResult<Vec<Settled>> {
        if let [one] = all.as_mut_slice() {
            if one.is_unrecordable() {
                return Err(StoreError::Corrupt {
                    what: format!("a plain failure cannot be settled: {why}"),
                });
            }
            return self.settle(node, vec![one.as_unrecordable(&why)]).await;
        }
        let rest = all.split_off(all.len() / 2);
        let mut settled = self.settle(node, all).await?;
        settled.extend(self.settle(node, rest).await?);
        Ok(settled)
    }

    /// What the parent with this key left for a job of its dependent `manifest`. `None`: nothing, or it is not kept.
    pub async fn parent_output(
        &self,
        job: JobId,
        manifest: ManifestId,
        parent: Name,
    ) -> StoreResult<Option<Payload>> {
        self.db.read(parent::ParentOutput { job, manifest, parent }).await
    }

    /// A running job wakes a dormant dependent of its manifest, with an input; fenced by its claim.
    pub async fn activate(&self, claim: ClaimRef, child: Name, input: Payload) -> StoreResult<Activated> {
        self.run(activate::Activate { claim, child, input }).await
    }

    // 8 · people

    /// Brings dead letters back; those that were not awaiting are left out of the answer.
    pub async fn revive(&self, ids: Vec<DeadLetterId>, revival: Revival) -> StoreResult<Vec<Resolved>> {
        door::check_batch(ids.len())?;
        [Some(revival.by.as_str()), revival.note.as_deref()]
            .into_iter()
            .flatten()
            .try_for_each(door::check_text)?;
        door::check_due_at(revival.due_at)?;
        let resolved = self.run(dead_letter::Revive { ids, revival }).await?;
        self.orders_changed().await;
        Ok(resolved)
    }

    /// Brings back all awaiting dead letters that match, a batch at a time; returns how many. One that dies again
    /// meanwhile is not brought back again.
    pub async fn revive_matching(&self, filter: &DeadLetterFilter, revival: Revival) -> StoreResult<u64> {
        let mut after = None;
        let mut count = 0;
        while let Some(ids) = self.matching(filter, &mut after).await? {
            count += self.revive(ids, revival.clone()).await?.len() as u64;
        }
        Ok(count)
    }

    /// Lets all awaiting dead letters that match rest, a batch at a time; returns how many.
    pub async fn acknowledge_matching(
        &self,
        filter: &DeadLetterFilter,
        by: &str,
        note: Option<&str>,
    ) -> StoreResult<u64> {
        let mut after = None;
        let mut count = 0;
        while let Some(ids) = self.matching(filter, &mut after).await? {
            count += self.acknowledge(ids, by, note).await?.len() as u64;
        }
        Ok(count)
    }

    /// The next batch of dead letters that match; `place` is where the last one ended, and the newest of the first.
    async fn matching(
        &self,
        filter: &DeadLetterFilter,
        place: &mut Option<(i64, i64)>,
    ) -> StoreResult<Option<Vec<DeadLetterId>>> {
        filter.fingerprint.as_deref().map_or(Ok(()), door::check_text)?;
        let (filter, most) = (filter.clone(), DEAD_LETTERS_PER_BATCH);
        let (after, newest) = (place.map_or(0, |place| place.0), place.map(|place| place.1));
        let found = self.db.read(dead_letter::Find { filter, after, newest, most }).await?;
        let last = found.ids.last().map(|id| id.0);
        *place = last.zip(found.newest);
        Ok(last.map(|_| found.ids))
    }

    /// Lets dead letters rest; those that were not awaiting are left out of the answer.
    pub async fn acknowledge(
        &self,
        ids: Vec<DeadLetterId>,
        by: &str,
        note: Option<&str>,
    ) -> StoreResult<Vec<Resolved>> {
        door::check_batch(ids.len())?;
        [Some(by), note].into_iter().flatten().try_for_each(door::check_text)?;
        let verb = dead_letter::Acknowledge { ids, by: by.to_owned(), note: note.map(str::to_owned) };
        let resolved = self.run(verb).await?;
        // Manifests that these held may be due.
        self.orders_changed().await;
        Ok(resolved)
    }

    /// Ends a job that waits; asks for the end of one that runs.
    pub async fn cancel(&self, job: JobId) -> StoreResult<Cancelled> {
        let mut answer = self.run(cancel::Cancel(job)).await?;
        let mut rounds = 1;
        // A job on its way from one table to the other is in neither snapshot: look again, twice for a "never heard of".
        while (answer.cancelled == Cancelled::Moving && rounds < CANCEL_ROUNDS_MAX)
            || (answer.cancelled == Cancelled::Unknown && rounds < 2)
        {
            answer = self.run(cancel::Cancel(job)).await?;
            rounds += 1;
        }
        self.wake_or_warn(answer.freed_key.into_iter().collect()).await;
        Ok(answer.cancelled)
    }

    /// Those of some jobs that are over, and how they ended.
    pub(crate) async fn jobs_over(
        &self,
        jobs: Vec<JobId>,
    ) -> StoreResult<Vec<(JobId, lineclear_model::JobState)>> {
        self.db.read(over::JobsOver(jobs)).await
    }

    /// Jobs of a node that somebody wants to stop.
    pub async fn cancel_requests(&self, node: NodeId) -> StoreResult<Vec<JobId>> {
        self.db.read(cancel::CancelRequests(node)).await
    }

    /// What happened since a moment, oldest first, and up to where it is complete. Reading on from there misses nothing; what lies
    /// behind the horizon comes again.
    pub async fn events(&self, since: Micros) -> StoreResult<Events> {
        self.db.read(events::ReadEvents { since, most: EVENTS_MAX }).await
    }

    /// The moment up to which everything that happened can be seen, and the database's clock.
    pub async fn event_horizon(&self) -> StoreResult<(Micros, Micros)> {
        self.db.read(events::EventHorizon).await
    }

    // 9 · clean

    /// One pass of cleaning, at most `most` of each kind of thing; returns how much went.
    pub async fn clean(&self, keep: &Retention, most: u32) -> StoreResult<Cleaned> {
        self.wake_forgotten().await?;
        self.run(switch::UnparkForgotten(most.min(BATCH))).await?;
        let mut counts = [0; 10];
        for (count, batch) in counts.iter_mut().zip(clean::batches(keep, most.min(BATCH))) {
            *count = self.run(batch).await?;
        }
        let [executions, dead_letters, ticks, keys, nodes, locks, idempotency_keys, audit, sessions, stats] =
            counts;
        Ok(Cleaned {
            executions,
            dead_letters,
            ticks,
            keys,
            nodes,
            locks,
            idempotency_keys,
            audit,
            sessions,
            stats,
        })
    }

    /// What operators changed over what nodes were started with.
    pub async fn settings(&self) -> StoreResult<Settings> {
        self.db.read(setting::ReadSettings).await
    }

    /// Changes settings for all nodes, all or none; `None` takes a change back. With a version, only if it still holds; otherwise it is
    /// refused (`changed_since`).
    pub async fn change_settings(
        &self,
        changes: BTreeMap<Setting, Option<std::time::Duration>>,
        seen: Option<i64>,
        by: &str,
    ) -> StoreResult<Settings> {
        door::check_text(by)?;
        let [least, most] = Setting::BOUNDS;
        for (setting, value) in &changes {
            if value.is_some_and(|value| value < least || value > most) {
                let why = format!("{} lies between a minute and ten years", setting.as_str());
                return Err(StoreError::refused("setting", why));
            }
        }
        let advisory_key = self.options.advisory_key("settings");
        self.run(setting::ChangeSettings { changes, by: by.to_owned(), seen, advisory_key }).await
    }

    /// Rolls up what ended in minutes that are closed, into figures. Any number of nodes may do so, and doing it again changes
    /// nothing; where nothing has ended, nothing is written.
    pub async fn roll_up(&self) -> StoreResult<()> {
        let advisory_key = self.options.advisory_key("stats");
        let mut last = None;
        while let Some((from, to)) = self.db.read(stats::Due).await?.filter(|due| last != Some(*due)) {
            self.run(stats::Roll { from, to, advisory_key }).await?;
            last = Some((from, to));
        }
        Ok(())
    }

    /// Figures of `from..to` in steps of so many seconds.
    pub async fn stats(&self, from: Micros, to: Micros, step_secs: i64, by: By) -> StoreResult<Stats> {
        if step_secs < 60 || step_secs % 60 != 0 {
            return Err(StoreError::refused("step", "a step is so many whole minutes"));
        }
        self.db.read(stats::ReadStats { from, to, step_secs, by }).await
    }

    /// How much waits, runs and needs a person.
    pub async fn stat_now(&self) -> StoreResult<StatNow> {
        self.db.read(stats::ReadNow).await
    }

    /// Wakes jobs whose waker died between settling and waking.
    async fn wake_forgotten(&self) -> StoreResult<()> {
        const PAGE: u32 = 500;
        let mut after = String::new();
        loop {
            let keys = self.run(wake::HeldKeys { after: after.clone(), most: PAGE }).await?;
            let Some(last) = keys.last().cloned() else { return Ok(()) };
            self.wake(keys).await?;
            after = last;
        }
    }

    // 10 · nodes

    /// A node says that it is alive.
    pub async fn beat(&self, node: NodeInfo) -> StoreResult<Beat> {
        door::check_limit(node.slots)?;
        self.run(node::NodeBeat { node, led: None, next: None }).await
    }

    /// The same, of a node that has led the planning since it last said so, or that led and was not followed by another; and when it
    /// will be heard of again.
    pub async fn beat_leading(
        &self,
        node: NodeInfo,
        led: Option<Led>,
        next: std::time::Duration,
    ) -> StoreResult<Beat> {
        door::check_limit(node.slots)?;
        self.run(node::NodeBeat { node, led, next: Some(next) }).await
    }

    /// A node that led the planning stops.
    pub async fn resign(&self, node: &NodeInfo) -> StoreResult<()> {
        self.run(node::NodeResign(node.incarnation.clone())).await
    }

    /// Tells other nodes that there may be work.
    pub async fn notify(&self) -> StoreResult<()> {
        self.run(notify::Notify { channel: self.options.channel(), hint: Hint::Work }).await
    }

    /// Tells planners here and elsewhere that something may be due earlier than they think. Only a hint: who does not
    /// hear it looks by itself.
    async fn orders_changed(&self) {
        self.orders.send_replace(());
        if matches!(self.db, Db::Postgres(_)) {
            let notify = notify::Notify { channel: self.options.channel(), hint: Hint::Orders };
            if let Err(error) = self.run(notify).await {
                tracing::debug!(%error, "planners elsewhere could not be woken; they will look by themselves");
            }
        }
    }

    /// Changes whenever standing orders do.
    pub(crate) fn orders(&self) -> watch::Receiver<()> {
        self.orders.subscribe()
    }

    /// Calls `work` whenever another node says that there may be work, until the connection ends. Returns at once where
    /// there is nothing to listen to: on SQLite, and behind a transaction pooler.
    pub(crate) async fn listen(&self, work: impl Fn()) -> StoreResult<Listening> {
        let wake = |hint| match hint {
            Hint::Work => work(),
            Hint::Orders => self.orders.send_replace(()),
        };
        match &self.db {
            Db::Postgres(db) if !self.options.behind_pooler() => {
                db.listen(&self.options.channel(), wake).await.map(|()| Listening::Ended)
            }
            _ => Ok(Listening::Impossible),
        }
    }
}
