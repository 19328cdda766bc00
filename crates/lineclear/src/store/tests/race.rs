//! Losing a race, on PostgreSQL: two transactions driven through the interleavings that matter.

use std::time::Duration;

use lineclear_model::job::Origin;
use lineclear_model::schedule::Need;
use lineclear_model::{Failure, Micros, Outcome, Overlap, Verdict};

use super::*;
use crate::store::db::Row;
use crate::store::verbs::dispatch::{DispatchGated, DispatchOpen, Wants};
use crate::store::verbs::turn::{self, Order, Taken, Turn};

fn complete(claim: &Claim) -> Settlement {
    Settlement::new(claim, Outcome::Completed { output: None }, Verdict::Complete)
}

fn bury(claim: &Claim) -> Settlement {
    let outcome = Outcome::DeadLetter(Failure::new("x", "broken"));
    Settlement::new(claim, outcome, Verdict::Bury { reason: lineclear_model::DeadReason::Permanent })
}

fn settle_verb(claim: &Claim) -> settle::Settle {
    settle::Settle { node: NodeId(1), settlements: vec![complete(claim)] }
}

fn wants(most: u32) -> Wants {
    Wants { route: main_route(), most, lease: Some(lease(1)) }
}

async fn due(pg: &Pg) {
    pg.sql(
        "update lineclear.manifest set next_due_at = next_due_at - interval '1 day', \
            planned_through = planned_through - interval '1 day'",
    )
    .await;
}

const UNLED: PlanRules = PlanRules { manifests_max: 1000, lead: false };

fn plan_verb() -> plan::Plan {
    plan::Plan { rules: UNLED, advisory_key: 0 }
}

// Two planners on one tick, the advisory lock switched off.

#[tokio::test]
async fn a_second_planner_skips_manifests_that_the_first_is_planning() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], Voice::Declaration).await.unwrap();
    due(&pg).await;
    let (first, open) = pg.begin(&plan_verb()).await;
    assert!(matches!(first, Planned::Led { queued: 1, .. }));
    let second = pg.store.plan(UNLED).await.unwrap();
    assert!(matches!(second, Planned::Led { due: 0, queued: 0, .. }), "{second:?}");
    open.commit().await;
    let third = pg.store.plan(UNLED).await.unwrap();
    assert!(matches!(third, Planned::Led { due: 0, .. }), "{third:?}");
    assert_eq!(pg.number("select count(*) from lineclear.work_queue").await, 1);
}

#[tokio::test]
async fn a_planner_that_dies_leaves_the_tick_to_the_next() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], Voice::Declaration).await.unwrap();
    due(&pg).await;
    let (_, open) = pg.begin(&plan_verb()).await;
    open.roll_back().await;
    assert!(matches!(pg.store.plan(UNLED).await.unwrap(), Planned::Led { queued: 1, .. }));
}

/// Both planners have read the manifest as due and decided on the same tick: no row lock stands between them.
struct TakeTurn {
    manifest: i64,
    tick_at: Micros,
    overlap: Overlap,
}

impl Verb for TakeTurn {
    type Answer = Taken;

    async fn run(&self, session: &mut Session) -> StoreResult<Taken> {
        let order = Order {
            id: self.manifest,
            kind: "work".to_owned(),
            route: "main".to_owned(),
            input: "{}".to_owned(),
            group_id: None,
            overlap: self.overlap,
            priority: 0,
            retries: 3,
            timeout_ms: 1000,
        };
        let turn =
            Turn { order, origin: Origin::Tick, tick_at: self.tick_at, due_at: self.tick_at, skip: None };
        turn::take(session, vec![turn], Vec::new()).await
    }
}

#[tokio::test]
async fn the_ledger_alone_makes_a_tick_once_even_if_the_first_job_has_gone_already() {
    let pg = Pg::open().await;
    let take = || TakeTurn { manifest: 1, tick_at: Micros::EPOCH, overlap: Overlap::Allow };
    let (first, open) = pg.begin(&take()).await;
    assert_eq!(first.queued, 1);
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.run(take()).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap(), Taken { queued: 0, skipped: 0 });

    assert_eq!(pg.take(1, 10).await.len(), 1);
    assert_eq!(pg.store.run(take()).await.unwrap().queued, 0, "dispatched, and still not planned again");
}

#[tokio::test]
async fn two_ticks_for_one_waiting_place_make_one_job_and_one_recorded_skip() {
    let pg = Pg::open().await;
    let take = |at| TakeTurn { manifest: 1, tick_at: Micros::new(at).unwrap(), overlap: Overlap::Skip };
    let (_, open) = pg.begin(&take(1)).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.run(take(2)).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap(), Taken { queued: 0, skipped: 1 });
    let skipped = "select count(*) from lineclear.tick where skip_reason = 'overlap' and job_id is null";
    assert_eq!(pg.number(skipped).await, 1);
}

