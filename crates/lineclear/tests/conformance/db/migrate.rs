//! Migrations: from nothing, by many at once, and never backwards.

use std::time::Duration;

use lineclear::model::{Backoff, Manifest};
use lineclear::store::{BulkAction, BulkMode, BulkOperationId, Store, StoreError, StoreOptions};
use lineclear_testkit::fresh_postgres;

use crate::kit::{TestDb, daily, name};
use crate::operate::bulk_operations::add;

async fn open(url: &str) -> Result<Store, StoreError> {
    Store::open(StoreOptions::new(url)?.connections(2)).await
}

/// The newest migration: its number and its name.
fn newest() -> (u32, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres");
    let files =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let last = files.max().unwrap().trim_end_matches(".sql").to_owned();
    (last[..4].parse().unwrap(), last)
}

async fn many_at_once(url: &str) {
    let opening: Vec<_> = (0..10)
        .map(|_| {
            tokio::spawn({
                let url = url.to_owned();
                async move { open(&url).await }
            })
        })
        .collect();
    for store in opening {
        let status = store.await.unwrap().unwrap().migration_status().await.unwrap();
        assert_eq!((status.applied, status.pending.len()), (newest().0, 0));
    }
}

/// Takes back migration 26 and those after it.
async fn before_bulk_operations(db: &TestDb) {
    db.sql("drop table {t}kind_route").await;
    db.sql("drop table {t}claim_key").await;
    db.sql("alter table {t}background_job drop column external_id").await;
    db.sql("alter table {t}access_token drop column kinds").await;
    db.sql("alter table {t}browser_session drop column address").await;
    db.sql("alter table {t}migration drop column compatible_from").await;
    db.sql("alter table {t}node drop column beat_ms").await;
    db.sql("drop table {t}bulk_operation").await;
    let database = if db.url().starts_with("postgres") { "postgres" } else { "sqlite" };
    for name in ["0017_batch", "0023_batch_mode"] {
        let file = format!("{}/migrations/{database}/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).unwrap();
        for statement in text.split_inclusive(";\n") {
            db.sql(&statement.replace("{schema}.", "{t}")).await;
        }
    }
}

/// A manifest with a part of each kind that has a column beside its spec.
fn with_parts() -> Manifest {
    let (delay, max) = (Duration::from_secs(7), Duration::from_secs(90));
    let retry = Some(Backoff { delay, factor: 1.5, max });
    Manifest { retry, tags: vec![name("night"), name("big-2")], ..daily("a") }
}

/// A job of it has its tags, and its claim the waits between tries.
async fn assert_parts(db: &TestDb, store: &Store) {
    let job = store.trigger(name("a"), Default::default()).await.unwrap().unwrap();
    assert_eq!(store.job(job).await.unwrap().unwrap().job.tags, ["night", "big-2"]);
    let claim = db.take_one(db.node("a").await).await;
    assert_eq!((claim.job, claim.backoff), (job, with_parts().retry));
}

conformance! {
    async fn backoff_and_tags_of_stored_manifests_get_columns(db) {
        db.declare(with_parts()).await;
        db.declare(daily("b")).await;
        db.declare(Manifest { key: name("c"), ..with_parts() }).await;
        db.sql(r#"update {t}manifest set spec = '{not json "retry" "tags"' where key = 'c'"#).await;
        db.sql("alter table {t}manifest drop column backoff").await;
        db.sql("alter table {t}manifest drop column tags").await;
        before_bulk_operations(db).await;
        db.sql("delete from {t}migration where number >= 25").await;
        let store = db.another_store().await;
        let tags: Vec<Option<String>> =
            db.sql("select tags from {t}manifest order by key").await.into_iter().flatten().collect();
        assert_eq!(tags, [Some("night big-2".to_owned()), None, None]);
        assert_eq!(db.count("manifest where backoff is not null").await, 1);
        assert_parts(db, &store).await;
    }

    async fn bulk_operations_keep_their_numbers_under_the_new_name(db) {
        before_bulk_operations(db).await;
        db.sql("delete from {t}migration where number >= 26").await;
        let time = if db.url().starts_with("postgres") { "now()" } else { "1" };
        for q in ["first", "second", "third"] {
            db.sql(&format!(
                "insert into {{t}}batch (action, q, created_by, created_at, starts_at, total, total_is_exact, position, newest, over_ms) \
                 values ('cancel', '{q}', 'ann', {time}, {time}, 1, {}, 5, 4, 77)",
                if time == "1" { "1" } else { "true" }
            ))
            .await;
        }
        db.sql("delete from {t}batch where q = 'third'").await;
        let store = db.another_store().await;
        let second = store.bulk_operation(BulkOperationId(2)).await.unwrap().unwrap();
        assert_eq!((second.q.as_str(), second.created_by.as_str(), second.mode), ("second", "ann", BulkMode::All));
        let added = add(db, BulkAction::Cancel, "state:queued").await;
        assert_eq!(added.id, BulkOperationId(4), "no number is given twice");
    }

    async fn a_declaration_completes_what_a_node_of_an_older_version_wrote(db) {
        db.declare(with_parts()).await;
        db.sql("update {t}manifest set backoff = null, tags = null").await;
        db.declare(with_parts()).await;
        assert_parts(db, &db.store).await;
    }

    pgbouncer async fn a_newer_schema_that_does_not_say_so_is_refused(db) {
        db.sql("insert into {t}migration (number, name, checksum) values (9999, '9999_future', 'x')").await;
        match open(db.url()).await {
            Err(StoreError::Refused { rule, why, .. }) => {
                assert_eq!(rule, "schema_newer");
                assert!(why.contains("9999_future"), "{why}");
            }
            other => panic!("{:?}", other.map(drop)),
        }
    }

    pgbouncer async fn a_newer_schema_is_opened_if_each_newer_migration_says_that_it_is_compatible(db) {
        let (known, _) = newest();
        db.sql(&format!("insert into {{t}}migration (number, name, checksum, compatible_from) values (9998, '9998_adds', 'x', 0), (9999, '9999_drops', 'x', {known})")).await;
        let store = open(db.url()).await.unwrap();
        let status = store.migrate().await.unwrap();
        assert_eq!((status.applied, status.newer.as_slice()), (known, ["9998_adds".to_owned(), "9999_drops".to_owned()].as_slice()));
        store.enqueue(crate::kit::job()).await.unwrap();
        db.sql(&format!("update {{t}}migration set compatible_from = {} where number = 9999", known + 1)).await;
        let refused = open(db.url()).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("9999_drops") && refused.contains(&format!("knows migration {}", known + 1)), "{refused}");
    }

    async fn a_schema_that_lacks_a_migration_before_a_newer_one_is_refused(db) {
        db.sql("insert into {t}migration (number, name, checksum, compatible_from) values (9999, '9999_adds', 'x', 0)").await;
        db.sql(&format!("delete from {{t}}migration where number = {}", newest().0)).await;
        let refused = open(db.url()).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("lacks") && refused.contains(&newest().1), "{refused}");
    }

    async fn a_migration_with_other_contents_is_noticed(db) {
        db.sql("update {t}migration set checksum = 'edited' where number = 2").await;
        assert!(matches!(open(db.url()).await, Err(StoreError::Corrupt { .. })));
    }

    pgbouncer async fn a_store_opened_without_migrating_only_looks(db) {
        let (number, name) = newest();
        db.sql(&format!("delete from {{t}}migration where number = {number}")).await;
        let store = Store::open(StoreOptions::new(db.url()).unwrap().migrate(false)).await.unwrap();
        let status = store.migration_status().await.unwrap();
        assert_eq!((status.pending.len(), status.pending[0].name), (1, name.as_str()));
        assert!(0 < status.applied && status.applied < number);
        assert!(status.pending[0].sql().contains(&name));
    }
}

