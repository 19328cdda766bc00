//! TLS to PostgreSQL: a real server with a certificate for `localhost`, signed by an authority of its own.

use std::path::Path;

use lineclear::model::{Name, Payload};
use lineclear::store::NewJob;
use lineclear::{Store, StoreError, StoreOptions};
use lineclear_testkit::PrivatePostgres;

async fn open(url: &str) -> Result<Store, StoreError> {
    Store::open(StoreOptions::new(url)?).await
}

/// Whether connections of ours to this server are encrypted.
async fn encrypted(server: &PrivatePostgres) -> Vec<bool> {
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let query = "select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'lineclear'";
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

fn with(server: &PrivatePostgres, host: &str, options: &str) -> String {
    format!("{}?{options}", server.url().replace("127.0.0.1", host))
}

fn reason(result: Result<Store, StoreError>) -> String {
    let error = result.map(drop).unwrap_err();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        text += &format!(": {inner}");
        source = inner.source();
    }
    text
}

#[tokio::test]
async fn a_server_is_reached_by_tls_and_only_if_it_is_the_one() {
    let (server, authority) = PrivatePostgres::start_with_tls().await.unwrap();
    let verified = format!("sslmode=verify-full&sslrootcert={}", authority.display());
    let store = open(&with(&server, "localhost", &verified)).await.unwrap();
    store.enqueue(NewJob::new(Name::new("mail.send").unwrap(), Payload::empty())).await.unwrap();
    assert_eq!(encrypted(&server).await, [true]);
    drop(store);

    let other_name = reason(open(&with(&server, "127.0.0.1", &verified)).await);
    assert!(other_name.contains("not valid for name"), "{other_name}");
    let unknown = reason(open(&with(&server, "localhost", "sslmode=verify-full")).await);
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    open(&with(&server, "127.0.0.1", "sslmode=require")).await.unwrap();
    open(&with(&server, "127.0.0.1", "sslmode=disable")).await.unwrap();
}

#[tokio::test]
async fn a_server_without_tls_is_not_reached_in_the_clear_by_who_asked_for_it() {
    let server = PrivatePostgres::start(&[]).await.unwrap();
    let refused = reason(open(&with(&server, "localhost", "sslmode=require")).await);
    assert!(refused.contains("TLS"), "{refused}");
    assert!(Path::new("/nowhere.pem").metadata().is_err());
    let no_file = reason(open(&with(&server, "localhost", "sslrootcert=/nowhere.pem")).await);
    assert!(no_file.contains("/nowhere.pem"), "{no_file}");
}
