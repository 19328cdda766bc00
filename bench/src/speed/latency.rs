//! Latency: from the call of enqueue to the first line of the handler, while nothing else happens.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lineclear::{Lineclear, Node, NodeOptions, Role, StoreOptions};
use lineclear_measure::{interleave, median, quantile, start_timing_node};
use tokio::sync::mpsc;
use tokio_postgres::AsyncMessage;

use super::baseline::BareConnection;
use super::{KIND, announce};
use crate::measure::millis;
use crate::report::{Bound, Unit};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const JOBS: u32 = 150;
const MOST: f64 = 5.0;
/// Pause between two jobs.
const PAUSE: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(30);
const CHANNEL: &str = "bench";

/// The moments at which notifications arrive.
type Wakeups = mpsc::UnboundedReceiver<Instant>;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let jobs = if scale.0 < 1.0 { 3 } else { JOBS };
    announce(database, jobs, "jobs are enqueued on an idle system, alternately with bare notifications");
    let db = ScratchDb::new(database, Purpose::Speed).await?;
    let (worker, starts) =
        start_timing_node(StoreOptions::new(db.url())?, KIND, NodeOptions::default()).await?;
    let elsewhere = elsewhere(&db).await?;
    let bare = match database {
        Database::Postgres => {
            let connection = BareConnection::connect(&db.store, db.url()).await?;
            Some((connection, tokio::sync::Mutex::new(listen(db.url()).await?)))
        }
        Database::Sqlite => None,
    };
    let sides = if bare.is_some() { 3 } else { 1 };
    // Once more than counts, to warm up.
    let mut measured = interleave(sides, jobs + 1, async |side| {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let moment = match (side, &bare) {
            (2, Some((connection, wakeups))) => {
                // A route that no node serves.
                connection.enqueue(1, "elsewhere").await?;
                connection.client.execute("select pg_notify($1, '')", &[&CHANNEL]).await?;
                let wakeup = tokio::time::timeout(TIMEOUT, async { wakeups.lock().await.recv().await });
                wakeup.await.context("no notification arrived")?.context("the listener has ended")?
            }
            (side, _) => {
                let node = if side == 0 { &worker } else { &elsewhere };
                node.enqueue(KIND, "ops").await?;
                starts.next(TIMEOUT).await?
            }
        };
        Ok(millis(moment.saturating_duration_since(begun)))
    })
    .await?;
    worker.stop().await;
    elsewhere.stop().await;
    for side in &mut measured {
        side.remove(0);
    }
    let figure = |name: &str, side: usize| {
        let baseline = measured.get(2);
        let name = format!("enqueue to start, idle, {name}");
        let p99 = |side: &[f64]| format!("{:.2} ms", quantile(side, 0.99));
        let of_floor = baseline.map_or(String::new(), |baseline| format!("{} → ", p99(baseline)));
        Figure::new(
            database,
            name,
            Unit::Millis,
            baseline.map(|baseline| median(baseline)),
            median(&measured[side]),
        )
        .note(format!("p99 {of_floor}{}", p99(&measured[side])))
    };
    let here = figure("on the node that runs it", 0);
    if bare.is_none() {
        return Ok(vec![here]);
    }
    let there = figure("bare insert + NOTIFY → on another node", 1).bound(Some(Bound::AtMost(MOST)));
    Ok(vec![there, here])
}

/// A node that runs no jobs, so that it notifies others of what it enqueues.
async fn elsewhere(db: &ScratchDb) -> Result<Node> {
    let options = NodeOptions { roles: vec![Role::Cleaner], ..NodeOptions::default() };
    Ok(Lineclear::builder().store(db.url()).options(options).start().await?)
}

async fn listen(url: &str) -> Result<Wakeups> {
    let (sender, wakeups) = mpsc::unbounded_channel();
    let (client, mut connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) && sender.send(Instant::now()).is_err() {
                return;
            }
        }
    });
    client.batch_execute(&format!("listen {CHANNEL}")).await?;
    // The connection ends with its client, so the client is kept.
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(client)
    });
    Ok(wakeups)
}
