//! The test server, and databases on it.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use lineclear_testkit::{Template, fresh_postgres};
use tokio_postgres::{Client, NoTls};

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn databases_named(client: &Client, name: &str) -> i64 {
    client.query_one("select count(*) from pg_database where datname = $1", &[&name]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_fresh_database_is_empty_and_belongs_to_one_test() {
    let (one, other) = (fresh_postgres().await, fresh_postgres().await);
    assert_ne!(one.name(), other.name());

    let client = connect(one.url()).await;
    client.batch_execute("create table mine ()").await.unwrap();
    let tables = "select from pg_tables where schemaname = 'public'";
    assert_eq!(client.query(tables, &[]).await.unwrap().len(), 1);
    assert!(connect(other.url()).await.query(tables, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_database_goes_with_its_value_although_it_is_in_use() {
    let (database, witness) = (fresh_postgres().await, fresh_postgres().await);
    let name = database.name().to_owned();
    let in_use = connect(database.url()).await;
    let pooled = connect(&database.pgbouncer_url()).await;
    pooled.batch_execute("select 1").await.unwrap();

    let witness = connect(witness.url()).await;
    assert_eq!(databases_named(&witness, &name).await, 1);
    drop(database);
    assert_eq!(databases_named(&witness, &name).await, 0);
    assert!(in_use.batch_execute("select 1").await.is_err());
}

#[tokio::test]
async fn pgbouncer_gives_the_connection_back_after_each_transaction() {
    let database = fresh_postgres().await;
    let clients = [connect(&database.pgbouncer_url()).await, connect(&database.pgbouncer_url()).await];
    let mut backends = Vec::new();
    for client in &clients {
        backends.push(client.simple_query("select pg_backend_pid()").await.unwrap());
    }
    // Two clients, one after the other: in transaction mode one server connection serves both.
    let pid = |messages: &[tokio_postgres::SimpleQueryMessage]| {
        messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    };
    assert!(pid(&backends[0]).is_some());
    assert_eq!(pid(&backends[0]), pid(&backends[1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_is_built_once_and_copied_often() {
    let built = Arc::new(AtomicU32::new(0));
    let contents = format!("{}", std::process::id());
    let copy = |built: Arc<AtomicU32>, contents: String| async move {
        let build = async |url: String| {
            built.fetch_add(1, Ordering::Relaxed);
            connect(&url).await.batch_execute("create table filled (n) as select 42").await.unwrap();
        };
        Template::new("kit", &contents).postgres(build).await
    };
    let copies: Vec<_> = (0..5).map(|_| tokio::spawn(copy(built.clone(), contents.clone()))).collect();
    for copy in copies {
        let copy = copy.await.unwrap();
        let filled = connect(copy.url()).await.query_one("select n from filled", &[]).await.unwrap();
        assert_eq!(filled.get::<_, i32>(0), 42);
    }
    assert_eq!(built.load(Ordering::Relaxed), 1);

    let other = Template::new("kit", "other contents").postgres(async |_| {}).await;
    let tables = "select from pg_tables where schemaname = 'public'";
    assert!(connect(other.url()).await.query(tables, &[]).await.unwrap().is_empty());
}
