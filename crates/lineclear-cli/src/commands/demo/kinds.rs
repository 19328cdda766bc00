//! The handlers of the demo.

use std::time::Duration;

use lineclear::store::NewJob;
use lineclear::{HandlerError, Input, JobInfo, Permanent};
use lineclear_model::{Name, Payload};

pub(super) async fn heartbeat() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

pub(super) async fn flaky_import(job: JobInfo) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    if job.claim_no == 1 { Err("connection reset by the customer's server".into()) } else { Ok(()) }
}

pub(super) async fn slow_report() {
    tokio::time::sleep(Duration::from_secs(4)).await;
}

pub(super) async fn step() {
    tokio::time::sleep(Duration::from_millis(300)).await;
}

pub(super) async fn invoice(Input(number): Input<u64>) -> Result<(), HandlerError> {
    Err(Permanent::new(format!("invoice {number} has no address")).into())
}

pub(super) async fn send_email() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn job(kind: &str, input: Payload) -> NewJob {
    NewJob::new(Name::new(kind).expect("a name"), input)
}

/// A job that fails permanently.
pub(super) fn permanent_failure() -> NewJob {
    job("invoice", Payload::of(&4711).expect("a number"))
}

/// A job of `--rate`.
pub(super) fn extra() -> NewJob {
    job("heartbeat", Payload::empty())
}
