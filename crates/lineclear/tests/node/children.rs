//! Nodes as separate processes, and what the store records of their work.

use std::time::Duration;

use lineclear::model::{ExecutionOutcome, JobState, Payload};
use lineclear::store::{JobId, NewJob};
use lineclear::{Store, StoreOptions};
use lineclear_testkit::{Child, Program};

use crate::documents::readme::example;
use crate::kit::{TestStore, name};

pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const LEASE: Duration = Duration::from_millis(1500);

pub(crate) fn program(db: &TestStore, roles: &str) -> Program {
    Program::at(example("child")).args([db.url.as_str(), roles, &LEASE.as_millis().to_string()])
}

pub(crate) async fn start(db: &TestStore, roles: &str) -> Child {
    let child = program(db, roles).start().unwrap();
    child.wait_for_line("is up", LONG).await.unwrap();
    child
}

/// Starts `many` of them, with options, and waits until all are up.
pub(crate) async fn crowd(many: usize, db: &TestStore, roles: &str, options: &[&str]) -> Vec<Child> {
    let programs = (0..many).map(|_| program(db, roles).args(options));
    up(programs).await
}

/// Starts all at once, and waits until all are up.
pub(crate) async fn up(programs: impl IntoIterator<Item = Program>) -> Vec<Child> {
    let children: Vec<Child> = programs.into_iter().map(|program| program.start().unwrap()).collect();
    for child in &children {
        child.wait_for_line("is up", LONG).await.unwrap();
    }
    children
}

/// Tells all to end, and waits until they have, without a complaint.
pub(crate) async fn end(mut children: Vec<Child>) -> Vec<Child> {
    for child in &mut children {
        child.terminate().unwrap();
    }
    ended(children).await
}

/// Waits until all have ended successfully without a signal.
pub(crate) async fn ended(mut children: Vec<Child>) -> Vec<Child> {
    for child in &mut children {
        assert!(child.wait_for_exit(LONG).await.unwrap().success());
    }
    children
}

/// Lines of all of them that end like `job 7 claim 1 started at 1`: the first number, and the last.
pub(crate) fn lines(children: &[Child], with: &str) -> Vec<(i64, i64)> {
    let all = children.iter().flat_map(Child::stdout).filter(|line| line.contains(with));
    all.map(|line| {
        let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
        let first = numbers.next().expect("a number");
        (first, numbers.next_back().unwrap_or(first))
    })
    .collect()
}

pub(crate) async fn store(db: &TestStore) -> Store {
    Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap()
}

pub(crate) fn sleep(millis: u64) -> NewJob {
    NewJob::new(name("sleep"), Payload::of(&millis).unwrap())
}

/// Sleeps for the first time at its first claim, and for the second at all others.
pub(crate) fn sleeps(first: u64, then: u64) -> NewJob {
    NewJob::new(name("sleeps"), Payload::of(&[first, then]).unwrap())
}

pub(crate) async fn state(store: &Store, job: JobId) -> Option<JobState> {
    store.job(job).await.unwrap().map(|detail| detail.job.state)
}

pub(crate) async fn outcomes(store: &Store, job: JobId) -> Vec<ExecutionOutcome> {
    store.job(job).await.unwrap().unwrap().executions.iter().map(|execution| execution.outcome).collect()
}

/// How many jobs there are in a state.
pub(crate) async fn count(store: &Store, state: JobState) -> usize {
    let filter = lineclear::read::JobFilter { states: vec![state], ..Default::default() };
    let (mut count, mut before) = (0, None);
    loop {
        let page = store.jobs(&filter, before, 1000).await.unwrap();
        count += page.items.len();
        before = page.next;
        if before.is_none() {
            return count;
        }
    }
}
