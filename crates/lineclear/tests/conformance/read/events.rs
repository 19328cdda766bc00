//! events: listed in order; a reader that continues from the horizon misses none.

use std::collections::BTreeSet;

use lineclear::model::{Failure, Micros, Outcome};
use lineclear::store::{About, AuditEnd, Events, NewAudit, Store};

use crate::kit::{TestDb, completed, failed, job};

/// The beginning of time.
const EVER: Micros = Micros::EPOCH;

fn words(events: &Events) -> Vec<(i64, String)> {
    let jobs = events.items.iter().filter_map(|event| match &event.about {
        About::Job { job, outcome, dead_letter, .. } if dead_letter.is_some() => {
            Some((job.0, format!("{outcome}, dead")))
        }
        About::Job { job, outcome, .. } => Some((job.0, outcome.clone())),
        _ => None,
    });
    jobs.collect()
}

conformance! {
    async fn every_end_of_a_claim_is_an_event(db) {
        let node = db.node("a").await;
        db.store.enqueue_many(vec![job(); 4]).await.unwrap();
        let claims = db.take(node, 3).await;
        db.settle(node, &claims[0], completed()).await;
        db.settle(node, &claims[1], failed("again")).await;
        db.settle(node, &claims[2], Outcome::DeadLetter(Failure::new("x", "y"))).await;
        let waiting = db.store.jobs(&Default::default(), None, 10).await.unwrap().items[0].id;
        db.store.cancel(waiting).await.unwrap();

        let events = db.store.events(EVER).await.unwrap();
        let id = |n: usize| claims[n].job.0;
        let expected = [(id(0), "completed"), (id(1), "failed"), (id(2), "failed, dead"), (waiting.0, "cancelled")];
        let told: BTreeSet<_> = words(&events).into_iter().collect();
        assert_eq!(told, expected.map(|(id, word)| (id, word.to_owned())).into_iter().collect());
        let times: Vec<_> = events.items.iter().map(|event| event.at).collect();
        assert!(times.is_sorted(), "{times:?}");
        let nodes = events.items.iter().filter(|event| matches!(&event.about, About::Node { what, .. } if what == "started"));
        assert_eq!(nodes.count(), 1);
        assert!(events.horizon < events.now && !events.more && !events.overrun);
        let on = db.store.events(events.horizon).await.unwrap();
        assert_eq!(words(&on).len(), 4, "what lies behind the horizon comes again");
    }

    pgbouncer async fn a_row_of_the_audit_is_an_event_once_with_what_became_of_it(db) {
        let entry = |action: &str| NewAudit {
            who: "token:ci".to_owned(), token: None, action: action.to_owned(), target: "etl".to_owned(), request_id: "r1".to_owned(),
        };
        let ids = db.store.audit_begin(vec![entry("put_group"), entry("run_group")]).await.unwrap();
        db.store.audit_end(vec![AuditEnd { id: ids[0], status: 204, details: Some("{}".to_owned()) }]).await.unwrap();
        let rows = |events: &Events| {
            let rows = events.items.iter().filter(|event| matches!(event.about, About::Audit { .. }));
            rows.cloned().collect::<Vec<_>>()
        };
        let about = |id, action: &str, status| About::Audit {
            id, who: "token:ci".to_owned(), action: action.to_owned(), target: "etl".to_owned(), status,
        };
        let events = db.store.events(EVER).await.unwrap();
        let told = rows(&events);
        assert_eq!(told.iter().map(|row| row.about.clone()).collect::<Vec<_>>(), [about(ids[0], "put_group", Some(204))], "the other is not over");
        let again = rows(&db.store.events(events.horizon).await.unwrap());
        assert_eq!(again, told, "what lies behind the horizon comes again");
        // It never ends: its server died meanwhile.
        db.age("audit", "at", 20).await;
        let late = rows(&db.store.events(EVER).await.unwrap());
        assert_eq!(late[1].about, about(ids[1], "run_group", None));
        db.store.audit_end(vec![AuditEnd { id: ids[1], status: 201, details: None }]).await.unwrap();
        let ended = rows(&db.store.events(EVER).await.unwrap());
        assert_eq!(ended[1].about, about(ids[1], "run_group", Some(201)));
        assert_eq!((ended[0].key, ended[1].key), (told[0].key, late[1].key), "the same one, whatever became of it");
    }

    async fn a_node_that_fell_silent_is_an_event(db) {
        db.node("a").await;
        db.age("node", "seen_at", 31).await;
        let events = db.store.events(EVER).await.unwrap();
        assert!(events.items.iter().any(|event| matches!(&event.about, About::Node { what, .. } if what == "silent")));
    }
}

async fn on(store: &Store, place: &mut Micros) -> Vec<i64> {
    let events = store.events(*place).await.unwrap();
    *place = events.horizon;
    words(&events).into_iter().map(|(job, _)| job).collect()
}

/// Ids and times are given when a transaction begins, and seen when it ends: one that lasts is overtaken.
#[tokio::test]
async fn what_is_committed_late_is_not_missed() {
    let db = TestDb::postgres().await;
    let node = db.node("a").await;
    let url =
        format!("{}{}application_name=lineclear", db.url(), if db.url().contains('?') { '&' } else { '?' });
    let (mut slow, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut place = db.store.event_horizon().await.unwrap().0;
    let transaction = slow.transaction().await.unwrap();
    let insert = "insert into lineclear.execution (job_id, claim_no, final, outcome, origin, kind, created_at, due_at, finished_at) \
                  values (777, 1, true, 'completed', 'adhoc', 'work', now(), now(), now())";
    transaction.batch_execute(insert).await.unwrap();
    let mut told = BTreeSet::new();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(4);
    let mut jobs = 0;
    // Longer than the second that the horizon lies back in any case.
    while std::time::Instant::now() < deadline {
        db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        jobs += 1;
        told.extend(on(&db.store, &mut place).await);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(told.len(), jobs, "others are told meanwhile");
    assert!(!told.contains(&777));
    transaction.commit().await.unwrap();
    told.extend(on(&db.store, &mut place).await);
    assert!(told.contains(&777), "it was overtaken by {jobs}, and is told all the same");
    let now = db.store.event_horizon().await.unwrap();
    assert!(now.0.get() > now.1.get() - 2_000_000, "and the horizon moves on: {now:?}");
}
