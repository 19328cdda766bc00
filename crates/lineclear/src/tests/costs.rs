//! What statements read does not grow with rows that do not matter. Counted in pages of PostgreSQL, not in time.

use lineclear_model::Micros;

use crate::db::{Params, Value};
use crate::handler::Kinds;
use crate::journey::dispatch::cursor::{Cursor, FRONT};
use crate::journey::dispatch::dispatcher::Dispatcher;
use crate::node::pacer::Loop;
use crate::store::PromoteCursor;
use crate::tests::*;
use crate::{Lineclear, NodeOptions};

impl Pg {
    /// The pages that a statement reads; its changes are undone.
    pub(super) async fn pages(&self, statement: Statement, params: impl Into<Params>) -> i64 {
        let mut session = Session::Postgres(self.db().session(true).await.expect("a connection"));
        let plan = session.explain_analyze(statement, params).await.expect("a plan");
        Open(session).roll_back().await;
        let hit = |line: &str| -> Option<i64> {
            let count = line.split_once("shared hit=")?.1;
            count.split(' ').next()?.parse().ok()
        };
        plan.lines().find_map(hit).unwrap_or_else(|| panic!("no pages in:\n{plan}"))
    }

    /// A transaction that sees everything as it is now, as a dump does: nothing that goes is removed from the indexes.
    pub(super) async fn old_snapshot(&self) -> tokio_postgres::Client {
        for table in ["work_queue", "background_job", "manifest"] {
            self.sql(&format!("alter table lineclear.{table} set (autovacuum_enabled = off)")).await;
        }
        let client = self.client().await;
        let begin = "begin isolation level repeatable read; select count(*) from lineclear.work_queue";
        client.batch_execute(begin).await.expect("a snapshot");
        client
    }
}

fn text(v: &str) -> Value {
    Value::Text(Some(v.to_owned()))
}

fn int(v: i64) -> Value {
    Value::Int(Some(v))
}

/// Full groups, each with a waiting job and one that is active.
async fn full_groups(pg: &Pg, groups: u32) {
    for sql in [
        format!(
            "insert into lineclear.manifest_group (name, max_active, gated) \
             select 'full-' || n, 1, true from generate_series(1, {groups}) n"
        ),
        "insert into lineclear.work_queue (id, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated) \
         select nextval('lineclear.job_id'), 'adhoc', false, 'work', 'main', '{}', id, 0, now(), 'ready', 0, true \
         from lineclear.manifest_group where name like 'full-%'"
            .to_owned(),
        "insert into lineclear.background_job (id, origin, kind, route, input, group_id, priority, due_at, was_due_at, rank, gated, \
                                               claim_no, failures, crashes, created_at, leased_by) \
         select nextval('lineclear.job_id'), 'adhoc', 'work', 'main', '{}', id, 0, now() + interval '1 day', now(), 0, true, \
                1, 0, 0, now(), 9 \
         from lineclear.manifest_group where name like 'full-%'"
            .to_owned(),
        "vacuum analyze".to_owned(),
    ] {
        pg.sql(&sql).await;
    }
}

fn dispatch_open(groups: Option<Vec<i64>>) -> Vec<Value> {
    let request = vec![text("main"), int(10), int(1), int(30_000)];
    let lane = vec![Value::Bool(false), Value::Bool(true), int(FRONT), Value::Bool(groups.is_none())];
    let leased_ahead = Value::Bool(false);
    [request, lane, vec![Value::Ints(groups.unwrap_or_default()), int(100), leased_ahead]].concat()
}

#[tokio::test]
async fn full_groups_are_out_of_the_way_of_a_dispatcher_that_has_seen_them() {
    let pg = Pg::open().await;
    full_groups(&pg, 300).await;
    pg.store.enqueue_many(vec![job(); 30]).await.unwrap();
    let mut cursor = Cursor::unknown();
    let take = async |cursor: &mut Cursor| {
        let dispatch = Dispatch::new(main_route(), 10);
        pg.store.dispatch_into_lease_from(cursor, dispatch, lease(1)).await.unwrap().len()
    };
    assert_eq!(take(&mut cursor).await, 10);
    cursor.keep_groups();
    let known = cursor.groups().expect("they are kept");
    assert_eq!(known, [0; 0], "none has room");
    let all = pg.pages(Statement::DispatchOpen, dispatch_open(None)).await;
    let few = pg.pages(Statement::DispatchOpen, dispatch_open(Some(known))).await;
    assert!(few * 5 < all, "{all} pages with all groups, {few} without the full ones");
    assert_eq!(take(&mut cursor).await, 10, "jobs without a limit go on");
}

