//! Two releases work on one PostgreSQL under load, forward and back: the older one alone, both, the newer one alone, both, the
//! older one alone. Each release is a server and a worker; none is killed.
//!
//! The older release is the program that `LINECLEAR_TEST_BASE` names (`make test-rolling` builds it from another commit), or this one.
//! The newer one is this program with two more migrations, of tables that are in use.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lineclear_testkit::{Child, Program, fresh_postgres};
use tempfile::TempDir;

use super::{LATER, LONG, Later, client};

/// Names the program of the older release.
const BASE: &str = "LINECLEAR_TEST_BASE";
/// Manifests that fire every second.
const ORDERS: usize = 4;
/// Jobs and ticks that each constellation must run before the next.
const JOBS_EACH: usize = 25;
/// How long each constellation runs: with one build, and with two.
const SECONDS_EACH: [u64; 2] = [4, 15];

/// `$1` is the job: `job-7`, or the key of a manifest.
const COMMAND: &str = r#"echo "$1 $LINECLEAR_TICK" >> marks"#;

/// What the servers and the callers share.
struct Load {
    dir: TempDir,
    /// The addresses of servers that take requests.
    servers: Mutex<Vec<String>>,
    accepted: AtomicUsize,
    stopped: AtomicBool,
    faults: Mutex<Vec<String>>,
}

impl Load {
    fn marks(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("marks")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Enqueues one job after the other until it is stopped. Each is sent until a server accepts it, with a key that makes it one job.
    fn enqueue(&self) {
        for number in 0.. {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let argv = serde_json::json!(["/bin/sh", "-c", COMMAND, "sh", format!("job-{number}")]);
            let body = serde_json::json!({"kind": "command", "input": {"argv": argv}}).to_string();
            let deadline = Instant::now() + LONG;
            let mut turn = number;
            while !self.send(turn, &format!("rolling-{number}"), &body) {
                turn += 1;
                assert!(Instant::now() < deadline, "no server accepts job-{number}");
            }
            self.accepted.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(40));
        }
    }

    fn send(&self, turn: usize, key: &str, body: &str) -> bool {
        let servers = self.servers.lock().unwrap().clone();
        let address = &servers[turn % servers.len()];
        match post(address, key, body) {
            Ok(answer) if answer.starts_with("HTTP/1.1 201") || answer.starts_with("HTTP/1.1 200") => true,
            // A server that stops closes its connections.
            Ok(answer) if answer.is_empty() => self.is_gone(address, "no answer"),
            Ok(answer) => self.fault(format!("{address}: {answer}")),
            Err(error) => self.is_gone(address, &error.to_string()),
        }
    }

    fn is_gone(&self, address: &str, why: &str) -> bool {
        match self.servers.lock().unwrap().iter().any(|one| one == address) {
            true => self.fault(format!("{address}: {why}")),
            false => false,
        }
    }

    fn fault(&self, what: String) -> bool {
        self.faults.lock().unwrap().push(what);
        false
    }
}

fn post(address: &str, key: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The flag that lets a server without tokens run commands, which older releases do without and do not know.
fn open_commands(program: &Path) -> &'static [&'static str] {
    let help = std::process::Command::new(program).args(["serve", "--help"]).output().unwrap();
    let is_known = String::from_utf8(help.stdout).unwrap().contains("--allow-open-commands");
    if is_known { &["--allow-open-commands"] } else { &[] }
}

/// A release that runs: a server and a worker.
struct Release {
    server: Child,
    worker: Child,
    address: String,
}

impl Release {
    async fn start(program: &Path, later: Option<&Later>, load: &Load, url: &str) -> Release {
        let start = |args: &[&str]| {
            let program = Program::at(program)
                .args(args)
                .args(["--db", url, "--commands", "/bin/sh", "--slots", "8"])
                .current_dir(load.dir.path())
                .env("XDG_CONFIG_HOME", load.dir.path().join("none"));
            let program = match later {
                Some(later) => program.env(LATER, later.folder()),
                None => program,
            };
            program.start().unwrap()
        };
        let serve = ["serve", "--port", "0", "--manifests", "orders.toml"];
        let server = start(&[&serve[..], open_commands(program)].concat());
        let line = server.wait_for_line("API  http://", LONG).await.unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        let worker = start(&["work"]);
        load.servers.lock().unwrap().push(address.clone());
        Release { server, worker, address }
    }

    /// Stops it as a rolling release does: first it gets no more requests, and then it is told to end.
    async fn stop(mut self, load: &Load) {
        load.servers.lock().unwrap().retain(|address| *address != self.address);
        for child in [&mut self.server, &mut self.worker] {
            child.terminate().unwrap();
            assert!(child.wait_for_exit(LONG).await.unwrap().success(), "{:#?}", child.stderr());
            let errors: Vec<String> =
                child.stderr().into_iter().filter(|line| line.contains("ERROR")).collect();
            assert!(errors.is_empty(), "{errors:#?}");
        }
    }
}