// Two dispatchers on one row, and on one limit.

#[tokio::test]
async fn a_row_that_one_dispatcher_is_moving_is_skipped_by_the_other() {
    let pg = Pg::open().await;
    pg.store.enqueue(job()).await.unwrap();
    let (pass, open) = pg.begin(&DispatchOpen(wants(10))).await;
    assert_eq!(pass.taken(), 1);
    assert_eq!(pg.take(2, 10).await.len(), 0);
    open.roll_back().await;
    assert_eq!(pg.take(2, 10).await.len(), 1, "the first one died: the row was still queued");
    assert_eq!(pg.take(1, 10).await.len(), 0);
}

fn of(group: &str) -> NewJob {
    NewJob { group: Some(name(group)), ..job() }
}

#[tokio::test]
async fn a_limited_group_that_one_dispatcher_is_filling_is_skipped_by_the_other() {
    let pg = Pg::open().await;
    pg.group("g", 1).await;
    pg.store.enqueue_many(vec![of("g"); 2]).await.unwrap();
    let (rows, open): (Vec<Row>, Open) = pg.begin(&DispatchGated(wants(10))).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(pg.take(2, 10).await.len(), 0, "while the first counts and fills");
    open.commit().await;
    assert_eq!(pg.take(2, 10).await.len(), 0, "the place is taken");
}