#[tokio::test]
async fn a_group_with_room_is_found_among_many_full_ones_and_its_limit_holds() {
    let pg = Pg::open().await;
    full_groups(&pg, 300).await;
    pg.group("free", 2).await;
    let mut cursor = Cursor::unknown();
    let take = async |cursor: &mut Cursor| {
        let dispatch = Dispatch::new(main_route(), 10);
        pg.store.dispatch_into_lease_from(cursor, dispatch, lease(1)).await.unwrap()
    };
    let of_group = NewJob { group: Some(name("free")), ..job() };
    pg.store.enqueue_many(vec![of_group; 5]).await.unwrap();
    let first = take(&mut cursor).await;
    assert_eq!(first.len(), 2);
    cursor.keep_groups();
    assert_eq!(
        cursor.groups().map(|groups| groups.len()),
        Some(1),
        "only the one that had room is looked at"
    );
    assert_eq!(take(&mut cursor).await.len(), 0);
    pg.store.settle(NodeId(1), vec![complete(&first[0])]).await.unwrap();
    assert_eq!(take(&mut cursor).await.len(), 1, "the place that is free now");
    // A node tells its cursors of groups of which it settled a job.
    assert_eq!(pg.store.freed_groups.drain().len(), 1);
    let full = pg.number("select min(id) from lineclear.manifest_group where name like 'full-%'").await;
    pg.sql(&format!("delete from lineclear.background_job where group_id = {full}")).await;
    cursor.may_have_room(&[full]);
    assert_eq!(take(&mut cursor).await.len(), 1, "a full one that has room again");
}

/// Its own list of groups is never read again here: only what it is told of a settled job leads it to the group.
#[tokio::test]
async fn a_dispatcher_looks_at_a_full_group_of_which_its_process_settled_a_job() {
    let pg = Pg::open().await;
    full_groups(&pg, 300).await;
    pg.group("one", 1).await;
    pg.store.enqueue_many(vec![NewJob { group: Some(name("one")), ..job() }; 2]).await.unwrap();
    let claims = pg.take(1, 10).await;
    assert_eq!(claims.len(), 1);
    let options = NodeOptions { routes: vec![main_route()], ..NodeOptions::default() };
    let built = Lineclear::builder().options(options);
    let shared = built.share(Kinds::default(), Default::default(), pg.store.clone()).await.unwrap();
    let mut dispatcher = Dispatcher::new(&shared, tokio::sync::mpsc::channel(1).0);
    dispatcher.knows_no_group_with_room(main_route());
    let handed = "select count(*) from lineclear.background_job where leased_by is null";
    dispatcher.run_once(true).await.unwrap();
    assert_eq!(pg.number(handed).await, 0, "the group is full");
    pg.store.settle(NodeId(1), vec![complete(&claims[0])]).await.unwrap();
    dispatcher.run_once(true).await.unwrap();
    assert_eq!(pg.number(handed).await, 1, "it has room");
}

fn complete(claim: &Claim) -> Settlement {
    let outcome = lineclear_model::Outcome::Completed { output: None };
    Settlement::new(claim, outcome, lineclear_model::Verdict::Complete)
}

#[tokio::test]
async fn a_poll_does_not_walk_past_all_that_is_over() {
    let pg = Pg::open().await;
    let _dump = pg.old_snapshot().await;
    pass_jobs(&pg).await;
    let poll = |mark: Option<Micros>, last_id: i64| {
        let routes = vec![Value::Texts(vec!["main".to_owned()]), int(100)];
        [routes, vec![Value::Time(mark), Value::Time(mark), Value::Time(mark), int(last_id)]].concat()
    };
    // As the node's next polls do after one from the front that took long.
    let (now, last_id) =
        (pg.store.now().await.unwrap(), pg.number("select last_value from lineclear.job_id").await);
    let front = pg.pages(Statement::PollWork, poll(None, 0)).await;
    let marked = pg.pages(Statement::PollWork, poll(Some(now), last_id)).await;
    assert!(marked * 5 < front, "{front} pages from the front, {marked} from the mark");
}

