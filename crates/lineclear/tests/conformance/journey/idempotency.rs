//! Idempotency: a request with a key is carried out once, and its answer can be read again until the key expires.

use std::time::Duration;

use lineclear::store::{Created, Creation, IdempotencyKey, Idempotent, Retention, StoreError, StoreResult};

use crate::kit::{TestDb, daily, job, name};

fn key(key: &str) -> IdempotencyKey {
    let text = |text: &str| text.to_owned();
    IdempotencyKey {
        principal: text("ann"),
        key: text(key),
        request: text("POST /jobs"),
        body_hash: text("1"),
        keep: DAY,
    }
}

const DAY: Duration = Duration::from_secs(86_400);

fn recorded(created: &Created) -> Option<String> {
    match created {
        Created::Jobs(jobs) => Some(format!("job {}", jobs[0].id)),
        Created::Run(job) => job.map(|job| format!("job {job}")),
        _ => None,
    }
}

async fn create(db: &TestDb, once: IdempotencyKey) -> StoreResult<Idempotent> {
    db.store.create_idempotent(once, Creation::Jobs(vec![job()]), recorded).await
}

fn rule(answer: StoreResult<Idempotent>) -> String {
    match answer {
        Err(StoreError::Refused { rule, .. }) => rule,
        other => panic!("{other:?}"),
    }
}

conformance! {
    pgbouncer async fn a_request_under_a_key_is_done_once(db) {
        let Idempotent::Created(Created::Jobs(jobs)) = create(db, key("k")).await.unwrap() else { panic!() };
        let Idempotent::Replayed(text) = create(db, key("k")).await.unwrap() else { panic!() };
        assert_eq!(text, format!("job {}", jobs[0].id));
        assert_eq!(db.count("work_queue").await, 1);
        let bob = IdempotencyKey { principal: "bob".to_owned(), ..key("k") };
        assert!(matches!(create(db, bob).await, Ok(Idempotent::Created(_))), "keys of others are others");
        let other = IdempotencyKey { body_hash: "2".to_owned(), ..key("k") };
        assert_eq!(rule(create(db, other).await), "idempotency_key_reused");
        let other = IdempotencyKey { request: "POST /else".to_owned(), ..key("k") };
        assert_eq!(rule(create(db, other).await), "idempotency_key_reused");
        assert_eq!(db.count("work_queue").await, 2);
    }

    pgbouncer async fn what_is_refused_or_not_there_leaves_the_key_free(db) {
        let run = || Creation::Run(name("m"), Default::default());
        let missing = db.store.create_idempotent(key("k"), run(), recorded).await.unwrap();
        assert!(matches!(missing, Idempotent::Created(Created::Run(None))));
        assert_eq!(db.count("idempotency_key").await, 0);
        db.declare(daily("m")).await;
        let ran = db.store.create_idempotent(key("k"), run(), recorded).await.unwrap();
        assert!(matches!(ran, Idempotent::Created(Created::Run(Some(_)))));
        assert!(matches!(db.store.create_idempotent(key("k"), run(), recorded).await, Ok(Idempotent::Replayed(_))));
    }

    pgbouncer async fn a_key_whose_time_is_over_is_free_and_is_cleaned(db) {
        create(db, key("old")).await.unwrap();
        create(db, key("older")).await.unwrap();
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().idempotency_keys, 0);
        db.age("idempotency_key", "until", 2 * 86_400).await;
        assert!(matches!(create(db, key("old")).await, Ok(Idempotent::Created(_))), "it is taken over");
        let cleaned = db.store.clean(&Retention::default(), 100).await.unwrap();
        assert_eq!((cleaned.idempotency_keys, db.count("idempotency_key").await), (1, 1));
        assert!(matches!(create(db, key("old")).await, Ok(Idempotent::Replayed(_))));
    }
}