#[tokio::test]
async fn ten_nodes_that_start_together_migrate_once_on_postgres() {
    let database = fresh_postgres().await;
    many_at_once(database.url()).await;
    many_at_once(&format!("{}?pooler=transaction", database.pgbouncer_url())).await;
}

#[tokio::test]
async fn ten_nodes_that_start_together_migrate_once_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    many_at_once(dir.path().join("new.db").to_str().unwrap()).await;
}

#[tokio::test]
async fn two_schemas_in_one_database_do_not_meet() {
    let database = fresh_postgres().await;
    let a = open(&format!("{}?schema=one", database.url())).await.unwrap();
    let b = open(&format!("{}?schema=two", database.url())).await.unwrap();
    a.enqueue(crate::kit::job()).await.unwrap();
    assert_eq!(a.jobs(&Default::default(), None, 10).await.unwrap().items.len(), 1);
    assert_eq!(b.jobs(&Default::default(), None, 10).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn a_database_in_memory_works_like_the_others() {
    let store = open(":memory:").await.unwrap();
    store.enqueue(crate::kit::job()).await.unwrap();
    assert_eq!(store.jobs(&Default::default(), None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_or_written_says_so() {
    let unreachable = open("postgres://user@127.0.0.1:1/x").await.err().unwrap();
    assert!(matches!(unreachable, StoreError::Unavailable { maybe_applied: false, .. }), "{unreachable}");
    let no_folder = open("/no/such/folder/x.db").await.err().unwrap();
    assert!(matches!(no_folder, StoreError::CannotWrite { .. }), "{no_folder}");
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("x.db");
    std::fs::write(&text, "this is no database, but long enough to be looked at as one").unwrap();
    let not_ours = open(text.to_str().unwrap()).await.err().unwrap();
    assert!(matches!(not_ours, StoreError::Corrupt { .. }), "{not_ours}");
}
