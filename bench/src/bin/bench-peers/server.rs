//! The server: databases to measure on, and what it knows of them.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio_postgres::{Client, NoTls};

/// Names of all databases of a run begin like this.
const PREFIX: &str = "bench_peers_";
/// The database that is measured.
const MEASURED: &str = "now";

pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// One number.
pub(crate) async fn number(url: &str, query: &str) -> Result<u64> {
    let number: i64 = connect(url).await?.query_one(query, &[]).await?.get(0);
    Ok(u64::try_from(number)?)
}

pub(crate) struct Server {
    client: Client,
    url: String,
}

impl Server {
    /// Removes what an earlier run left.
    pub(crate) async fn open(url: &str) -> Result<Server> {
        let client = connect(url).await.context("connecting to PostgreSQL")?;
        let server = Server { client, url: url.to_owned() };
        let names = "select datname::text from pg_database where starts_with(datname, $1)";
        for row in server.client.query(names, &[&PREFIX]).await? {
            let name: String = row.get(0);
            server.client.batch_execute(&format!("drop database \"{name}\" with (force)")).await?;
        }
        Ok(server)
    }

    pub(crate) async fn has(&self, name: &str) -> Result<bool> {
        let query = "select from pg_database where datname = $1";
        Ok(self.client.query_opt(query, &[&format!("{PREFIX}{name}")]).await?.is_some())
    }

    /// Creates a database, as a copy of another one of ours or empty; returns its URL.
    ///
    /// Copied pages are in the log since the last checkpoint. So the measurement does not log them again as a whole, as it would if the
    /// checkpoint came after the copy; removing the database before does one.
    pub(crate) async fn create(&self, name: &str, of: Option<&str>) -> Result<String> {
        self.client
            .batch_execute(&format!("drop database if exists \"{PREFIX}{name}\" with (force)"))
            .await?;
        let template = of.map_or("template0".to_owned(), |of| format!("{PREFIX}{of}"));
        let create = format!("create database \"{PREFIX}{name}\" template \"{template}\"");
        // The sessions of a program that has ended need a moment.
        for _ in 0..20 {
            if self.client.batch_execute(&create).await.is_ok() {
                return Ok(self.url_of(name));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.client.batch_execute(&create).await.with_context(|| create.clone())?;
        Ok(self.url_of(name))
    }

    /// A fresh copy to measure on; returns its URL.
    pub(crate) async fn copy(&self, of: &str) -> Result<String> {
        self.create(MEASURED, Some(of)).await
    }

    fn url_of(&self, name: &str) -> String {
        let (address, _) = self.url.rsplit_once('/').unwrap_or((&self.url, ""));
        format!("{address}/{PREFIX}{name}")
    }

    /// The bytes that the server has logged.
    pub(crate) async fn logged(&self) -> Result<u64> {
        let query = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
        let bytes: i64 = self.client.query_one(query, &[]).await?.get(0);
        Ok(u64::try_from(bytes)?)
    }

    /// The process of this session.
    pub(crate) async fn session(&self) -> Result<u32> {
        let process: i32 = self.client.query_one("select pg_backend_pid()", &[]).await?.get(0);
        Ok(u32::try_from(process)?)
    }

    pub(crate) async fn setting(&self, name: &str) -> Result<String> {
        let row = self.client.query_one("select current_setting($1)", &[&name]).await?;
        Ok(row.get(0))
    }
}
