//! Jobs that many callers enqueue at once, one each, share a commit; each has its own answer.

use std::collections::BTreeSet;
use std::time::Duration;

use lineclear::model::GroupSpec;
use lineclear::store::{NewJob, StoreError};
use tokio::task::JoinSet;

use crate::kit::{TestDb, job, name, payload};

/// From now on the database refuses jobs of kind `bad`.
async fn refuse_bad_ones(db: &TestDb) {
    let sql = if db.url().starts_with("postgres") {
        "alter table {t}work_queue add constraint no_bad_ones check (kind <> 'bad')"
    } else {
        "create trigger no_bad_ones before insert on work_queue when new.kind = 'bad'
         begin select raise(abort, 'no_bad_ones'); end"
    };
    db.sql(sql).await;
}

fn numbered(n: u32) -> NewJob {
    NewJob { input: payload(&n.to_string()), ..job() }
}

conformance! {
    pgbouncer async fn callers_at_once_share_commits_and_get_their_own_jobs(db) {
        db.group("etl", GroupSpec::default()).await;
        let mut callers = JoinSet::new();
        for n in 0..300 {
            let store = db.store.clone();
            let group = (n % 3 == 0).then(|| name("etl"));
            callers.spawn(async move { (n, store.enqueue(NewJob { group, ..numbered(n) }).await.unwrap()) });
        }
        let answers = callers.join_all().await;
        assert_eq!(answers.iter().map(|(_, enqueued)| enqueued.id.0).collect::<BTreeSet<_>>().len(), 300);
        for (n, enqueued) in &answers[..20] {
            let detail = db.store.job(enqueued.id).await.unwrap().unwrap();
            assert_eq!(detail.input, Some(n.to_string()), "the answer is the caller's own");
        }
        // The time of a row is that of its transaction.
        let commits = db.sql("select count(distinct created_at) from {t}work_queue").await;
        let commits: u32 = commits[0][0].as_deref().unwrap().parse().unwrap();
        assert!(commits <= 60, "300 jobs took {commits} transactions");
        assert_eq!(db.count("work_queue where group_id is not null").await, 100);
    }

    pgbouncer async fn one_bad_job_does_not_fail_those_that_share_its_statement(db) {
        refuse_bad_ones(db).await;
        let mut callers = JoinSet::new();
        for n in 0..100 {
            let store = db.store.clone();
            let kind = if n % 25 == 7 { name("bad") } else { name("work") };
            callers.spawn(async move { (n, store.enqueue(NewJob { kind, ..numbered(n) }).await) });
        }
        for (n, answer) in callers.join_all().await {
            match answer {
                Ok(_) => assert_ne!(n % 25, 7, "{n} is good"),
                Err(StoreError::Refused { why, rule, .. }) => {
                    assert_eq!(n % 25, 7, "{n} is bad");
                    assert!(format!("{rule} {why}").contains("no_bad_ones"), "{rule}: {why}");
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(db.count("work_queue").await, 96);
    }

    async fn an_invalid_job_is_refused_without_the_others(db) {
        let good = db.store.enqueue(job());
        let bad = db.store.enqueue(NewJob { priority: 32, ..job() });
        let stray = db.store.enqueue(NewJob { group: Some(name("missing")), ..job() });
        let (good, bad, stray) = tokio::join!(good, bad, stray);
        good.unwrap();
        assert!(matches!(bad, Err(StoreError::Refused { rule, .. }) if rule == "priority"));
        assert!(matches!(stray, Err(StoreError::Refused { rule, .. }) if rule == "group_unknown"));
        assert_eq!(db.count("work_queue").await, 1);
    }

    pgbouncer async fn callers_that_go_away_do_not_harm_those_that_stay(db) {
        let mut callers = JoinSet::new();
        for n in 0..200 {
            let store = db.store.clone();
            callers.spawn(async move {
                let enqueue = store.enqueue(numbered(n));
                if n % 2 == 0 {
                    // Dropped in the middle, at the latest when it first has to wait.
                    drop(tokio::time::timeout(Duration::ZERO, enqueue).await);
                    return None;
                }
                Some(enqueue.await.unwrap().id)
            });
        }
        let stayed: BTreeSet<i64> = callers.join_all().await.into_iter().flatten().map(|id| id.0).collect();
        assert_eq!(stayed.len(), 100);
        db.store.enqueue(job()).await.unwrap();
        let queued = db.count("work_queue").await;
        assert!((101..=201).contains(&queued), "{queued}");
    }

    async fn large_jobs_do_not_go_together(db) {
        let large = payload(&format!("\"{}\"", "x".repeat(200_000)));
        let mut callers = JoinSet::new();
        for _ in 0..12 {
            let (store, input) = (db.store.clone(), large.clone());
            callers.spawn(async move { store.enqueue(NewJob { input, ..job() }).await.unwrap() });
        }
        assert_eq!(callers.join_all().await.len(), 12);
        assert_eq!(db.count("job_payload").await, 12);
    }
}

/// The task that sends the shared statement may belong to a runtime that ends.
#[test]
fn no_caller_waits_for_ever_for_a_runtime_that_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lasting = runtime();
    let db = lasting.block_on(TestDb::sqlite());
    for _ in 0..20 {
        let fleeting = runtime();
        let store = db.store.clone();
        fleeting.spawn(async move { drop(store.enqueue(job()).await) });
        fleeting.block_on(tokio::task::yield_now());
        drop(fleeting);
        let waited = lasting
            .block_on(async { tokio::time::timeout(Duration::from_secs(20), db.store.enqueue(job())).await });
        waited.expect("an answer").expect("a job");
    }
}

#[test]
fn sqlite_needs_no_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let db = runtime.block_on(TestDb::sqlite());
    let mut enqueue = std::pin::pin!(db.store.enqueue(job()));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(answer) = enqueue.as_mut().poll(&mut context) {
            answer.unwrap();
            return;
        }
        assert!(std::time::Instant::now() < deadline, "no answer");
        std::thread::yield_now();
    }
}
