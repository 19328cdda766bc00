//! Holds a lock until it is lost or killed: `holder URL LOCK TTL_MS [FILE]`. On PostgreSQL and SQLite it then tries a fenced write to
//! the table `effect`; for other stores that table is in a SQLite file, which refuses epochs lower than one that it has seen. It says
//! what happens, line by line. If `RECORD` is set, it is recorded with a heartbeat of so many milliseconds.

use std::time::Duration;

use lineclear_lock::{Fence, LockOptions, Locks, RegistryOptions, postgres, sqlite};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, lock, ttl, file @ ..] = arguments.as_slice() else {
        return Err("usage: holder URL LOCK TTL_MS [FILE]".into());
    };
    let options = LockOptions::with_ttl(Duration::from_millis(ttl.parse()?));
    let locks = match std::env::var("RECORD") {
        Err(_) => Locks::open_with(url, options).await?,
        Ok(beat) => {
            let beat = Duration::from_millis(beat.parse()?);
            let registry =
                RegistryOptions { heartbeat: beat, sweep_after: beat * 1_000, ..RegistryOptions::default() };
            Locks::open_with_registry(url, options, registry).await?
        }
    };
    let held = locks.acquire(lock, Duration::from_secs(30)).await?.ok_or("it is busy")?;
    println!("held {}", held.epoch());
    if let Some(registry) = locks.registry() {
        registry.flush().await?;
    }
    println!("write {}", if write(url, file.first(), held.fence()).await? { "done" } else { "refused" });
    held.lost().cancelled().await;
    let why = held.lost_reason().map(|why| why.to_string()).unwrap_or_default();
    println!("lost, trusted for {:?}: {why}", held.trusted_for());
    println!("late write {}", if write(url, file.first(), held.fence()).await? { "done" } else { "refused" });
    Ok(())
}

/// Writes the epoch if it is current.
async fn write(url: &str, file: Option<&String>, fence: &Fence) -> Result<bool, Error> {
    let epoch = fence.epoch.get();
    if let Some(path) = file {
        let file = rusqlite::Connection::open(path)?;
        file.busy_timeout(Duration::from_secs(5))?;
        file.execute_batch("create table if not exists effect (epoch integer not null)")?;
        let highest = "insert into effect select ?1 where ?1 >= (select coalesce(max(epoch), 0) from effect)";
        return Ok(file.execute(highest, [epoch])? == 1);
    }
    if let Some(path) = url.strip_prefix("sqlite:") {
        let mut file = rusqlite::Connection::open(path)?;
        file.busy_timeout(Duration::from_secs(5))?;
        let transaction = file.transaction()?;
        let current = sqlite::fence(&transaction, fence)?;
        if current {
            transaction.execute("insert into effect values (?1)", [epoch])?;
            transaction.commit()?;
        }
        return Ok(current);
    }
    let url = url.split('?').next().unwrap_or(url);
    let (mut client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let transaction = client.transaction().await?;
    let current = postgres::fence(&transaction, fence).await?;
    if current {
        transaction.execute("insert into effect values ($1)", &[&epoch]).await?;
        transaction.commit().await?;
    }
    Ok(current)
}
