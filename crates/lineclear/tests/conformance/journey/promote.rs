//! promote: jobs whose time has come, first in rank first.

use lineclear::model::GroupSpec;
use lineclear::store::NewJob;

use crate::kit::{TestDb, job, name};

/// Jobs for later become due now; their rank moves with them.
async fn let_them_come_due(db: &TestDb) {
    db.age("work_queue", "due_at", 7_200).await;
    db.sql("update {t}work_queue set rank = rank - 7200000000").await;
}

async fn phase(db: &TestDb, id: lineclear::store::JobId) -> Option<String> {
    db.sql(&format!("select phase from {{t}}work_queue where id = {}", id.0)).await[0][0].clone()
}

conformance! {
    pgbouncer async fn jobs_that_became_due_are_promoted_in_rank_order(db) {
        db.group("urgent", GroupSpec { priority: 31, ..GroupSpec::default() }).await;
        let in_an_hour = db.store.next_plan().await.unwrap().now.offset(3_600_000_000);
        let later = |due_us: i64| NewJob { due_at: Some(in_an_hour.offset(due_us)), ..job() };
        db.store.enqueue_many((0..300).map(|n| later(n * 1_000)).collect()).await.unwrap();
        // Due after all of them.
        let first = db.enqueue(NewJob { priority: 31, ..later(1_000_000) }).await;
        let of_group = db.enqueue(NewJob { group: Some(name("urgent")), ..later(1_000_001) }).await;
        let not_yet = db.enqueue(NewJob { priority: 31, ..later(86_400_000_000) }).await;
        assert_eq!(db.store.promote(10).await.unwrap(), 0, "nothing is due");

        let_them_come_due(db).await;
        assert_eq!(db.store.promote(10).await.unwrap(), 10);
        for id in [first, of_group] {
            assert_eq!(phase(db, id).await.as_deref(), Some("ready"), "it is not behind 300 others");
        }
        assert_eq!(db.store.promote(1_000).await.unwrap(), 292);
        assert_eq!(phase(db, not_yet).await.as_deref(), Some("later"));
        assert_eq!(db.store.promote(1_000).await.unwrap(), 0);
    }

    async fn jobs_whose_rank_does_not_follow_from_their_time_are_promoted_too(db) {
        let in_an_hour = db.store.next_plan().await.unwrap().now.offset(3_600_000_000);
        db.store.enqueue_many(vec![NewJob { due_at: Some(in_an_hour), ..job() }; 200]).await.unwrap();
        // Each as far from its time as no other.
        db.sql("update {t}work_queue set rank = id * 7").await;
        db.age("work_queue", "due_at", 7_200).await;
        let mut promoted = 0;
        while promoted < 200 {
            let more = db.store.promote(30).await.unwrap();
            assert!(more > 0, "{promoted} of 200");
            promoted += more;
        }
        assert_eq!(db.count("work_queue where phase = 'ready'").await, 200);
    }
}
