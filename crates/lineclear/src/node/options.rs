//! How a node behaves, with its defaults in one place.

use std::time::Duration;

use crate::store::Retention;

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Turns ticks into jobs. One node at a time does, whichever comes first.
    Planner,
    /// Takes jobs and runs them.
    Workers,
    /// Removes what is long over.
    Cleaner,
}

impl Role {
    /// All of them: what a node does unless it is told otherwise.
    pub const ALL: &[Role] = &[Role::Planner, Role::Workers, Role::Cleaner];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Role::Planner => "planner",
            Role::Workers => "workers",
            Role::Cleaner => "cleaner",
        }
    }
}

/// How a node behaves.
///
/// | option | default | meaning |
/// |---|---|---|
/// | `roles` | all | what it does |
/// | `slots` | cores × 4 | jobs it runs at once |
/// | `lease` | 30 s | after this time without renewal, a job is given to another node |
/// | `renewal` | 10 s | how often leases are renewed |
/// | `poll` | 1 s | how often it looks for work when nobody nudges it |
/// | `plan_interval` | 5 s | how often it plans at least; it plans when a manifest is due in any case |
/// | `heartbeat` | 10 s | how often it says that it is alive |
/// | `shutdown_grace` | 30 s | how long handlers may go on when it stops |
/// | `clean_interval` | 1 min | how often it cleans |
/// | `retention` | 7 days completed, 30 days the rest | what cleaning keeps |
/// | `crash_budget` | 3 | workers that may vanish with a job before it becomes a dead letter |
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// What it does.
    pub roles: Vec<Role>,
    /// Jobs it runs at once.
    pub slots: u32,
    /// How long a lease is good without renewal.
    pub lease: Duration,
    /// How often leases are renewed.
    pub renewal: Duration,
    /// How often it looks for work.
    pub poll: Duration,
    /// How often it plans at least.
    pub plan_interval: Duration,
    /// How often it says that it is alive.
    pub heartbeat: Duration,
    /// How long handlers may go on when it stops.
    pub shutdown_grace: Duration,
    /// How often it cleans.
    pub clean_interval: Duration,
    /// What cleaning keeps.
    pub retention: Retention,
    /// Workers that may vanish with a job before it is buried.
    pub crash_budget: u32,
}

impl Default for NodeOptions {
    fn default() -> NodeOptions {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        NodeOptions {
            roles: Role::ALL.to_vec(),
            slots: u32::try_from(cores * 4).unwrap_or(u32::MAX),
            lease: Duration::from_secs(30),
            renewal: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            plan_interval: Duration::from_secs(5),
            heartbeat: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(30),
            clean_interval: Duration::from_secs(60),
            retention: Retention::default(),
            crash_budget: lineclear_model::outcome::CRASH_BUDGET,
        }
    }
}

/// An option that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option {option}: {why}")]
pub struct BadOption {
    /// Which one.
    pub option: &'static str,
    /// Why, and what to do.
    pub why: String,
}

impl NodeOptions {
    /// Checks what cannot be, before anything starts.
    pub fn check(&self) -> Result<(), BadOption> {
        let bad = |option, why: &str| Err(BadOption { option, why: why.to_owned() });
        let short = Duration::from_millis(10);
        if self.roles.is_empty() {
            return bad("roles", "a node without a role does nothing; name at least one");
        }
        if self.slots == 0 || self.slots > 10_000 {
            return bad("slots", "between 1 and 10,000; to run no jobs at all, leave out the role workers");
        }
        if self.lease < Duration::from_millis(300) || self.lease > Duration::from_secs(86_400) {
            return bad("lease", "between 300 ms and a day");
        }
        if self.renewal < short || self.renewal > self.lease / 3 {
            return bad("renewal", "at most a third of the lease, so that two renewals may fail");
        }
        for (option, interval) in [
            ("poll", self.poll),
            ("plan_interval", self.plan_interval),
            ("heartbeat", self.heartbeat),
            ("clean_interval", self.clean_interval),
        ] {
            if interval < short {
                return bad(option, "at least 10 ms: shorter would only keep the database busy");
            }
        }
        if self.crash_budget == 0 {
            return bad("crash_budget", "at least 1: then the first vanished worker buries the job");
        }
        Ok(())
    }

    pub(crate) fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be_and_nonsense_is_named() {
        assert_eq!(NodeOptions::default().check(), Ok(()));
        let option = |change: fn(&mut NodeOptions)| {
            let mut options = NodeOptions::default();
            change(&mut options);
            options.check().map_err(|bad| bad.option)
        };
        assert_eq!(option(|o| o.slots = 0), Err("slots"));
        assert_eq!(option(|o| o.roles.clear()), Err("roles"));
        assert_eq!(option(|o| o.renewal = Duration::from_secs(11)), Err("renewal"));
        assert_eq!(option(|o| o.poll = Duration::ZERO), Err("poll"));
        assert_eq!(option(|o| o.crash_budget = 0), Err("crash_budget"));
    }
}
