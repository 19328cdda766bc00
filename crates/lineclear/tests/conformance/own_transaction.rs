//! Jobs inside the caller's own transaction: `lineclear.enqueue(…)` from any language, and from Rust. PostgreSQL only.

use lineclear::model::{GroupSpec, JobState};
use lineclear::store::{JobId, NewJob, StoreError, UniqueKey};
use tokio_postgres::{Client, NoTls};

use crate::kit::{TestDb, name};

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
        ("'work', group_name => 'nobody'", "there is no group nobody"),
        ("'work', unique_key => ''", "1 to 255 bytes"),
        ("'work', due_at => '1969-01-01'", "before 1970"),
    ] {
        let error = call(&client, &format!("select lineclear.enqueue({arguments})")).await.unwrap_err();
        assert!(error.contains(says), "{arguments}: {error}");
    }
    assert_eq!(db.count("work_queue").await, 0);
}

#[tokio::test]
async fn rust_programs_enqueue_in_their_own_transaction() {
    let db = TestDb::postgres().await;
    let mut client = connect(&db).await;
    db.group("etl", GroupSpec::default()).await;
    let jobs =
        || vec![crate::kit::job(), NewJob { group: Some(name("etl")), priority: 7, ..crate::kit::job() }];

    let transaction = client.transaction().await.unwrap();
    db.store.enqueue_in(&transaction, jobs()).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(db.count("work_queue").await, 0);

    let transaction = client.transaction().await.unwrap();
    let ids = db.store.enqueue_in(&transaction, jobs()).await.unwrap();
    transaction.commit().await.unwrap();
    let node = db.node("a").await;
    let taken: Vec<_> = db.take(node, 10).await.iter().map(|claim| claim.job).collect();
    assert_eq!(taken, [ids[1], ids[0]]);
    db.audit().await;
}

#[tokio::test]
async fn what_cannot_go_into_a_transaction_is_refused() {
    let db = TestDb::postgres().await;
    let client = connect(&db).await;
    let rule = |result: Result<Vec<JobId>, StoreError>| match result {
        Err(StoreError::Refused { rule, .. }) => rule,
        other => panic!("{other:?}"),
    };
    let unique_key = Some(UniqueKey { key: "k".to_owned(), keep: None });
    let keyed = vec![NewJob { unique_key, ..crate::kit::job() }];
    assert_eq!(rule(db.store.enqueue_in(&client, keyed).await), "unique_key");
    let sqlite = TestDb::sqlite().await;
    assert_eq!(rule(sqlite.store.enqueue_in(&client, vec![crate::kit::job()]).await), "not_postgres");
}
