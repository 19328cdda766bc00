//! Pages of the dashboard on an empty database and on a full one: the time to load a page must not grow with the history.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, ensure};
use lineclear::model::{Name, Payload};
use lineclear::store::NewJob;
use lineclear::{Lineclear, Node, NodeOptions, Role};
use lineclear_http::{DatabaseLocks, HttpOptions, Server};
use lineclear_measure::{interleave, median, quantile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::load::{self, History, Waiting};
use crate::measure::{grouped, progress, spread};
use crate::report::{Bound, Unit};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const EXECUTIONS: u32 = 1_000_000;
const WAITING: u32 = 100_000;
const DEAD: u32 = 1_000;
/// The most that the full database may cost, as a multiple of the empty one.
const BOUND: f64 = 3.0;
/// Manifests of the history, over a week: each minute has statistics of many.
const MANIFESTS: u32 = 500;
const WEEK_US: u64 = 7 * 86_400 * 1_000_000;
const LOCKS: u32 = 200;
const LOCK_EVENTS: u32 = 5_000;
/// Longest statement, in milliseconds.
const STATEMENT_MS: f64 = 200.0;
const ROUNDS: u32 = 21;

/// Searches without a match read ten thousand rows of each table, and the page says so: they cost as much with any history.
const RARE: [&str; 2] = ["/jobs?q=kind:no-such-kind", "/jobs?q=error:%22no%20such%20text%22"];
/// The pages to measure. `{job}` is a job that both databases have.
const PAGES: [&str; 13] = [
    "/",
    "/?range=24h",
    "/?range=7d",
    "/jobs",
    "/jobs?q=state:completed",
    "/jobs?q=state:waiting%20kind:mail.*",
    "/jobs?q=since:1h",
    "/jobs/{job}",
    "/dead-letters",
    "/bulk-operations",
    "/enqueue",
    "/cluster",
    "/bulk-operations/new?action=cancel&q=state:running",
];
/// Pages that show all of their rows, and are slower with each: printed without a bound.
const WHOLE: [&str; 4] =
    ["/", "/dead-letters", "/cluster", "/bulk-operations/new?action=revive&q=state:dead"];

/// A database, and a server on it.
struct Side {
    db: ScratchDb,
    node: Node,
    address: SocketAddr,
    stop: CancellationToken,
    job: String,
}

impl Side {
    async fn new(database: Database, full: Option<Scale>) -> Result<Side> {
        let db = ScratchDb::new(database, Purpose::Growth).await?;
        if let Some(scale) = full {
            fill(&db, scale).await?;
        }
        let job = db.store.enqueue(NewJob::new(Name::new("mail.send")?, Payload::empty())).await?;
        db.settle_down().await?;
        let options = NodeOptions { roles: vec![Role::Cleaner], ..NodeOptions::default() };
        let node = Lineclear::builder().store(db.url()).options(options).start().await?;
        let locks = Some(DatabaseLocks::new(db.url())?);
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        let server =
            Server::bind(HttpOptions { bind, locks, ..HttpOptions::default() }, node.client(), None).await?;
        let (address, stop) = (server.address(), CancellationToken::new());
        tokio::spawn(server.run(stop.clone().cancelled_owned()));
        Ok(Side { db, node, address, stop, job: job.id.to_string() })
    }

    /// Milliseconds to the first byte; the rest is read, too.
    async fn first_byte(&self, page: &str) -> Result<f64> {
        let page = page.replace("{job}", &self.job);
        let mut stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let head = format!(
            "GET {page} HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\nConnection: close\r\n\r\n",
            self.address
        );
        let begun = Instant::now();
        stream.write_all(head.as_bytes()).await?;
        let mut bytes = vec![0; 64 * 1024];
        let count = stream.read(&mut bytes).await?;
        let time = begun.elapsed();
        let head = String::from_utf8_lossy(&bytes[..count.min(12)]).into_owned();
        ensure!(head == "HTTP/1.1 200", "{page}: {head}");
        while stream.read(&mut bytes).await? > 0 {}
        Ok(time.as_secs_f64() * 1_000.0)
    }

    async fn end(self) {
        self.stop.cancel();
        self.node.stop().await;
    }
}

/// A long history and a long queue; the tables of statistics as a cleaner leaves them.
async fn fill(db: &ScratchDb, scale: Scale) -> Result<()> {
    let (executions, waiting) = (scale.of(EXECUTIONS), scale.of(WAITING));
    let apart_us = WEEK_US / u64::from(executions);
    History { first_id: 1, rows: executions, apart_us, manifests: MANIFESTS }.load(db).await?;
    load::next_id(db, executions + waiting + 1).await?;
    for (place, due_in) in [(0, -1), (1, 7 * 86_400_000_000)] {
        let first_id = executions + 1 + place * (waiting / 2);
        Waiting { first_id, rows: waiting / 2, route: "main", priority: 0, due_in, group: None }
            .load(db)
            .await?;
    }
    // As if it had been rolled up all the time.
    let week_ago = crate::scratch_db::now_micros() - i64::try_from(WEEK_US)?;
    db.sql(&format!("update {{t}}stat_mark set through = {{at({} / 60000000 * 60000000)}}", week_ago))
        .await?;
    db.store.roll_up().await?;
    Ok(())
}

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let (executions, waiting) = (grouped(scale.of(EXECUTIONS)), grouped(scale.of(WAITING)));
    progress(&format!("{}: loading {executions} executions and {waiting} waiting jobs", database.label()));
    let (empty, full) = (Side::new(database, None).await?, Side::new(database, Some(scale)).await?);
    let watched = full.db.watch_statements().await;
    let mut figures = Vec::new();
    let sides = [&empty, &full];
    let measure = async |page: &str, what: &str, bound: Option<Bound>| -> Result<Figure> {
        let measured =
            interleave(2, scale.repetitions(ROUNDS), async |side| sides[side].first_byte(page).await).await?;
        let (base, value) = (&measured[0], &measured[1]);
        let note = format!("slowest {:.1} ms; {}", quantile(value, 1.0), spread(base, value));
        let name = format!("page {page}: empty → {what}");
        let figure = Figure::new(database, name, Unit::Millis, Some(median(base)), median(value));
        Ok(figure.bound(bound).note(note))
    };
    for page in PAGES.into_iter().chain(RARE) {
        // SQLite answers so fast that counting the queue up to ten thousand is a large part of the time.
        let is_bound = database == Database::Postgres && !RARE.contains(&page);
        let bound = is_bound.then_some(Bound::AtMost(BOUND));
        figures.push(measure(page, &format!("{executions} executions"), bound).await?);
    }
    match full.db.slowest_statement().await.filter(|_| watched) {
        Some((ms, text)) => {
            let name = format!("slowest statement of these pages: {STATEMENT_MS} ms → it");
            let figure = Figure::new(database, name, Unit::Millis, Some(STATEMENT_MS), ms);
            figures.push(figure.bound(Some(Bound::AtMost(1.0))).note(text));
        }
        None => progress("the statements cannot be watched here: the server has no pg_stat_statements"),
    }
    load::dead(&full.db, scale.of(EXECUTIONS) + scale.of(WAITING) + 1_000, DEAD).await?;
    load::locks(&full.db, LOCKS, LOCK_EVENTS).await?;
    full.db.settle_down().await?;
    let what = format!("{executions} executions, {DEAD} dead letters and {LOCKS} locks");
    for page in WHOLE {
        figures.push(measure(page, &what, None).await?);
    }
    empty.end().await;
    full.end().await;
    Ok(figures)
}
