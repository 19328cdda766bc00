//! What waits for a lock as long as it takes, and what goes back if no worker claims it.

use std::time::Duration;

use crate::tests::*;

/// Longer than a caller waits for any other lock.
const LONG: Duration = Duration::from_millis(2_500);

#[tokio::test]
async fn nodes_that_start_together_wait_for_the_first_to_migrate_and_declare() {
    let database = lineclear_testkit::fresh_postgres().await;
    let options = StoreOptions::new(database.url()).expect("a URL").migrate(false);
    let pg = Pg { store: Store::open(options).await.expect("the store opens"), database };
    let first = pg.client().await;
    for purpose in ["migrate", "declare"] {
        let key = pg.store.options.advisory_key(purpose);
        first.batch_execute(&format!("select pg_advisory_lock({key})")).await.expect("the first has it");
    }
    let store = pg.store.clone();
    let second = tokio::spawn(async move {
        store.migrate().await.expect("migrated");
        store.upsert_manifests([daily("m")], ChangeSource::Declaration).await.expect("declared");
    });
    for purpose in ["migrate", "declare"] {
        pg.until_a_session_waits().await;
        tokio::time::sleep(LONG).await;
        let key = pg.store.options.advisory_key(purpose);
        first.batch_execute(&format!("select pg_advisory_unlock({key})")).await.expect("it is done");
    }
    second.await.expect("the second waits for the first, and succeeds");
}

async fn unclaimed_jobs_go_back(store: &Store) {
    store.enqueue_many(vec![job(); 2]).await.expect("enqueued");
    let dispatched = store.dispatch(Dispatch::new(main_route(), 1)).await.expect("dispatched");
    assert_eq!(store.hand_back(&main_route(), 10, Duration::from_secs(60)).await.expect("early"), 0);
    let back = async || store.hand_back(&main_route(), 10, Duration::ZERO).await.expect("late");
    assert_eq!((back().await, back().await), (1, 0));
    let claims =
        store.dispatch_into_lease(Dispatch::new(main_route(), 10), lease(1)).await.expect("dispatched");
    assert_eq!(claims.len(), 2, "it is dispatched again");
    assert_eq!((claims[0].job, claims[0].no, claims[0].crashes), (dispatched[0], 1, 0), "in its old place");
    assert_eq!(store.hand_back(&main_route(), 10, Duration::ZERO).await.expect("leased"), 0);
}

#[tokio::test]
async fn a_dispatched_job_that_no_worker_claims_goes_back_on_postgres() {
    unclaimed_jobs_go_back(&Pg::open().await.store).await;
}

#[tokio::test]
async fn a_dispatched_job_that_no_worker_claims_goes_back_on_sqlite() {
    let store = Store::open(StoreOptions::new(":memory:").expect("a URL")).await.expect("the store opens");
    unclaimed_jobs_go_back(&store).await;
}
