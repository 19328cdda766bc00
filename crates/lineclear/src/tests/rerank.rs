//! A node changes a group's priority and dies: the group's waiting jobs still get their new rank.

use std::time::Duration;

use crate::manifests::groups::UpsertGroups;
use crate::manifests::rerank::RerankBatch;
use crate::tests::*;
use crate::{Lineclear, NodeOptions, Role};

async fn sqlite() -> (Store, tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let url = dir.path().join("test.db").to_str().expect("a path").to_owned();
    let store = Store::open(StoreOptions::new(&url).expect("a URL")).await.expect("the store opens");
    (store, dir, url)
}

/// Commits the change, as a node that dies before it reranks the jobs.
async fn prioritise_and_die(store: &Store, priority: u8) {
    let spec = GroupSpec { priority, ..GroupSpec::default() };
    let groups = BTreeMap::from([("etl".to_owned(), spec)]);
    let advisory_key = store.options.advisory_key("declare");
    store
        .run(UpsertGroups { groups, source: ChangeSource::Edit, advisory_key, expected: None })
        .await
        .expect("written");
}

/// Enqueues three jobs without a group, and then three of the group.
async fn six(store: &Store) -> Vec<JobId> {
    prioritise_and_die(store, 0).await;
    let of_group = NewJob { group: Some(name("etl")), ..job() };
    let mut jobs = vec![job(); 3];
    jobs.extend(vec![of_group; 3]);
    store.enqueue_many(jobs).await.expect("enqueued").iter().map(|one| one.id).collect()
}

async fn first_three(store: &Store) -> Vec<JobId> {
    let taken = store.dispatch_into_lease(Dispatch::new(main_route(), 3), lease(1)).await.expect("dispatch");
    taken.iter().map(|claim| claim.job).collect()
}

async fn any_cleaner_finishes_it(store: &Store, url: &str) {
    let ids = six(store).await;
    prioritise_and_die(store, 31).await;
    let options = NodeOptions {
        roles: vec![Role::Cleaner],
        clean_interval: Duration::from_millis(20),
        ..NodeOptions::default()
    };
    let node = Lineclear::builder().store(url).options(options).start().await.expect("a node");
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while marked(store).await {
        assert!(std::time::Instant::now() < deadline, "no cleaner came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(first_three(store).await, ids[3..], "before all others, although they came later");
    node.stop().await;
}

/// Whether something is left to do, without doing it.
async fn marked(store: &Store) -> bool {
    struct Marked;
    impl Verb for Marked {
        type Answer = bool;

        async fn run(&self, session: &mut Session) -> StoreResult<bool> {
            let rows = session.rows(Statement::GroupRerankNext, Vec::<db::Value>::new()).await?;
            Ok(!rows.is_empty())
        }
    }
    store.run(Marked).await.expect("read")
}

async fn another_change_begins_anew(store: &Store) {
    let ids = six(store).await;
    prioritise_and_die(store, 31).await;
    assert!(store.run(RerankBatch { most: 2 }).await.expect("a batch"), "two of three");
    assert!(marked(store).await, "the third is not forgotten");
    prioritise_and_die(store, 0).await;
    let mut batches = 0;
    while store.run(RerankBatch { most: 1 }).await.expect("a batch") {
        batches += 1;
    }
    assert_eq!(batches, 4, "all three once more, and nothing after them");
    assert_eq!(first_three(store).await, ids[..3], "as it was");
}

#[tokio::test]
async fn a_priority_whose_node_died_after_the_change_is_finished_by_any_cleaner_on_postgres() {
    let pg = Pg::open().await;
    any_cleaner_finishes_it(&pg.store, pg.database.url()).await;
}

#[tokio::test]
async fn a_priority_whose_node_died_after_the_change_is_finished_by_any_cleaner_on_sqlite() {
    let (store, _dir, url) = sqlite().await;
    any_cleaner_finishes_it(&store, &url).await;
}

#[tokio::test]
async fn a_priority_that_changes_while_another_is_half_done_begins_anew_on_postgres() {
    another_change_begins_anew(&Pg::open().await.store).await;
}

#[tokio::test]
async fn a_priority_that_changes_while_another_is_half_done_begins_anew_on_sqlite() {
    another_change_begins_anew(&sqlite().await.0).await;
}

/// The change is committed; a locked job must not make it fail.
#[tokio::test]
async fn changing_a_priority_does_not_wait_for_locked_jobs() {
    let pg = Pg::open().await;
    let ids = six(&pg.store).await;
    let holder = pg.client().await;
    holder.batch_execute("begin; select id from lineclear.work_queue for update").await.expect("locked");
    let spec = GroupSpec { priority: 31, ..GroupSpec::default() };
    let written = pg.store.edit_group("etl", spec, None);
    tokio::time::timeout(Duration::from_secs(10), written).await.expect("in time").expect("written");
    assert!(marked(&pg.store).await, "it is still to be done");
    holder.batch_execute("rollback").await.expect("let go");
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while marked(&pg.store).await {
        assert!(std::time::Instant::now() < deadline, "reranking continues after the answer");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(first_three(&pg.store).await, ids[3..]);
}
