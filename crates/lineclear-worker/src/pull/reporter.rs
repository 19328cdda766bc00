//! Sends the progress and logs of running handlers, together and about once a second.

use std::sync::Arc;
use std::time::Duration;

use lineclear::remote::RemoteRun;
use lineclear::store::LogLine;
use serde::{Deserialize, Serialize};

use crate::pull::session::{CALL, Session};
use crate::wire::api::CallError;
use crate::wire::log::LineObject;
use crate::wire::{ClaimResult, SKIPPED};

/// How often they are sent. Without progress and logs, nothing is sent.
const REPORT: Duration = Duration::from_secs(1);
/// Claims, and lines, in one call.
const BATCH_MAX: usize = 1_000;
/// Bytes of lines in one call: half of what the server accepts.
const LINES_BYTES_MAX: usize = 256 * 1024;

#[derive(Serialize)]
struct Report<'a, T> {
    worker: &'a str,
    claims: Vec<T>,
}

#[derive(Serialize)]
struct ProgressObject {
    job: String,
    no: u32,
    fraction: f64,
    text: String,
}

#[derive(Serialize)]
struct LogObject {
    job: String,
    no: u32,
    lines: Vec<LineObject>,
}

#[derive(Deserialize)]
struct Results {
    claims: Vec<ClaimResult>,
}

/// Reports until it is aborted.
pub(crate) async fn report(session: Arc<Session>) {
    loop {
        tokio::time::sleep(REPORT).await;
        let runs = session.active.runs();
        if let Err(error) = send_progress(&session, &runs).await {
            session.warn("cannot report progress; trying again", &error);
        }
        if let Err(error) = send_logs(&session, &runs).await {
            session.warn("cannot send log lines; trying again", &error);
        }
    }
}

async fn send_progress(session: &Session, runs: &[Arc<RemoteRun>]) -> Result<(), CallError> {
    let new = runs.iter().filter_map(|run| Some((run, run.new_progress()?)));
    let (sent, claims): (Vec<_>, Vec<_>) = new
        .take(BATCH_MAX)
        .map(|(run, progress)| {
            let (job, no) = (run.claim().job.to_string(), run.claim().no);
            (run, ProgressObject { job, no, fraction: progress.fraction, text: progress.text })
        })
        .unzip();
    if claims.is_empty() {
        return Ok(());
    }
    let report = Report { worker: &session.worker.id, claims };
    let results: Result<Results, CallError> = session.api.post("/claims/progress", &report, CALL).await;
    match results {
        Ok(results) => {
            for (run, result) in sent.into_iter().zip(results.claims) {
                if result.status == SKIPPED {
                    run.progress_again();
                }
            }
            Ok(())
        }
        Err(error) => {
            sent.into_iter().for_each(|run| run.progress_again());
            Err(error)
        }
    }
}

/// Sends new log lines, in as few calls as possible.
pub(crate) async fn send_logs(session: &Session, runs: &[Arc<RemoteRun>]) -> Result<(), CallError> {
    if !runs.iter().any(|run| run.has_log()) {
        return Ok(());
    }
    let _turn = session.log_turn.lock().await;
    let mut batch = Batch::default();
    for run in runs {
        let lines = run.drain_log();
        if lines.is_empty() {
            continue;
        }
        let bytes: usize = lines.iter().map(|line| line.message.len() + 100).sum();
        let is_full = batch.lines + lines.len() > BATCH_MAX || batch.bytes + bytes > LINES_BYTES_MAX;
        if is_full && let Err(error) = std::mem::take(&mut batch).send(session).await {
            run.log_again(lines);
            return Err(error);
        }
        batch.lines += lines.len();
        batch.bytes += bytes;
        batch.sent.push((run.clone(), lines));
    }
    batch.send(session).await
}

/// Lines for one call, by the run that they are from.
#[derive(Default)]
struct Batch {
    sent: Vec<(Arc<RemoteRun>, Vec<LogLine>)>,
    lines: usize,
    bytes: usize,
}

impl Batch {
    async fn send(self, session: &Session) -> Result<(), CallError> {
        if self.sent.is_empty() {
            return Ok(());
        }
        let object = |(run, lines): &(Arc<RemoteRun>, Vec<LogLine>)| {
            let (job, no) = (run.claim().job.to_string(), run.claim().no);
            // A full log has one line more than the server takes at once.
            let from = lines.len().saturating_sub(BATCH_MAX);
            LogObject { job, no, lines: lines[from..].iter().map(LineObject::of).collect() }
        };
        let claims = self.sent.iter().map(object).collect();
        let report = Report { worker: &session.worker.id, claims };
        let answer: Result<Results, CallError> = session.api.post("/claims/logs", &report, CALL).await;
        for (run, lines) in self.sent {
            match &answer {
                // What the server refuses now, it refuses again.
                Ok(_) | Err(CallError::Refused { .. }) => run.log_written(),
                Err(CallError::Unreachable { .. }) => run.log_again(lines),
            }
        }
        answer.map(drop)
    }
}
