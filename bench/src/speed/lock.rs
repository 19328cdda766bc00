//! Locks: acquiring and releasing a free lock, compared with two bare writes on the same server.

use std::time::Instant;

use anyhow::{Context, Result};
use lineclear_lock::Locks;
use lineclear_measure::{interleave, median, quantile};
use lineclear_testkit::{fresh_postgres, redis_url};
use redis::aio::MultiplexedConnection;
use tokio_postgres::Client;

use super::announce;
use crate::measure::millis;
use crate::report::Unit;
use crate::scratch_db::connect;
use crate::{Database, Figure, Scale};

const ROUNDS: u32 = 500;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    // A lock in a file needs no server.
    if database == Database::Sqlite {
        return Ok(Vec::new());
    }
    let rounds = scale.repetitions(ROUNDS);
    announce(
        database,
        rounds,
        "times each kind of lock is acquired and released, alternately with bare writes",
    );
    let mut figures = on_postgres(rounds).await?;
    figures.push(on_redis(rounds).await?);
    Ok(figures)
}

async fn on_postgres(rounds: u32) -> Result<Vec<Figure>> {
    let database = fresh_postgres().await;
    let client = connect(database.url()).await?;
    client.batch_execute("create table bare (name text primary key, epoch bigint not null)").await?;
    client.batch_execute("insert into bare values ('cost', 0)").await?;
    let bare = client.prepare("update bare set epoch = epoch + 1 where name = 'cost'").await?;
    let kinds = ["lock=lease", "lock=session", "lock=lease&beacon=off"];
    let mut locks = Vec::new();
    for kind in kinds {
        locks.push(Locks::open(&format!("{}?{kind}&schema=bench_{}", database.url(), locks.len())).await?);
    }
    let measured = interleave(kinds.len() + 1, rounds + 1, async |side| {
        let begun = Instant::now();
        match side.checked_sub(1) {
            Some(kind) => acquire_and_release(&locks[kind]).await?,
            None => two_updates(&client, &bare).await?,
        }
        Ok(millis(begun.elapsed()))
    });
    let measured = without_first(measured.await?);
    let what = ["lease", "session", "lease, sent whole as through a pooler"];
    Ok((0..kinds.len())
        .map(|kind| figure("PostgreSQL", what[kind], &measured[0], &measured[kind + 1]))
        .collect())
}

async fn two_updates(client: &Client, bare: &tokio_postgres::Statement) -> Result<()> {
    client.execute(bare, &[]).await?;
    client.execute(bare, &[]).await?;
    Ok(())
}

async fn on_redis(rounds: u32) -> Result<Figure> {
    let url = redis_url();
    let connection = redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    let locks = Locks::open(&format!("{url}?prefix=bench:")).await?;
    let measured = interleave(2, rounds + 1, async |side| {
        let begun = Instant::now();
        if side == 0 {
            two_writes(connection.clone()).await?
        } else {
            acquire_and_release(&locks).await?
        }
        Ok(millis(begun.elapsed()))
    });
    let measured = without_first(measured.await?);
    Ok(figure("Redis", "by script", &measured[0], &measured[1]))
}

async fn two_writes(mut connection: MultiplexedConnection) -> Result<()> {
    let mut set = redis::cmd("SET");
    set.arg("bench:bare").arg("4a0c3dd8-5fd4-4b33-9a31-0f5c5cbbd1a1").arg("NX").arg("PX").arg(30_000);
    set.exec_async(&mut connection).await?;
    redis::cmd("DEL").arg("bench:bare").exec_async(&mut connection).await?;
    Ok(())
}

async fn acquire_and_release(locks: &Locks) -> Result<()> {
    locks.try_lock("cost").await?.context("the lock is busy")?.release().await?;
    Ok(())
}

/// The first round connects and prepares statements.
fn without_first(mut measured: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for side in &mut measured {
        side.remove(0);
    }
    measured
}

fn figure(server: &'static str, what: &str, bare: &[f64], locks: &[f64]) -> Figure {
    let name = format!("two bare writes → acquire and release a lock, {what}");
    let note = format!("p99 {:.2} → {:.2} ms", quantile(bare, 0.99), quantile(locks, 0.99));
    let figure = Figure::new(Database::Postgres, name, Unit::Millis, Some(median(bare)), median(locks));
    Figure { database: server, ..figure.note(note) }
}
