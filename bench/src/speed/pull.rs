//! Pull: Python processes that fetch jobs over HTTP, compared with a node that runs them itself with as many slots.
//!
//! The server, its database and the processes share the cores, so that the ratio is the worst that one machine shows.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result};
use lineclear::{Lineclear, Node, NodeOptions};
use lineclear_http::{HttpOptions, Server};
use lineclear_measure::{interleave, median, rate};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::drain::{by_node, expect_history, fill_route};
use super::{KIND, announce, until_settled};
use crate::measure::{grouped, spread};
use crate::report::{Bound, Unit};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const JOBS: u32 = 50_000;
/// Where jobs of the kind wait for workers that pull.
const ROUTE: &str = "pull.mail.send";
const PROCESSES: u32 = 4;
/// Slots of each process: it asks for as many jobs at once.
const SLOTS: u32 = 100;
const LEAST: f64 = 0.5;
const ROUNDS: u32 = 5;

pub(super) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let jobs = scale.of(JOBS);
    announce(database, jobs, "jobs are run alternately by Python processes and by a node");
    // Two databases: where jobs of a kind go is recorded in each.
    let remote = ScratchDb::new(database, Purpose::Speed).await?;
    let local = ScratchDb::new(database, Purpose::Speed).await?;
    let measured = interleave(2, scale.rounds(ROUNDS), async |side| match side {
        0 => {
            fill_route(&remote, jobs, ROUTE).await?;
            by_python(&remote, jobs).await
        }
        _ => {
            fill_route(&local, jobs, "main").await?;
            by_node(&local, jobs, PROCESSES * SLOTS).await
        }
    })
    .await?;
    let (pulled, local) = (&measured[0], &measured[1]);
    let name = format!(
        "run {} no-op jobs: node, {} slots → {PROCESSES} Python processes, {SLOTS} each",
        grouped(jobs),
        grouped(PROCESSES * SLOTS)
    );
    let figure = Figure::new(database, name, Unit::JobsPerSecond, Some(median(local)), median(pulled));
    Ok(vec![figure.bound(Some(Bound::AtLeast(LEAST))).note(spread(local, pulled))])
}

/// A server like that of `lineclear serve`, whose node has no handler for these jobs.
async fn serve(db: &ScratchDb) -> Result<(Node, SocketAddr, CancellationToken)> {
    let node = Lineclear::builder().store(db.url()).options(NodeOptions::default()).start().await?;
    let options = HttpOptions { bind: SocketAddr::from(([127, 0, 0, 1], 0)), ..HttpOptions::default() };
    let server = Server::bind(options, node.client(), None).await?;
    let (address, stop) = (server.address(), CancellationToken::new());
    tokio::spawn(server.run(stop.clone().cancelled_owned()));
    Ok((node, address, stop))
}

async fn by_python(db: &ScratchDb, jobs: u32) -> Result<f64> {
    let (node, address, stop) = serve(db).await?;
    let mut workers = Vec::new();
    for _ in 0..PROCESSES {
        workers.push(worker(address).await?);
    }
    let start = Instant::now();
    for worker in &mut workers {
        let input = worker.stdin.as_mut().context("a pipe")?;
        input.write_all(b"begin\n").await?;
        input.flush().await?;
    }
    while db.number("select id from {t}work_queue order by id desc limit 1").await? != 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    until_settled(db).await?;
    let rate = rate(jobs, start);
    for mut worker in workers {
        worker.kill().await?;
    }
    stop.cancel();
    node.stop().await;
    expect_history(db, jobs).await?;
    Ok(rate)
}

/// A process that is ready to begin.
async fn worker(address: SocketAddr) -> Result<Child> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/python");
    let mut child = Command::new("python3")
        .args(["bench.py", &format!("http://{address}"), KIND, &SLOTS.to_string()])
        .current_dir(folder)
        .env("PYTHONPATH", "src")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting python3")?;
    let output = child.stdout.take().context("a pipe")?;
    BufReader::new(output).lines().next_line().await?.context("the worker ended before it was ready")?;
    Ok(child)
}