/// Jobs that were scheduled, promoted, leased and settled while a snapshot is open.
async fn pass_jobs(pg: &Pg) {
    pass(pg, 10).await;
}

/// Five hundred jobs, again and again.
pub(super) async fn pass(pg: &Pg, times: u32) {
    for _ in 0..times {
        pg.store.enqueue_many(vec![job(); 500]).await.unwrap();
        pg.sql("update lineclear.work_queue set phase = 'later'").await;
        pg.store.promote(1_000).await.unwrap();
        let claims = pg.take(1, 500).await;
        assert_eq!(claims.len(), 500);
        // As leases are that have ended since.
        pg.sql("update lineclear.background_job set due_at = now()").await;
        pg.store.settle(NodeId(1), claims.iter().map(complete).collect()).await.unwrap();
    }
    // With the statistics of an empty queue, other indexes look as good.
    pg.sql("analyze").await;
}

#[tokio::test]
async fn a_promotion_does_not_walk_past_all_that_was_promoted() {
    let pg = Pg::open().await;
    let _dump = pg.old_snapshot().await;
    pass_jobs(&pg).await;
    let now = pg.store.now().await.unwrap();
    let front = pg.pages(Statement::Promote, vec![int(100)]).await;
    let marked = pg.pages(Statement::PromoteSince, vec![int(100), Value::Time(Some(now))]).await;
    assert!(marked * 5 < front, "{front} pages from the front, {marked} from the mark");
}

#[tokio::test]
async fn a_reclaim_does_not_walk_past_all_leases_that_are_over() {
    let pg = Pg::open().await;
    let _dump = pg.old_snapshot().await;
    pass_jobs(&pg).await;
    let now = pg.store.now().await.unwrap();
    let reclaim = |mark: Option<Micros>| {
        let which = vec![int(100), int(3), Value::Ints(Vec::new()), Value::Ints(Vec::new())];
        [which, vec![Value::Time(Some(now)), Value::Time(mark)]].concat()
    };
    let front = pg.pages(Statement::Reclaim, reclaim(None)).await;
    let marked = pg.pages(Statement::Reclaim, reclaim(Some(now))).await;
    assert!(marked * 5 < front, "{front} pages from the front, {marked} from the mark");
}

#[tokio::test]
async fn a_promotion_from_a_mark_promotes_what_became_due_since_and_all_in_rank_order_if_there_is_much() {
    let pg = Pg::open().await;
    let mut cursor = PromoteCursor::default();
    let later = async |jobs: usize, priority: u8| {
        pg.store.enqueue_many(vec![NewJob { priority, ..job() }; jobs]).await.unwrap();
        // As if they had been scheduled and were due now.
        pg.sql("update lineclear.work_queue set phase = 'later' where phase = 'ready'").await;
    };
    cursor.keep_mark(pg.store.now().await.unwrap());
    later(3, 0).await;
    assert_eq!(pg.store.promote_from(&mut cursor, 10).await.unwrap(), 3);
    pg.sql("delete from lineclear.work_queue").await;
    later(20, 0).await;
    later(2, 9).await;
    cursor.keep_mark(pg.store.now().await.unwrap().offset(-60_000_000));
    assert_eq!(pg.store.promote_from(&mut cursor, 10).await.unwrap(), 10, "more than fit");
    let urgent = "select count(*) from lineclear.work_queue where phase = 'ready' and priority = 9";
    assert_eq!(pg.number(urgent).await, 2, "the first in rank");
    cursor.keep_mark(pg.store.now().await.unwrap());
    assert_eq!(pg.store.promote_from(&mut cursor, 100).await.unwrap(), 0, "it begins at the mark");
    assert_eq!(pg.store.promote(100).await.unwrap(), 12, "what lies before it is found from the front");
}

