//! One plain connection to PostgreSQL.

use anyhow::{Context, Result};
use tokio_postgres::{Client, NoTls};

/// Connects. The connection ends when the client is dropped.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.with_context(|| format!("connecting to {url}"))?;
    // An error here also ends the client's next call, which reports it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}
