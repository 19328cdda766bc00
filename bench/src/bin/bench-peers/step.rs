//! One measurement: a fresh copy of a database, one process, and the counts by SQL.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use lineclear_measure::quantile;
use peer_harness::Settings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::process::Command;

use crate::cpu::Moment;
use crate::lines::{About, Line};
use crate::plan::{Measure, Size, Step};
use crate::server::{Server, number};
use crate::subjects::Subject;

/// A program that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(120);

const TRIES: usize = 3;

/// What a program prints.
#[derive(Deserialize)]
struct Answer {
    enqueued: u64,
    jobs: u64,
    ran: u64,
    seconds: f64,
    times_ms: Vec<f64>,
}

#[derive(Deserialize)]
struct Description {
    version: String,
    settings: String,
}

pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) programs: PathBuf,
    /// A session of the server.
    pub(crate) session: u32,
    pub(crate) size: Size,
}

impl Bench {
    pub(crate) async fn describe(&self, subject: &Subject) -> Result<About> {
        let of = async |settings: &str| {
            self.program::<Description>(subject, &["describe".to_owned(), settings.to_owned()]).await
        };
        let (best, default) = (of("--best").await?, of("--default").await?);
        Ok(About { version: best.version, best: best.settings, default: default.settings })
    }

    /// Measures, again if that fails: one failure must not end a run of half an hour. The report names it.
    pub(crate) async fn measure(&self, step: &Step) -> Result<Line> {
        let mut failures = Vec::new();
        loop {
            match self.try_to_measure(step).await {
                Ok(line) => return Ok(Line { failures, ..line }),
                Err(error) if failures.len() + 1 == TRIES => return Err(error),
                Err(error) => {
                    eprintln!("… {} of {} failed: {error:#}", step.measure, step.subject.name);
                    failures.push(format!("{error:#}"));
                }
            }
        }
    }

    async fn try_to_measure(&self, step: &Step) -> Result<Line> {
        let Step { round, measure, subject, settings } = *step;
        let queued = self.size.queued(measure, settings);
        let template = self.template(subject, queued).await?;
        let url = self.server.copy(&template).await?;

        let mut arguments = self.size.arguments(measure, settings);
        arguments.extend(["--url".to_owned(), url.clone()]);
        let (logged, before) = (self.server.logged().await?, Moment::now(self.session)?);
        let answer: Answer = self.program(subject, &arguments).await?;
        let (usage, wal_bytes) =
            (Moment::now(self.session)?.since(&before), self.server.logged().await? - logged);

        let left = number(&url, subject.left).await?;
        let done = match subject.done {
            Some(query) => Some(number(&url, query).await?),
            None => None,
        };
        check(measure, queued, &answer, left, done)?;
        let quantile = |share| (!answer.times_ms.is_empty()).then(|| quantile(&answer.times_ms, share));
        Ok(Line {
            round,
            measure,
            subject: subject.name.to_owned(),
            best: settings == Settings::Best,
            queued,
            enqueued: answer.enqueued,
            jobs: answer.jobs,
            ran: answer.ran,
            left,
            seconds: answer.seconds,
            rate: answer.jobs as f64 / answer.seconds,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            samples: (measure == Measure::Latency).then_some(answer.times_ms.len()),
            wal_bytes,
            server_cores: usage.server_cores,
            program_cores: usage.program_cores,
            foreign: usage.foreign,
            failures: Vec::new(),
            at: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        })
    }

    /// A database with the tables of a subject and so many jobs, made when it is first asked for; returns its name.
    async fn template(&self, subject: &Subject, queued: u64) -> Result<String> {
        let empty = format!("{}_0", subject.name);
        if !self.server.has(&empty).await? {
            let url = self.server.create(&empty, None).await?;
            self.program::<Answer>(subject, &words(&["setup", "--url", &url])).await.context("its tables")?;
        }
        let filled = format!("{}_{queued}", subject.name);
        if !self.server.has(&filled).await? {
            let url = self.server.create(&filled, Some(&empty)).await?;
            let jobs = queued.to_string();
            self.program::<Answer>(subject, &words(&["fill", "--url", &url, "--jobs", &jobs, "--best"]))
                .await?;
            let left = number(&url, subject.left).await?;
            ensure!(left == queued, "{left} of {queued} jobs are in the queue");
            // Statistics as autovacuum would have made them by now.
            crate::server::connect(&url).await?.batch_execute("vacuum analyze").await?;
        }
        Ok(filled)
    }

    async fn program<T: DeserializeOwned>(&self, subject: &Subject, arguments: &[String]) -> Result<T> {
        let mut command = if subject.is_built_in() {
            let mut own = Command::new(std::env::current_exe()?);
            own.args(["subject", subject.name]);
            own
        } else {
            Command::new(self.programs.join(subject.name))
        };
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
        let output = tokio::time::timeout(LONGEST, command.output());
        let output = output.await.with_context(|| format!("{} hangs", subject.name))?;
        let output = output.with_context(|| format!("starting {}: run scripts/build-peers", subject.name))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let said = || format!("{} {}: {}: {text}", subject.name, arguments.join(" "), output.status);
        ensure!(output.status.success(), said());
        serde_json::from_str(text.trim().lines().last().unwrap_or_default()).with_context(said)
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Whether the database agrees with what the program says.
fn check(measure: Measure, queued: u64, answer: &Answer, left: u64, done: Option<u64>) -> Result<()> {
    let all = queued + answer.enqueued;
    ensure!(left <= all, "{left} jobs are left of {all}");
    ensure!(answer.jobs > 0, "no job in {} s", answer.seconds);
    if let Some(done) = done {
        ensure!(done + left == all, "{done} jobs are completed and {left} are not, of {all}");
    }
    if matches!(measure, Measure::Single1 | Measure::Single16 | Measure::Bulk) {
        ensure!(left == all, "{left} of {all} jobs are in the queue");
        return Ok(());
    }
    // More may have been completed after the time was over.
    let completed = all - left;
    ensure!(completed >= answer.jobs, "{completed} jobs are completed, not {}", answer.jobs);
    ensure!(answer.ran >= answer.jobs, "{} handlers ran for {} jobs", answer.ran, answer.jobs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_says_too_much_is_not_believed() {
        let answer = |enqueued, jobs, ran| Answer { enqueued, jobs, ran, seconds: 1.0, times_ms: Vec::new() };
        let check = |measure, answer, left, done| check(measure, 100, &answer, left, done).is_ok();
        assert!(check(Measure::Drain, answer(0, 100, 100), 0, Some(100)));
        assert!(check(Measure::Drain, answer(0, 90, 95), 8, Some(92)), "the time was over");
        assert!(!check(Measure::Drain, answer(0, 100, 100), 1, None), "a job is left");
        assert!(!check(Measure::Drain, answer(0, 100, 99), 0, None), "a handler did not run");
        assert!(!check(Measure::Drain, answer(0, 100, 100), 0, Some(99)), "a job is lost");
        assert!(!check(Measure::Drain, answer(0, 0, 0), 100, Some(0)), "nothing happened");
        assert!(check(Measure::Bulk, answer(60, 50, 0), 160, Some(0)), "ten were enqueued to warm up");
        assert!(!check(Measure::Bulk, answer(60, 60, 0), 159, None));
    }
}
