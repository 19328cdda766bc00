//! Jobs inside the caller's own transaction: `lineclear.enqueue(…)` from any language on PostgreSQL, and from Rust.

use lineclear::model::{GroupSpec, JobState};
use lineclear::store::{EnqueueResult, Enqueued, JobId, NewJob, OnConflict, StoreError, UniqueKey};
use tokio_postgres::{Client, NoTls};

use crate::kit::{TestDb, job, name, payload};

async fn connect(db: &TestDb) -> Client {
    let (client, connection) = tokio_postgres::connect(db.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn call(client: &Client, sql: &str) -> Result<JobId, String> {
    let row = client.query_one(sql, &[]).await.map_err(|e| e.as_db_error().unwrap().message().to_owned())?;
    Ok(JobId(row.get(0)))
}

#[tokio::test]
async fn a_job_is_there_when_the_callers_transaction_commits_and_not_before() {
    let db = TestDb::postgres().await;
    let client = connect(&db).await;
    let node = db.node("a").await;
    client.batch_execute("begin").await.unwrap();
    let job = call(&client, r#"select lineclear.enqueue('work', '{"id": 7}')"#).await.unwrap();
    assert_eq!(db.take(node, 10).await.len(), 0);
    client.batch_execute("rollback").await.unwrap();
    assert_eq!(db.state(job).await, None);

    client.batch_execute("begin").await.unwrap();
    let job = call(&client, r#"select lineclear.enqueue('work', '{"id": 7}')"#).await.unwrap();
    client.batch_execute("commit").await.unwrap();
    let claim = db.take_one(node).await;
    assert_eq!((claim.job, claim.input.as_str()), (job, r#"{"id":7}"#));
    db.audit().await;
}

#[tokio::test]
async fn all_arguments_are_obeyed() {
    let db = TestDb::postgres().await;
    let client = connect(&db).await;
    db.group("etl", GroupSpec { limit: Some(1), ..GroupSpec::default() }).await;
    let later =
        call(&client, "select lineclear.enqueue('work', due_at => now() + interval '1 hour')").await.unwrap();
    assert_eq!(db.state(later).await, Some(JobState::Scheduled));
    let plain = call(&client, "select lineclear.enqueue('work')").await.unwrap();
    let high =
        call(&client, "select lineclear.enqueue('work', priority => 31, group_name => 'etl')").await.unwrap();
    call(&client, "select lineclear.enqueue('work', priority => 30, group_name => 'etl')").await.unwrap();
    let long =
        call(&client, "select lineclear.enqueue('work', to_json(repeat('x', 2000))::text)").await.unwrap();
    let node = db.node("a").await;
    let taken = db.take(node, 10).await;
    assert_eq!(taken.iter().map(|c| c.job).collect::<Vec<_>>(), [high, plain, long], "one of the group");
    assert_eq!(taken[2].input.as_str().len(), 2002);
}

#[tokio::test]
async fn a_unique_key_gives_the_job_that_has_it() {
    let db = TestDb::postgres().await;
    let client = connect(&db).await;
    let once = "select lineclear.enqueue('work', unique_key => 'order:7')";
    let first = call(&client, once).await.unwrap();
    assert_eq!(call(&client, once).await.unwrap(), first);
    db.store.cancel(first).await.unwrap();
    assert_ne!(call(&client, once).await.unwrap(), first);
}

#[tokio::test]
async fn bad_arguments_are_refused_with_the_reason() {
    let db = TestDb::postgres().await;
    let client = connect(&db).await;
    for (arguments, says) in [
        ("'No Kind'", "is not the name of a kind"),
        ("null", "is not the name of a kind"),
        ("'work', '{broken'", "is not JSON"),
        ("'work', to_json(repeat('x', 300000))::text", "at most 262144 bytes"),
        ("'work', priority => 32", "not between 0 and 31"),
        ("'work', group_name => 'missing'", "there is no group missing"),
        ("'work', unique_key => ''", "1 to 255 bytes"),
        ("'work', due_at => '1969-01-01'", "before 1970"),
    ] {
        let error = call(&client, &format!("select lineclear.enqueue({arguments})")).await.unwrap_err();
        assert!(error.contains(says), "{arguments}: {error}");
    }
    assert_eq!(db.count("work_queue").await, 0);
}

/// All kinds of good jobs: plain, in a group, long, and with a key.
fn jobs() -> Vec<NewJob> {
    let long = payload(&format!("\"{}\"", "x".repeat(600)));
    vec![
        job(),
        NewJob { group: Some(name("etl")), priority: 7, ..job() },
        NewJob { input: long, ..job() },
        keyed("order:7", OnConflict::Existing),
    ]
}

fn keyed(key: &str, on_conflict: OnConflict) -> NewJob {
    NewJob { unique_key: Some(UniqueKey::new(key).on_conflict(on_conflict)), ..job() }
}

/// Bad jobs, and the rule that refuses them.
fn bad() -> Vec<(NewJob, &'static str)> {
    vec![
        (NewJob { priority: 32, ..job() }, "priority"),
        (NewJob { group: Some(name("missing")), ..job() }, "group_unknown"),
        (keyed("", OnConflict::Existing), "key"),
        (keyed("taken", OnConflict::Refuse), "unique_key_taken"),
    ]
}

fn rule(result: Result<Vec<Enqueued>, StoreError>) -> String {
    match result {
        Err(StoreError::Refused { rule, .. }) => rule,
        other => panic!("{other:?}"),
    }
}

/// What every way must do, with `$enqueue` to enqueue, and `$begin`, `$commit` and `$rollback` around it.
macro_rules! own_transaction {
    ($db:ident, begin $begin:expr, enqueue $enqueue:expr, commit $commit:expr, rollback $rollback:expr) => {{
        $db.group("etl", GroupSpec::default()).await;
        $db.enqueue(keyed("taken", OnConflict::Existing)).await;

        $begin;
        assert_eq!($enqueue(jobs()).await.unwrap().len(), 4);
        $rollback;
        assert_eq!($db.count("work_queue").await, 1, "rolled back, they never were");
        assert_eq!(($db.count("job_payload").await, $db.count("job_key").await), (0, 1));

        $begin;
        let first = $enqueue(jobs()).await.unwrap();
        for (bad, refused_by) in bad() {
            assert_eq!(rule($enqueue(vec![keyed("left over", OnConflict::Existing), bad]).await), refused_by);
        }
        let again =
            $enqueue(vec![keyed("order:7", OnConflict::Existing), keyed("taken", OnConflict::Existing)])
                .await
                .unwrap();
        assert!(again.iter().all(Enqueued::existing) && again[0].id == first[3].id);
        let newer = NewJob { input: payload("8"), ..keyed("order:7", OnConflict::Replace) };
        assert_eq!(
            $enqueue(vec![newer]).await.unwrap(),
            [Enqueued { id: first[3].id, result: EnqueueResult::Replaced, outcome: None }]
        );
        $commit;
        assert_eq!($db.count("work_queue").await, 5, "what was refused did not harm the transaction");
        assert_eq!($db.count("job_key where key = 'left over'").await, 0, "and left nothing behind");

        let node = $db.node("a").await;
        let claims = $db.take(node, 10).await;
        assert_eq!(claims[0].job, first[1].id, "the highest priority first");
        let input_of = |id: JobId| claims.iter().find(|claim| claim.job == id).unwrap().input.clone();
        assert_eq!(input_of(first[2].id).as_str().len(), 602);
        assert_eq!(input_of(first[3].id), payload("8"));
        $db.audit().await;
    }};
}

#[tokio::test]
async fn rust_programs_enqueue_in_a_transaction_of_tokio_postgres() {
    let db = TestDb::postgres().await;
    let client = connect(&db).await;
    own_transaction!(db,
        begin client.batch_execute("begin").await.unwrap(),
        enqueue async |jobs| db.store.enqueue_in(&client, jobs).await,
        commit client.batch_execute("commit").await.unwrap(),
        rollback client.batch_execute("rollback").await.unwrap());
    // The types of the driver as well.
    let mut client = client;
    let transaction = client.transaction().await.unwrap();
    db.store.enqueue_in(&transaction, vec![keyed("typed", OnConflict::Existing)]).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(db.count("job_key where key = 'typed'").await, 1);
    assert_eq!(
        rule(db.store.enqueue_in(&client, vec![keyed("k", OnConflict::Existing)]).await),
        "no_transaction"
    );
}

#[cfg(feature = "sqlx")]
#[tokio::test]
async fn rust_programs_enqueue_in_a_transaction_of_sqlx() {
    use lineclear::sqlx::{Connection, Executor, PgConnection};
    let db = TestDb::postgres().await;
    let mut connection = PgConnection::connect(db.url()).await.unwrap();
    own_transaction!(db,
        begin connection.execute("begin").await.unwrap(),
        enqueue async |jobs| db.store.enqueue_in_sqlx(&mut connection, jobs).await,
        commit connection.execute("commit").await.unwrap(),
        rollback connection.execute("rollback").await.unwrap());
    let due_at = lineclear::model::Micros::new(4_102_444_800_123_456);
    let mut transaction = connection.begin().await.unwrap();
    let later = vec![NewJob { due_at, ..job() }];
    let later = db.store.enqueue_in_sqlx(&mut transaction, later).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(db.state(later[0].id).await, Some(JobState::Scheduled));
    let stored =
        db.sql("select (extract(epoch from max(due_at)) * 1000000)::bigint from {t}work_queue").await;
    assert_eq!(stored[0][0].as_deref(), Some("4102444800123456"), "to the microsecond");
}

#[tokio::test]
async fn rust_programs_enqueue_in_a_transaction_of_rusqlite() {
    let db = TestDb::sqlite().await;
    let mut connection = rusqlite::Connection::open(db.url()).unwrap();
    connection.execute_batch("create table picked (of_the_caller)").unwrap();
    own_transaction!(db,
        begin connection.execute_batch("begin immediate").unwrap(),
        enqueue async |jobs| db.store.enqueue_in_sqlite(&connection, jobs),
        commit connection.execute_batch("commit").unwrap(),
        rollback connection.execute_batch("rollback").unwrap());
    // While a statement of the caller is running, and by the types of the driver.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    {
        let mut statement = transaction.prepare("select id from work_queue union all select 1").unwrap();
        let mut rows = statement.query([]).unwrap();
        rows.next().unwrap().unwrap();
        db.store.enqueue_in_sqlite(&transaction, vec![keyed("typed", OnConflict::Existing)]).unwrap();
    }
    transaction.commit().unwrap();
    assert_eq!(db.count("job_key where key = 'typed'").await, 1);
    // Without a transaction, it makes its own.
    db.store.enqueue_in_sqlite(&connection, vec![keyed("alone", OnConflict::Existing)]).unwrap();
    assert_eq!(db.count("job_key where key = 'alone'").await, 1);
    let columns: String =
        connection.query_row("select name from pragma_table_info('picked')", [], |row| row.get(0)).unwrap();
    assert_eq!(columns, "of_the_caller", "no table of theirs is hidden");
}

#[tokio::test]
async fn a_transaction_of_another_database_is_refused() {
    let (postgres, sqlite) = (TestDb::postgres().await, TestDb::sqlite().await);
    let client = connect(&postgres).await;
    assert_eq!(rule(sqlite.store.enqueue_in(&client, vec![job()]).await), "not_postgres");
    let elsewhere = rusqlite::Connection::open_in_memory().unwrap();
    assert_eq!(rule(sqlite.store.enqueue_in_sqlite(&elsewhere, vec![job()])), "not_this_file");
    assert_eq!(rule(postgres.store.enqueue_in_sqlite(&elsewhere, vec![job()])), "not_this_file");
}

#[tokio::test]
async fn a_taken_key_in_a_long_transaction_does_not_hold_up_its_job() {
    let db = TestDb::postgres().await;
    let client = connect(&db).await;
    let node = db.node("a").await;
    let holder = db.enqueue(keyed("k", OnConflict::Existing)).await;
    let claim = db.take_one(node).await;
    client.batch_execute("begin").await.unwrap();
    let answer = db.store.enqueue_in(&client, vec![keyed("k", OnConflict::Existing)]).await.unwrap();
    assert_eq!(answer, [Enqueued { id: holder, result: EnqueueResult::Existing, outcome: None }]);
    let settled = db.settle(node, &claim, crate::kit::completed());
    tokio::time::timeout(std::time::Duration::from_secs(10), settled).await.expect("the key is not locked");
    client.batch_execute("commit").await.unwrap();
}
