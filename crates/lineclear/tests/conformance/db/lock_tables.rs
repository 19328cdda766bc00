//! The engine or lineclear-lock creates the tables of the lease registry, whichever starts first. Both create the same.

use lineclear::store::{Store, StoreOptions};
use lineclear_lock::registry::Hold;
use lineclear_lock::{Epoch, Holder, LockName, LockOptions, Locks, Registry, RegistryOptions, Singleton};
use lineclear_testkit::fresh_postgres;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

async fn by_engine(url: &str) {
    Store::open(StoreOptions::new(url).unwrap().connections(2)).await.unwrap();
}

async fn by_registry(url: &str) {
    let registry = Registry::new(url, RegistryOptions::default()).unwrap();
    let hold = Hold {
        name: LockName::new("report").unwrap(),
        store: "test".into(),
        token: Uuid::new_v4(),
        epoch: Epoch::new(1),
        kind: None,
        holder: Holder::this().into(),
        ttl: None,
    };
    registry.acquired(hold);
    registry.flush().await.unwrap();
    // The table of runners is created with the first runner.
    let locks =
        Locks::open_with_registry(url, LockOptions::default(), RegistryOptions::default()).await.unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    Singleton::new(&locks, "mirror").run(&stop, async |_| Ok::<(), String>(())).await.unwrap();
    locks.registry().unwrap().flush().await.unwrap();
}

/// Columns, constraints, indexes and the view, as PostgreSQL understood them.
async fn in_postgres(url: &str) -> Vec<String> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let ask = "
        select concat_ws(' ', 'column', table_name, ordinal_position, column_name, data_type, collation_name, is_nullable,
                         column_default, is_identity, identity_generation)
        from information_schema.columns where table_schema = 'lineclear' and table_name in ('lock_lease', 'lock_event', 'lock_runner', 'nagare_leases')
        union all
        select concat_ws(' ', 'constraint', conname, pg_get_constraintdef(oid)) from pg_constraint
        where conrelid in ('lineclear.lock_lease'::regclass, 'lineclear.lock_event'::regclass, 'lineclear.lock_runner'::regclass)
        union all
        select 'index ' || indexdef from pg_indexes where schemaname = 'lineclear' and tablename in ('lock_lease', 'lock_event', 'lock_runner')
        union all
        select 'view ' || pg_get_viewdef('lineclear.nagare_leases'::regclass)
        union all
        select 'storage ' || relname || ' ' || coalesce(reloptions::text, '') from pg_class
        where oid in ('lineclear.lock_lease'::regclass, 'lineclear.lock_event'::regclass, 'lineclear.lock_runner'::regclass)
        order by 1";
    client.query(ask, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// The text, without its comments and spaces: SQLite keeps it as it was.
fn in_sqlite(path: &str) -> Vec<String> {
    let file = rusqlite::Connection::open(path).unwrap();
    let mut ask = file
        .prepare(
            "select sql from sqlite_master where sql is not null
             and (tbl_name in ('lock_lease', 'lock_event', 'lock_runner') or name = 'nagare_leases') order by type, name",
        )
        .unwrap();
    let texts = ask.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let plain = |text: String| {
        let lines = text.lines().map(|line| line.split("--").next().unwrap().to_owned());
        let words = lines.collect::<Vec<_>>().join(" ").to_lowercase();
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    texts.map(plain).collect()
}

#[tokio::test]
async fn engine_and_registry_make_the_same_tables_in_postgres() {
    let (ours, theirs) = (fresh_postgres().await, fresh_postgres().await);
    by_engine(ours.url()).await;
    by_registry(theirs.url()).await;
    let tables = in_postgres(ours.url()).await;
    assert!(tables.len() > 55, "{tables:?}");
    assert_eq!(tables, in_postgres(theirs.url()).await);
    // And the one finds what the other has made.
    by_registry(ours.url()).await;
    by_engine(theirs.url()).await;
    assert_eq!(tables, in_postgres(theirs.url()).await);
}

#[tokio::test]
async fn engine_and_registry_make_the_same_tables_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (ours, theirs) = (path("ours.db"), path("theirs.db"));
    by_engine(&ours).await;
    by_registry(&theirs).await;
    let tables = in_sqlite(&ours);
    assert_eq!(tables.len(), 7, "three tables, three indexes, a view: {tables:?}");
    assert_eq!(tables, in_sqlite(&theirs));
    by_registry(&ours).await;
    by_engine(&theirs).await;
}

async fn all_at_once(url: &str) {
    let starting: Vec<_> = (0..12)
        .map(|number| {
            let url = url.to_owned();
            tokio::spawn(async move {
                match number % 3 {
                    0 => by_engine(&url).await,
                    1 => by_registry(&url).await,
                    _ => drop(Locks::open_with(&url, LockOptions::default()).await.unwrap()),
                }
            })
        })
        .collect();
    for start in starting {
        start.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn engines_registries_and_locks_that_start_at_once_do_not_disturb_each_other() {
    for _ in 0..3 {
        let database = fresh_postgres().await;
        all_at_once(database.url()).await;
    }
    let folder = tempfile::tempdir().unwrap();
    all_at_once(folder.path().join("all.db").to_str().unwrap()).await;
}