#[tokio::test]
async fn who_waited_for_the_global_gate_counts_what_was_committed_meanwhile() {
    let pg = Pg::open().await;
    pg.group(GLOBAL_GROUP, 1).await;
    pg.store.enqueue_many(vec![job(); 2]).await.unwrap();
    let (rows, open): (Vec<Row>, Open) = pg.begin(&DispatchGated(wants(10))).await;
    assert_eq!(rows.len(), 1);
    let store = pg.store.clone();
    let second =
        tokio::spawn(async move { store.dispatch_into_lease(main_route(), 10, lease(2)).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap().len(), 0, "a snapshot from before the lock would have let it through");
}

#[tokio::test]
async fn a_keyed_job_is_not_started_beside_one_that_is_just_being_started() {
    let pg = Pg::open().await;
    let keyed = NewJob { limit_key: Some("k".to_owned()), ..job() };
    pg.store.enqueue_many(vec![keyed; 2]).await.unwrap();
    pg.store.set_limit("k", 1).await.unwrap();
    let (rows, open): (Vec<Row>, Open) = pg.begin(&DispatchGated(wants(1))).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(pg.take(2, 10).await.len(), 0);
    open.commit().await;
    assert_eq!(pg.take(2, 10).await.len(), 0);
}

#[tokio::test]
async fn a_settle_that_meets_a_dispatcher_holding_the_next_job_back_wakes_it() {
    let pg = Pg::open().await;
    let keyed = NewJob { limit_key: Some("k".to_owned()), ..job() };
    pg.store.enqueue_many(vec![keyed; 2]).await.unwrap();
    let first = pg.take(1, 1).await.remove(0);
    // The dispatcher counts one active and marks the second job held; the settle comes before it commits.
    let (rows, open): (Vec<Row>, Open) = pg.begin(&DispatchGated(wants(10))).await;
    assert_eq!(rows.len(), 0);
    let store = pg.store.clone();
    let settled = tokio::spawn(async move { store.settle(NodeId(1), vec![complete(&first)]).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(settled.await.unwrap(), [Settled::Recorded]);
    assert_eq!(pg.take(1, 10).await.len(), 1, "no wake-up was lost");
}

// A late settle, after a re-claim and at the same instant.

async fn expired(pg: &Pg) -> Claim {
    pg.store.enqueue(job()).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    pg.sql("update lineclear.background_job set due_at = now() - interval '1 hour'").await;
    claim
}

#[tokio::test]
async fn a_job_that_is_being_settled_is_not_given_up_for_lost() {
    let pg = Pg::open().await;
    let claim = expired(&pg).await;
    let (_, open) = pg.begin(&settle_verb(&claim)).await;
    assert_eq!(pg.store.reclaim(10, 3).await.unwrap(), []);
    open.commit().await;
    assert_eq!(pg.store.job(claim.job).await.unwrap().unwrap().job.state.as_str(), "completed");
}

#[tokio::test]
async fn a_settle_that_waited_for_a_reclaim_is_stale() {
    let pg = Pg::open().await;
    let claim = expired(&pg).await;
    let (lost, open) = pg.begin(&reclaim::Reclaim { most: 10, crash_budget: 3 }).await;
    assert_eq!(lost.len(), 1);
    let (store, late) = (pg.store.clone(), complete(&claim));
    let settled = tokio::spawn(async move { store.settle(NodeId(1), vec![late]).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(settled.await.unwrap(), [Settled::Stale]);
    assert_eq!(pg.store.job(claim.job).await.unwrap().unwrap().job.state.as_str(), "queued");
}

#[tokio::test]
async fn a_settle_that_waited_for_a_reclaim_that_died_is_recorded() {
    let pg = Pg::open().await;
    let claim = expired(&pg).await;
    let (_, open) = pg.begin(&reclaim::Reclaim { most: 10, crash_budget: 3 }).await;
    let (store, late) = (pg.store.clone(), complete(&claim));
    let settled = tokio::spawn(async move { store.settle(NodeId(1), vec![late]).await.unwrap() });
    pg.until_somebody_waits().await;
    open.roll_back().await;
    assert_eq!(settled.await.unwrap(), [Settled::Recorded]);
}

#[tokio::test]
async fn a_renewal_skips_a_row_that_is_being_reclaimed_and_does_not_call_it_lost() {
    let pg = Pg::open().await;
    let claim = expired(&pg).await;
    let (_, open) = pg.begin(&reclaim::Reclaim { most: 10, crash_budget: 3 }).await;
    let status = async || pg.store.renew(lease(1), vec![claim.reference()]).await.unwrap()[0].status;
    assert_eq!(status().await, RenewalStatus::Skipped);
    open.commit().await;
    assert_eq!(status().await, RenewalStatus::Lost);
}

// Two parents that settle a fan-in.

async fn fan_in(pg: &Pg) -> (Claim, Claim) {
    let child = Manifest {
        schedule: Schedule::after(vec![name("a"), name("b")], Need::All).unwrap(),
        overlap: Some(Overlap::QueueOne),
        ..daily("c")
    };
    pg.store.upsert_manifests([daily("a"), daily("b"), child], Voice::Declaration).await.unwrap();
    for key in ["a", "b"] {
        pg.store.trigger(name(key), TriggerOptions::default()).await.unwrap();
    }
    let mut claims = pg.take(1, 2).await;
    (claims.remove(0), claims.remove(0))
}

#[tokio::test]
async fn two_parents_that_settle_at_once_wake_the_child_once() {
    let pg = Pg::open().await;
    let (a, b) = fan_in(&pg).await;
    let (_, open) = pg.begin(&settle_verb(&a)).await;
    let (store, other) = (pg.store.clone(), complete(&b));
    let second = tokio::spawn(async move { store.settle(NodeId(1), vec![other]).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap(), [Settled::Recorded]);
    let woken = pg.take(1, 10).await;
    assert_eq!(woken.iter().map(|claim| claim.origin).collect::<Vec<_>>(), [Origin::Dependent]);
}

#[tokio::test]
async fn settles_that_wake_each_others_manifests_do_not_deadlock() {
    let pg = Pg::open().await;
    // Ids against the direction of the arrows: z waits for m, m waits for a; declared backwards.
    let after = |key: &str, parent: &str| Manifest {
        schedule: Schedule::after(vec![name(parent)], Need::All).unwrap(),
        overlap: Some(Overlap::Allow),
        ..daily(key)
    };
    pg.store.upsert_manifests([daily("c"), daily("b"), daily("a")], Voice::Declaration).await.unwrap();
    pg.store.upsert_manifests([after("b", "c"), after("a", "b")], Voice::Declaration).await.unwrap();
    let mut nodes = Vec::new();
    for node in 1..=4 {
        let store = pg.store.clone();
        nodes.push(tokio::spawn(async move {
            for _ in 0..40 {
                for key in ["c", "b", "a"] {
                    store.trigger(name(key), TriggerOptions::default()).await.unwrap();
                }
                let mut claims = store.dispatch_into_lease(main_route(), 10, lease(node)).await.unwrap();
                if node % 2 == 0 {
                    claims.reverse();
                }
                store.settle(NodeId(node), claims.iter().map(complete).collect()).await.unwrap();
            }
        }));
    }
    for node in nodes {
        node.await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(0)).await;
    assert_eq!(
        pg.number("select deadlocks from pg_stat_database where datname = current_database()").await,
        0
    );
}

// Cleaner against settle; retry against the next tick; cancel against dispatch.

#[tokio::test]
async fn the_cleaner_does_not_wait_for_a_settle() {
    let pg = Pg::open().await;
    pg.store.enqueue_many(vec![job(); 2]).await.unwrap();
    let claims = pg.take(1, 2).await;
    pg.store.settle(NodeId(1), vec![complete(&claims[0])]).await.unwrap();
    pg.sql("update lineclear.execution set finished_at = now() - interval '1 year'").await;
    let (_, open) = pg.begin(&settle_verb(&claims[1])).await;
    assert_eq!(pg.store.clean(&Retention::default(), 100).await.unwrap().executions, 1);
    open.commit().await;
    assert_eq!(pg.number("select count(*) from lineclear.execution").await, 1);
}

#[tokio::test]
async fn a_retry_that_is_being_written_counts_as_the_job_that_it_is() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], Voice::Declaration).await.unwrap();
    due(&pg).await;
    pg.store.plan(UNLED).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    let retry = Verdict::Retry { after: Duration::from_secs(60) };
    let settlement = Settlement::new(&claim, Outcome::Failed(Failure::new("x", "y")), retry);
    let (_, open) = pg.begin(&settle::Settle { node: NodeId(1), settlements: vec![settlement] }).await;
    pg.sql("update lineclear.tick set tick_at = tick_at - interval '1 day'").await;
    due(&pg).await;
    let planned = pg.store.plan(UNLED).await.unwrap();
    assert!(matches!(planned, Planned::Led { queued: 0, skipped: 1, .. }), "{planned:?}");
    open.commit().await;
    assert_eq!(pg.number("select count(*) from lineclear.work_queue").await, 1);
}

#[tokio::test]
async fn a_retry_does_not_wait_for_a_planner_that_is_queueing_the_next_tick() {
    let pg = Pg::open().await;
    pg.store
        .upsert_manifests([Manifest { overlap: Some(Overlap::QueueOne), ..daily("m") }], Voice::Declaration)
        .await
        .unwrap();
    due(&pg).await;
    pg.store.plan(UNLED).await.unwrap();
    let claim = pg.take(1, 1).await.remove(0);
    pg.sql("update lineclear.tick set tick_at = tick_at - interval '1 day'").await;
    due(&pg).await;
    let (planned, open) = pg.begin(&plan_verb()).await;
    assert!(matches!(planned, Planned::Led { queued: 1, .. }));
    let retry = Verdict::Retry { after: Duration::from_secs(60) };
    let settlement = Settlement::new(&claim, Outcome::Failed(Failure::new("x", "y")), retry);
    assert_eq!(pg.store.settle(NodeId(1), vec![settlement]).await.unwrap(), [Settled::Recorded]);
    open.commit().await;
    assert_eq!(pg.number("select count(*) from lineclear.work_queue").await, 2);
}

#[tokio::test]
async fn a_cancel_finds_a_job_that_is_being_dispatched() {
    let pg = Pg::open().await;
    let id = pg.store.enqueue(job()).await.unwrap().id;
    let (_, open) = pg.begin(&DispatchOpen(wants(10))).await;
    let store = pg.store.clone();
    let cancelled = tokio::spawn(async move { store.cancel(id).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(cancelled.await.unwrap(), Cancelled::Asked(NodeId(1)));
}

// Keys and dead letters.

#[tokio::test]
async fn the_loser_of_a_race_for_a_unique_key_gets_the_winners_job() {
    let pg = Pg::open().await;
    let keyed = || NewJob { unique_key: Some(UniqueKey { key: "k".to_owned(), keep: None }), ..job() };
    let verb = || enqueue::Enqueue { jobs: vec![keyed()], group_ids: HashMap::new() };
    let (first, open) = pg.begin(&verb()).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.enqueue(keyed()).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(second.await.unwrap(), Enqueued { id: first[0].id, existing: true });

    pg.store.cancel(first[0].id).await.unwrap();
    let (_, open) = pg.begin(&verb()).await;
    let store = pg.store.clone();
    let second = tokio::spawn(async move { store.enqueue(keyed()).await.unwrap() });
    pg.until_somebody_waits().await;
    open.roll_back().await;
    assert!(!second.await.unwrap().existing, "the winner died");
}

#[tokio::test]
async fn a_manifest_stays_held_for_a_dead_letter_that_comes_as_another_is_resolved() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("m")], Voice::Declaration).await.unwrap();
    for _ in 0..2 {
        pg.store.trigger(name("m"), TriggerOptions::default()).await.unwrap();
    }
    let claims = pg.take(1, 2).await;
    pg.store.settle(NodeId(1), vec![bury(&claims[0])]).await.unwrap();
    let letter = pg.store.dead_letters(None, None, 1).await.unwrap().items[0].id;
    let (_, open) = pg.begin(&settle::Settle { node: NodeId(1), settlements: vec![bury(&claims[1])] }).await;
    let store = pg.store.clone();
    let resolved = tokio::spawn(async move { store.acknowledge(vec![letter], "ann", None).await.unwrap() });
    pg.until_somebody_waits().await;
    open.commit().await;
    assert_eq!(resolved.await.unwrap().len(), 1);
    assert!(pg.store.manifests(None, 1).await.unwrap().items[0].held);
}
