//! Who is measured.

use anyhow::{Result, ensure};
use peer_harness::Settings;

/// A job queue.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Its name where it is published, and of its program.
    pub(crate) name: &'static str,
    /// What it is written in.
    pub(crate) language: &'static str,
    /// Jobs that are completed, by its own tables; none if it deletes them.
    pub(crate) done: Option<&'static str>,
    /// Jobs that are not completed.
    pub(crate) left: &'static str,
    /// What it keeps of completed jobs.
    pub(crate) keeps: &'static str,
    /// What a worker that has lost its job, and then reports its result, changes.
    pub(crate) fence: &'static str,
    /// What happens to a job that fails, and to one whose worker dies.
    pub(crate) retries: &'static str,
}

/// The floor has no options.
pub(crate) const FLOOR: &str = "floor";
/// All ratios are to this one.
pub(crate) const OURS: &str = "lineclear";

pub(crate) const SUBJECTS: [Subject; 7] = [
    Subject {
        name: OURS,
        language: "Rust",
        done: Some("select count(*) from lineclear.execution where final and outcome = 'completed'"),
        left: "select (select count(*) from lineclear.work_queue) + (select count(*) from lineclear.background_job)",
        keeps: "a row per execution, 7 days",
        fence: "nothing: results carry the number of the claim",
        retries: "yes; 30 s after a worker dies (lease)",
    },
    Subject {
        name: "graphile_worker",
        language: "Rust",
        done: None,
        left: "select count(*) from graphile_worker._private_jobs",
        keeps: "nothing: the row is deleted",
        fence: "the job: it is deleted by its id alone",
        retries: "25 attempts; a dead worker is noticed after 5 min if recovery is on, which it is not by default",
    },
    Subject {
        name: "riverqueue",
        language: "Rust",
        done: Some("select count(*) from river_job where state = 'completed'"),
        left: "select count(*) from river_job where state <> 'completed'",
        keeps: "the row, 24 h",
        fence: "a newer attempt, if one runs: the state is checked, the attempt is not",
        retries: "25 attempts; an attempt that takes longer than 1 h counts as lost",
    },
    Subject {
        name: "apalis-postgres",
        language: "Rust",
        done: Some("select count(*) from apalis.jobs where status = 'Done'"),
        left: "select count(*) from apalis.jobs where status <> 'Done'",
        keeps: "the row, until it is removed by hand",
        fence: "nothing: results name the worker that holds the job",
        retries: "25 attempts; a dead worker is noticed after ten heartbeats of 30 s",
    },
    Subject {
        name: "graphile-worker",
        language: "Node",
        done: None,
        left: "select count(*) from graphile_worker._private_jobs",
        keeps: "nothing: the row is deleted",
        fence: "the job: it is deleted by its id alone",
        retries: "25 attempts; 4 h after a worker dies",
    },
    Subject {
        name: "pg-boss",
        language: "Node",
        done: Some("select count(*) from pgboss.job where state = 'completed'"),
        left: "select count(*) from pgboss.job where state <> 'completed'",
        keeps: "the row, 7 days",
        fence: "nothing: results carry the number of the attempt",
        retries: "3 attempts; an attempt that takes longer than 15 min counts as lost",
    },
    Subject {
        name: FLOOR,
        language: "SQL",
        done: Some("select count(*) from floor.done"),
        left: "select count(*) from floor.job",
        keeps: "a row per job",
        fence: "has none",
        retries: "none",
    },
];

impl Subject {
    pub(crate) fn has(&self, settings: Settings) -> bool {
        settings == Settings::Best || self.name != FLOOR
    }

    /// Whether its program is this one.
    pub(crate) fn is_built_in(&self) -> bool {
        self.name == OURS || self.name == FLOOR
    }

    pub(crate) fn named(name: &str) -> Option<&'static Subject> {
        SUBJECTS.iter().find(|subject| subject.name == name)
    }
}

/// Those with these names; without names, all.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Subject>> {
    for name in names {
        let known: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
        ensure!(Subject::named(name).is_some(), "{name} is not one of {}", known.join(", "));
    }
    let is_chosen = |subject: &&Subject| names.is_empty() || names.iter().any(|name| name == subject.name);
    Ok(SUBJECTS.iter().filter(is_chosen).collect())
}
