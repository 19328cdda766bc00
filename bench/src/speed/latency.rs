//! Latency: from the call of enqueue to the first line of the handler, while nothing else happens.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lineclear::{Lineclear, Node, NodeOptions, Role};
use tokio::sync::mpsc;
use tokio_postgres::AsyncMessage;

use super::floor::Bare;
use super::{KIND, say};
use crate::measure::{in_turns, middle, millis, quantile};
use crate::report::{Bound, Unit};
use crate::{Bed, Database, Figure, Purpose, Scale};

const JOBS: u32 = 150;
const MOST: f64 = 5.0;
/// Between two jobs everything comes to rest.
const PAUSE: Duration = Duration::from_millis(100);
const WITHIN: Duration = Duration::from_secs(30);
const CHANNEL: &str = "bench";

/// The other end: a moment for each job that began, or each wake-up that came.
type Moments = mpsc::UnboundedReceiver<Instant>;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let jobs = if scale.0 < 1.0 { 3 } else { JOBS };
    say(database, jobs, "jobs are enqueued on an idle system, in turns with bare wake-ups");
    let bed = Bed::new(database, Purpose::Speed).await?;
    let (worker, started) = worker(&bed).await?;
    let started = tokio::sync::Mutex::new(started);
    let elsewhere = elsewhere(&bed).await?;
    let bare = match database {
        Database::Postgres => {
            let connection = Bare::connect(&bed.store, bed.url()).await?;
            Some((connection, tokio::sync::Mutex::new(listen(bed.url()).await?)))
        }
        Database::Sqlite => None,
    };
    let sides = if bare.is_some() { 3 } else { 1 };
    // Once more than counts, to warm up.
    let mut measured = in_turns(sides, jobs + 1, async |side| {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let moment = match (side, &bare) {
            (2, Some((connection, moments))) => {
                // Not for the handler.
                connection.enqueue(1, "elsewhere").await?;
                connection.client.execute("select pg_notify($1, '')", &[&CHANNEL]).await?;
                next(&mut *moments.lock().await).await?
            }
            (side, _) => {
                let node = if side == 0 { &worker } else { &elsewhere };
                node.enqueue(KIND, "somebody").await?;
                next(&mut *started.lock().await).await?
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
        let floor = measured.get(2);
        let name = format!("enqueue to start, idle, {name}");
        let p99 = |side: &[f64]| format!("{:.2} ms", quantile(side, 0.99));
        let of_floor = floor.map_or(String::new(), |floor| format!("{} → ", p99(floor)));
        Figure::new(database, name, Unit::Millis, floor.map(|floor| middle(floor)), middle(&measured[side]))
            .note(format!("99 of 100 below {of_floor}{}", p99(&measured[side])))
    };
    let here = figure("on the node that runs it", 0);
    if bare.is_none() {
        return Ok(vec![here]);
    }
    let there = figure("bare insert + NOTIFY → on another node", 1).bound(Some(Bound::AtMost(MOST)));
    Ok(vec![there, here])
}

async fn next(moments: &mut Moments) -> Result<Instant> {
    tokio::time::timeout(WITHIN, moments.recv()).await.context("no job began")?.context("nobody listens")
}

/// A node with everything, as it comes.
async fn worker(bed: &Bed) -> Result<(Node, Moments)> {
    let (say, moments) = mpsc::unbounded_channel();
    let handler = move || {
        // Nobody may be left to hear it.
        let _ = say.send(Instant::now());
        async {}
    };
    let node = Lineclear::builder().store(bed.url()).kind(KIND, handler).start().await?;
    Ok((node, moments))
}

/// A node that runs no jobs: what it enqueues, it has to tell others.
async fn elsewhere(bed: &Bed) -> Result<Node> {
    let options = NodeOptions { roles: vec![Role::Cleaner], ..NodeOptions::default() };
    Ok(Lineclear::builder().store(bed.url()).options(options).start().await?)
}

async fn listen(url: &str) -> Result<Moments> {
    let (say, moments) = mpsc::unbounded_channel();
    let (client, mut connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) && say.send(Instant::now()).is_err() {
                return;
            }
        }
    });
    client.batch_execute(&format!("listen {CHANNEL}")).await?;
    // The connection ends with its client, so that stays for as long as somebody listens.
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(client)
    });
    Ok(moments)
}
