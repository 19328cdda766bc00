//! A mark moves with each poll that left nothing behind it, and hides nothing that was left.

use std::time::{Duration, Instant};

use lineclear_model::Micros;
use lineclear_testkit::Proxy;

use crate::db::Value;
use crate::store::{PollCursor, PromoteCursor, ReclaimCursor};
use crate::tests::costs::pass;
use crate::tests::*;

/// A store whose answers come late: what is polled through it has marks.
async fn far_away(pg: &Pg) -> (Store, Proxy) {
    let proxy = Proxy::to_url(pg.database.url()).await.expect("a proxy");
    let store = Pg::store(&proxy.url_for(pg.database.url())).await;
    proxy.delay(Duration::from_millis(50));
    (store, proxy)
}

#[tokio::test]
async fn a_lease_whose_row_was_locked_is_reclaimed_as_soon_as_it_is_free() {
    let pg = Pg::open().await;
    let (store, _proxy) = far_away(&pg).await;
    pg.store.enqueue_many(vec![job()]).await.unwrap();
    assert_eq!(pg.take(1, 1).await.len(), 1);
    pg.sql("update lineclear.background_job set due_at = now() - interval '1 minute'").await;
    let application = pg.client().await;
    application.batch_execute("begin; select from lineclear.background_job for update").await.unwrap();
    let mut cursor = ReclaimCursor::default();
    assert_eq!(store.reclaim_from(&mut cursor, 10, 3).await.unwrap(), [], "it is locked");
    application.batch_execute("rollback").await.unwrap();
    assert_eq!(store.reclaim_from(&mut cursor, 10, 3).await.unwrap().len(), 1);
    assert_eq!(store.reclaim_from(&mut cursor, 10, 3).await.unwrap(), []);
    assert!(cursor.mark().is_some(), "then nothing is left");
}

#[tokio::test]
async fn a_lease_that_awaited_the_next_heartbeat_of_its_node_is_reclaimed_as_soon_as_that_is_late() {
    let pg = Pg::open().await;
    let (store, _proxy) = far_away(&pg).await;
    pg.store.enqueue_many(vec![job()]).await.unwrap();
    let info = NodeInfo {
        name: "a".to_owned(),
        host: "host".to_owned(),
        pid: 1,
        incarnation: "a-1".to_owned(),
        version: "1".to_owned(),
        roles: "[]".to_owned(),
        routes: "[]".to_owned(),
        kinds: "[]".to_owned(),
        slots: 1,
        runners: "{}".to_owned(),
    };
    let node = pg.store.heartbeat_leading(info, None, Duration::from_secs(600)).await.unwrap().id;
    assert_eq!(pg.take(node.0, 1).await.len(), 1);
    pg.sql("update lineclear.background_job set due_at = now()").await;
    let mut cursor = ReclaimCursor::default();
    assert_eq!(store.reclaim_from(&mut cursor, 10, 3).await.unwrap(), [], "its node may be slow");
    pg.sql("update lineclear.node set beat_ms = 0").await;
    assert_eq!(store.reclaim_from(&mut cursor, 10, 3).await.unwrap().len(), 1);
}

/// Until a second has passed in the database: marks stay that far behind.
async fn a_second_passes(pg: &Pg) {
    let (begun, from) = (Instant::now(), pg.store.now().await.unwrap());
    while pg.store.now().await.unwrap() <= from.offset(1_000_000) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the clock stands still");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn int(v: i64) -> Value {
    Value::Int(Some(v))
}

/// What the next promotion, the next reclaim and the next poll for work read.
async fn pages_of(pg: &Pg, cursors: &(PromoteCursor, ReclaimCursor, PollCursor)) -> [i64; 3] {
    let (promote, reclaim, poll) = cursors;
    let now = Value::Time(Some(pg.store.now().await.unwrap()));
    let none = || Value::Ints(Vec::new());
    let reclaim = vec![int(100), int(3), none(), none(), now, Value::Time(reclaim.mark())];
    let ([due, lease, waits], last_id) = poll.marks();
    let marks = [due, lease, waits].map(Value::Time);
    let poll = [vec![Value::Texts(vec!["main".to_owned()]), int(100)], marks.to_vec(), vec![int(last_id)]];
    [
        pg.pages(Statement::PromoteSince, vec![int(100), Value::Time(promote.mark())]).await,
        pg.pages(Statement::Reclaim, reclaim).await,
        pg.pages(Statement::PollWork, poll.concat()).await,
    ]
}

#[tokio::test]
async fn polls_from_a_mark_under_an_old_snapshot_read_no_more_however_often_jobs_pass() {
    let pg = Pg::open().await;
    let _dump = pg.old_snapshot().await;
    let mut cursors = (PromoteCursor::default(), ReclaimCursor::default(), PollCursor::default());
    let now: Micros = pg.store.now().await.unwrap();
    cursors.0.keep_mark(now);
    cursors.1.keep_mark(now);
    cursors.2.keep_mark(now, 0);
    let mut read = Vec::new();
    for _ in 0..5 {
        pass(&pg, 2).await;
        a_second_passes(&pg).await;
        assert_eq!(pg.store.promote_from(&mut cursors.0, 100).await.unwrap(), 0);
        assert_eq!(pg.store.reclaim_from(&mut cursors.1, 100, 3).await.unwrap(), []);
        let work = pg.store.poll_work_from(&mut cursors.2, vec![main_route()], 100).await.unwrap();
        assert!(!work.due && !work.lease_over && !work.routes[0].waits, "{work:?}");
        read.push(pages_of(&pg, &cursors).await);
    }
    for (at, what) in ["promotion", "reclaim", "poll for work"].into_iter().enumerate() {
        // The second, because a poll remembers the last id of the one before.
        let (early, late) = (read[1][at], read[4][at]);
        assert!(
            late <= early + early / 3 + 5,
            "a {what}: {early} pages, and {late} three repetitions later; {read:?}"
        );
    }
}

/// What a transaction that was open for long brings is behind the marks, and is found by the next poll from the front.
#[tokio::test]
async fn a_job_that_was_committed_late_is_found_when_the_marks_end() {
    let pg = Pg::open().await;
    let mut cursor = PromoteCursor::default();
    cursor.keep_mark(pg.store.now().await.unwrap());
    let until = cursor.until();
    a_second_passes(&pg).await;
    a_second_passes(&pg).await;
    assert_eq!(pg.store.promote_from(&mut cursor, 10).await.unwrap(), 0);
    assert_eq!(cursor.until(), until, "a poll from a mark does not put off the next one from the front");
    pg.store.enqueue_many(vec![job()]).await.unwrap();
    pg.sql("update lineclear.work_queue set phase = 'later', due_at = now() - interval '1500 milliseconds'")
        .await;
    assert_eq!(pg.store.promote_from(&mut cursor, 10).await.unwrap(), 0, "it is behind the mark");
    cursor.end_marks();
    assert_eq!(pg.store.promote_from(&mut cursor, 10).await.unwrap(), 1);
}
