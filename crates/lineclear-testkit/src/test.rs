//! `test`: all tests of the workspace with the servers they need, and one count of them.

use std::{
    io::{Write, stderr, stdout},
    process::{ExitCode, Stdio},
};

use anyhow::{Context, Result};
use lineclear_testkit::servers::postgres::Durability;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
};

use crate::{
    count::{Counts, Runner},
    run::Signals,
};

/// All features, so that crash points exist.
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];

/// Which tests to run: those in modules called `slow` take a minute each, on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Quick,
    Slow,
    All,
}

/// Runs tests, with the examples in the documentation unless only slow ones are wanted. Succeeds if there were any and none
/// failed.
pub(crate) async fn test(which: Which) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let servers = signals.start_servers(Durability::ThrowAway).await?;
    let mut total = Counts::default();
    let mut all_well = true;
    for (runner, arguments) in commands(which).await {
        let mut command = Command::new("cargo");
        command.args(arguments).envs(servers.environment());
        // Temporary files of tests, too: SQLite then waits for no disk.
        command.envs(servers.scratch().map(|folder| ("TMPDIR", folder)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting cargo")?;
        let output = read(&mut child, runner);
        let status = signals.wait_for(&mut child).await?;
        for counts in output.await? {
            total.passed += counts.passed;
            total.failed += counts.failed;
            total.skipped += counts.skipped;
        }
        all_well &= status.success();
        if signals.came {
            all_well = false;
            break;
        }
    }
    println!("\n{} passed, {} failed, {} {}", total.passed, total.failed, total.skipped, left_out(which));
    let passed = all_well && total.failed == 0 && total.passed > 0;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the total counts.
fn left_out(which: Which) -> &'static str {
    match which {
        Which::Quick => "skipped (`make test-slow` runs these)",
        Which::Slow => "skipped (`make test` runs these)",
        Which::All => "skipped",
    }
}

/// Nextest is faster and ends tests that hang, but it does not run the examples in the documentation.
async fn commands(which: Which) -> Vec<(Runner, Vec<&'static str>)> {
    let nextest = Command::new("cargo").args(["nextest", "--version"]).output().await;
    let nextest = nextest.is_ok_and(|output| output.status.success());
    let with = |first: &[&'static str], last: &[&'static str]| [first, &EVERYTHING, last].concat();
    let examples = (Runner::Cargo, with(&["test", "--doc"], &[]));
    match which {
        Which::Quick if nextest => vec![(Runner::Nextest, with(&["nextest", "run"], &[])), examples],
        Which::All if nextest => {
            vec![(Runner::Nextest, with(&["nextest", "run", "--profile", "all"], &[])), examples]
        }
        Which::Slow if nextest => {
            vec![(Runner::Nextest, with(&["nextest", "run", "--profile", "slow"], &[]))]
        }
        Which::Quick => vec![(Runner::Cargo, with(&["test", "--no-fail-fast"], &["--", "--skip", "slow::"]))],
        Which::All => vec![(Runner::Cargo, with(&["test", "--no-fail-fast"], &[]))],
        Which::Slow => vec![(Runner::Cargo, with(&["test", "--no-fail-fast", "--tests"], &["slow::"]))],
    }
}

/// Passes both streams on, and counts.
fn read(child: &mut Child, runner: Runner) -> tokio::task::JoinHandle<[Counts; 2]> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    tokio::spawn(async move {
        let (out, err) = tokio::join!(tee(out, stdout(), runner), tee(err, stderr(), runner));
        [out, err]
    })
}

async fn tee(from: Option<impl AsyncRead + Unpin>, mut to: impl Write, runner: Runner) -> Counts {
    let mut counts = Counts::default();
    let Some(from) = from else { return counts };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).await.is_ok_and(|length| length > 0) {
        counts.read(runner, &String::from_utf8_lossy(&line));
        // Go on counting even if the output is closed.
        to.write_all(&line).ok();
        to.flush().ok();
        line.clear();
    }
    counts
}