fn write_orders(dir: &Path) -> i64 {
    let first = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 2).unwrap();
    let orders: String = (0..ORDERS)
        .map(|order| {
            let argv = serde_json::to_string(&["/bin/sh", "-c", COMMAND, "sh", &format!("order-{order}")]).unwrap();
            format!(
                "[[manifest]]\nkey = \"order-{order}\"\nkind = \"command\"\ninput = {{ argv = {argv} }}\noverlap = \"allow\"\n\
                 schedule = {{ every = \"1s\", start = \"{first}\" }}\n"
            )
        })
        .collect();
    std::fs::write(dir.join("orders.toml"), orders).unwrap();
    first.as_second()
}

/// Waits until this constellation has run its share of jobs and ticks.
async fn works(what: &str, load: &Load) {
    let seconds = SECONDS_EACH[usize::from(std::env::var_os(BASE).is_some())];
    let (marks, begun) = (load.marks().len(), Instant::now());
    let enough = |load: &Load| load.marks().len() >= marks + JOBS_EACH + ORDERS * seconds as usize;
    while !enough(load) || begun.elapsed() < Duration::from_secs(seconds) {
        assert!(begun.elapsed() < LONG * 2, "{what}: only {} jobs ran", load.marks().len() - marks);
        let faults = load.faults.lock().unwrap().clone();
        assert!(faults.is_empty(), "{what}: {faults:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{what}: {} jobs and ticks in {:?}", load.marks().len() - marks, begun.elapsed());
}

/// Waits until all accepted jobs and all ticks up to `last` have run, and looks whether any has run twice or is missing.
async fn each_ran_once(load: &Load, first: i64, last: i64) {
    let jobs = (0..load.accepted.load(Ordering::SeqCst)).map(|number| format!("job-{number} "));
    let ticks = (0..ORDERS).flat_map(|order| {
        (first..=last)
            .map(move |second| format!("order-{order} {}", jiff::Timestamp::from_second(second).unwrap()))
    });
    let due: BTreeSet<String> = jobs.chain(ticks).collect();
    let deadline = Instant::now() + LONG * 2;
    loop {
        let mut ran: BTreeMap<String, usize> = BTreeMap::new();
        for mark in load.marks() {
            *ran.entry(mark).or_default() += 1;
        }
        let missing: Vec<&String> = due.iter().filter(|one| !ran.contains_key(*one)).collect();
        if missing.is_empty() {
            let twice: Vec<(&String, &usize)> = ran.iter().filter(|(_, times)| **times > 1).collect();
            assert!(twice.is_empty(), "ran twice: {twice:?}");
            println!(
                "{} jobs and {} ticks ran once each",
                load.accepted.load(Ordering::SeqCst),
                ORDERS as i64 * (last - first + 1)
            );
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{} are missing, such as {:?}",
            missing.len(),
            &missing[..missing.len().min(10)]
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_releases_share_a_database_under_load_forward_and_back() {
    let database = fresh_postgres().await;
    let url = database.url();
    let newer = PathBuf::from(env!("CARGO_BIN_EXE_lineclear"));
    let older = std::env::var_os(BASE).map_or_else(|| newer.clone(), PathBuf::from);
    let later = Later::with(&[
        (
            "9001_notes",
            "alter table {schema}.work_queue add column later_note text;
             alter table {schema}.background_job add column later_note text;
             alter table {schema}.execution add column later_note text;
             alter table {schema}.tick add column later_note text;
             alter table {schema}.manifest add column later_note text;
             alter table {schema}.node add column later_note text;",
        ),
        (
            "9002_execution_later",
            "-- built concurrently\ncreate index concurrently execution_later on {schema}.execution (kind, job_id);",
        ),
    ]);
    let load = Arc::new(Load {
        dir: tempfile::tempdir().unwrap(),
        servers: Mutex::default(),
        accepted: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        faults: Mutex::default(),
    });
    let first = write_orders(load.dir.path());
    let old = Release::start(&older, None, &load, url).await;
    let caller = thread::spawn({
        let load = load.clone();
        move || load.enqueue()
    });
    works("the older release", &load).await;

    let new = Release::start(&newer, Some(&later), &load, url).await;
    works("both, after the newer one has migrated", &load).await;
    old.stop(&load).await;
    works("the newer release", &load).await;

    let old = Release::start(&older, None, &load, url).await;
    works("both, on the way back", &load).await;
    new.stop(&load).await;
    works("the older release on the newer schema", &load).await;

    load.stopped.store(true, Ordering::SeqCst);
    caller.join().expect("every job was accepted");
    each_ran_once(&load, first, jiff::Timestamp::now().as_second() - 1).await;
    old.stop(&load).await;
    let faults = load.faults.lock().unwrap().clone();
    assert!(faults.is_empty(), "{faults:#?}");
    let not_completed =
        "select count(*) from lineclear.execution where outcome not in ('completed', 'released')";
    let row = client(url, "test").await.query_one(not_completed, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0, "no job failed or lost its worker");
}
