//! A run: every step that the file does not have yet.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::RunArgs;
use crate::lines::{self, Machine, Writer};
use crate::plan::{Size, steps};
use crate::server::Server;
use crate::step::Bench;
use crate::subjects::{Subject, chosen};

/// Settings of the server that the report names.
const POSTGRES: [&str; 7] = [
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_wal_size",
];

pub(crate) async fn run(args: &RunArgs) -> Result<()> {
    let size = if args.quick { Size::Quick } else { Size::Full };
    let rounds = args.rounds.unwrap_or(size.rounds());
    let subjects = chosen(&args.only)?;
    let url = env::var("LINECLEAR_TEST_POSTGRES_URL")
        .context("LINECLEAR_TEST_POSTGRES_URL names no server: run `make bench-peers`, which starts one")?;
    let server = Server::open(&url).await?;
    let bench = Bench { session: server.session().await?, server, programs: args.programs.clone(), size };
    for name in ["fsync", "synchronous_commit"] {
        let value = bench.server.setting(name).await?;
        ensure!(value == "on", "{name} is {value}: commits must wait for the disk");
    }

    let machine = describe(&bench, &subjects, rounds).await?;
    let mut known = Vec::new();
    if !args.fresh
        && let Some((before, lines)) = lines::read(&args.lines)?
    {
        ensure!(
            before == machine,
            "{} was measured on another machine, with other versions or otherwise: `--fresh` forgets it",
            args.lines.display()
        );
        known = lines;
    }
    let mut writer = Writer::begin(&args.lines, &machine, &known)?;
    let (begun, all) = (Instant::now(), steps(&subjects, rounds));
    let left: Vec<_> = all.iter().filter(|step| !known.iter().any(|line| line.is_of(step))).collect();
    if left.len() < all.len() {
        eprintln!("… {} of {} measurements are there already", all.len() - left.len(), all.len());
    }
    for (number, step) in left.iter().enumerate() {
        let settings = step.settings;
        let what = format!("{} of {} with {settings:?} settings", step.measure, step.subject.name);
        let line = bench.measure(step).await.with_context(|| what.clone())?;
        writer.add(&line)?;
        eprintln!(
            "… {}/{} after {:.0} s: {what}: {:.0} jobs/s, {} jobs, {} left{}, foreign load {:.0} %",
            number + 1,
            left.len(),
            begun.elapsed().as_secs_f64(),
            line.rate,
            line.jobs,
            line.left,
            line.p50_ms.map_or(String::new(), |p50| format!(", p50 {p50:.2} ms")),
            line.foreign * 100.0,
        );
        known.push(line);
    }
    print!("{}", crate::report::text(&machine, &known));
    Ok(())
}

async fn describe(bench: &Bench, subjects: &[&'static Subject], rounds: u32) -> Result<Machine> {
    let mut postgres = BTreeMap::new();
    for name in POSTGRES {
        postgres.insert(name.to_owned(), bench.server.setting(name).await?);
    }
    let mut about = BTreeMap::new();
    for subject in subjects {
        about.insert(subject.name.to_owned(), bench.describe(subject).await?);
    }
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value).trim().to_owned()
    };
    let kibibytes = value(&memory, "MemTotal").trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
    Ok(Machine {
        size: bench.size,
        rounds,
        commit: commit().await,
        cpu: value(&cpu, "model name"),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_gib: kibibytes >> 20,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        postgres,
        subjects: about,
    })
}

/// The commit of the folder, with `-dirty` if files differ; empty without git.
async fn commit() -> String {
    let described =
        Command::new("git").args(["describe", "--always", "--dirty", "--exclude=*"]).output().await;
    described
        .map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