#[tokio::test]
async fn the_planner_does_not_walk_past_all_ticks_that_are_over() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests((0..100).map(|n| daily(&format!("m{n}"))), ChangeSource::Edit).await.unwrap();
    let _dump = pg.old_snapshot().await;
    // As a planner moves them on.
    pg.sql("update lineclear.manifest set next_due_at = now() - interval '1 day'").await;
    for _ in 0..50 {
        pg.sql("update lineclear.manifest set next_due_at = next_due_at + interval '1 minute'").await;
    }
    pg.sql("update lineclear.manifest set next_due_at = now() + interval '1 hour'").await;
    let now = pg.store.now().await.unwrap();
    let next = |mark: Option<Micros>| vec![Value::Time(mark), Value::Time(mark)];
    let front = pg.pages(Statement::PlanNext, next(None)).await;
    let marked = pg.pages(Statement::PlanNext, next(Some(now))).await;
    assert!(marked * 5 < front, "{front} pages from the front, {marked} from the mark");
}

#[tokio::test]
async fn a_million_parked_jobs_would_cost_a_cleaning_as_much_as_one() {
    let pg = Pg::open().await;
    pg.store.upsert_manifests([daily("a"), daily("b")], ChangeSource::Edit).await.unwrap();
    pg.store.pause(vec![name("a"), name("b")]).await.unwrap();
    let park = async |jobs: u32| {
        pg.sql(&format!(
            "insert into lineclear.work_queue (id, manifest_id, origin, fresh, kind, route, input, priority, due_at, phase, rank, gated) \
             select nextval('lineclear.job_id'), m.id, 'backfill', false, 'work', 'main', '{{}}', 0, now(), 'parked', 0, false \
             from lineclear.manifest m, generate_series(1, {jobs})"
        ))
        .await;
        pg.sql("vacuum analyze lineclear.work_queue").await;
        pg.pages(Statement::UnparkForgotten, vec![int(0), int(1_000), int(1_000)]).await
    };
    let (few, many) = (park(10).await, park(20_000).await);
    assert!(many <= few + 20, "{few} pages with a few parked jobs, {many} with 40,000");
}

#[tokio::test]
async fn expired_keys_of_waiting_jobs_are_read_by_one_cleaning_only() {
    let pg = Pg::open().await;
    let clean = async || pg.pages(Statement::CleanKey, vec![int(1_000)]).await;
    let none = clean().await;
    let jobs = (0..1_000).map(|n| NewJob {
        unique_key: Some(UniqueKey::new(format!("u{n}")).keep(std::time::Duration::from_millis(1))),
        ..job()
    });
    pg.store.enqueue_many(jobs.collect()).await.unwrap();
    pg.sql("update lineclear.job_key set until = now() - interval '1 hour'").await;
    pg.sql("vacuum analyze lineclear.job_key").await;
    assert!(clean().await > 10 * none + 100, "the first one reads them all");
    pg.store.clean(&Retention::default(), 1_000).await.unwrap();
    pg.sql("vacuum lineclear.job_key").await;
    let again = clean().await;
    assert!(again <= none + 20, "{none} pages without keys, {again} with a thousand that were seen before");
    assert_eq!(
        pg.number("select count(*) from lineclear.job_key").await,
        1_000,
        "they hold while their jobs wait"
    );
}

#[tokio::test]
async fn full_limit_keys_are_counted_and_not_locked() {
    let pg = Pg::open().await;
    let keyed = |n: u32| NewJob { limit_key: Some(format!("k{n}")), ..job() };
    pg.store.enqueue_many((0..60).map(|n| keyed(n % 20)).collect()).await.unwrap();
    while !pg.take(1, 100).await.is_empty() {}
    assert_eq!(pg.number("select count(*) from lineclear.work_queue where phase = 'held'").await, 40);
    let last_lock = "select max(xmax::text::bigint) from lineclear.limit_key";
    let before = pg.number(last_lock).await;
    pg.store.wake_forgotten().await.unwrap();
    assert_eq!(pg.number(last_lock).await, before, "no key was locked");
    pg.sql("delete from lineclear.background_job where limit_key = 'k7'").await;
    pg.store.wake_forgotten().await.unwrap();
    assert_eq!(pg.number("select count(*) from lineclear.work_queue where phase = 'ready'").await, 1);
}
