//! A dispatcher that dispatches again and again, and does not scan from the front each time.

use std::time::Duration;

use crate::journey::dispatch::cursor::{Cursor, FRONT};
use crate::tests::*;

async fn take(pg: &Pg, head: &mut Cursor, most: u32) -> Vec<JobId> {
    let taken =
        pg.store.dispatch_into_lease_from(head, Dispatch::new(main_route(), most), lease(1)).await.unwrap();
    taken.iter().map(|claim| claim.job).collect()
}

/// A cursor that is used: as if the scan from the front had taken a second.
async fn far_from_the_front(pg: &Pg, most: u32) -> Cursor {
    let mut head = Cursor::unknown();
    assert_eq!(take(pg, &mut head, most).await.len(), most as usize);
    let rank = head.rank();
    head.reached(rank, FRONT, Duration::from_secs(1));
    head
}

#[tokio::test]
async fn a_full_batch_goes_on_where_the_last_one_ended_and_leaves_nothing_out() {
    let pg = Pg::open().await;
    let ids: Vec<JobId> =
        pg.store.enqueue_many(vec![job(); 30]).await.unwrap().iter().map(|one| one.id).collect();
    let mut head = far_from_the_front(&pg, 10).await;
    assert_ne!(head.start(), FRONT);
    let mut rest = take(&pg, &mut head, 10).await;
    rest.extend(take(&pg, &mut head, 100).await);
    assert_eq!(rest, ids[10..], "in their order");
    assert_eq!(head.start(), FRONT, "the line is at its end");
}

#[tokio::test]
async fn what_came_in_before_is_found_as_soon_as_there_is_room_for_it() {
    let pg = Pg::open().await;
    pg.store.enqueue_many(vec![job(); 20]).await.unwrap();
    let mut head = far_from_the_front(&pg, 10).await;
    let urgent = pg.store.enqueue(NewJob { priority: 5, ..job() }).await.unwrap().id;
    assert!(!take(&pg, &mut head, 5).await.contains(&urgent), "passed by, for a while");
    assert!(take(&pg, &mut head, 10).await.contains(&urgent), "room for all: the front is looked at again");
}

#[tokio::test]
async fn the_same_holds_under_a_global_limit() {
    let pg = Pg::open().await;
    pg.group(GLOBAL_GROUP, 1_000).await;
    pg.store.enqueue_many(vec![job(); 20]).await.unwrap();
    let mut head = far_from_the_front(&pg, 10).await;
    let urgent = pg.store.enqueue(NewJob { priority: 5, ..job() }).await.unwrap().id;
    assert!(!take(&pg, &mut head, 5).await.contains(&urgent), "passed by, for a while");
    let rest = take(&pg, &mut head, 10).await;
    assert!(rest.len() == 6 && rest.contains(&urgent), "room for all: the front is looked at again");
}

#[tokio::test]
async fn the_front_is_looked_at_again_every_second() {
    let pg = Pg::open().await;
    pg.store.enqueue_many(vec![job(); 20]).await.unwrap();
    let mut head = far_from_the_front(&pg, 10).await;
    let urgent = pg.store.enqueue(NewJob { priority: 5, ..job() }).await.unwrap().id;
    head.reached(head.rank(), FRONT, Duration::from_secs(3600));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(take(&pg, &mut head, 1).await, [urgent], "before all that came earlier");
}

#[tokio::test]
async fn rows_that_left_the_line_are_not_walked_past_again() {
    let pg = Pg::open().await;
    pg.sql("alter table lineclear.work_queue set (autovacuum_enabled = off)").await;
    for _ in 0..10 {
        pg.store.enqueue_many(vec![job(); 500]).await.unwrap();
    }
    // An old snapshot keeps them all in the index.
    let mut old = pg.client().await;
    let snapshot =
        old.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead).start();
    let snapshot = snapshot.await.unwrap();
    snapshot.query_one("select count(*) from lineclear.work_queue", &[]).await.unwrap();
    let mut head = Cursor::unknown();
    for _ in 0..8 {
        assert_eq!(take(&pg, &mut head, 500).await.len(), 500);
    }
    let walked = async |from: i64| -> i64 {
        let line = format!(
            "explain (analyze, buffers, costs off, timing off) select id from lineclear.work_queue
             where route = 'main' and phase = 'ready' and not gated and rank >= {from} order by rank, id limit 1"
        );
        let plan = pg.client().await.query(&line, &[]).await.unwrap();
        let hit = |row: &tokio_postgres::Row| {
            row.get::<_, &str>(0).split_once("shared hit=")?.1.split(' ').next()?.parse().ok()
        };
        plan.iter().find_map(hit).unwrap()
    };
    let (front, head) = (walked(FRONT).await, walked(head.rank()).await);
    assert!(head * 4 < front, "{front} pages from the front, {head} from the head");
}
