//! The options of a node and their defaults.

use std::time::Duration;

use lineclear_model::Name;

use crate::store::{Limits, Retention, Tunable};

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Plans: turns ticks into jobs. One node at a time does.
    Planner,
    /// Dispatches waiting jobs to workers. A node with workers dispatches and claims in one step.
    Dispatcher,
    /// Runs jobs.
    Workers,
    /// Removes what is older than its retention.
    Cleaner,
}

impl Role {
    /// All roles, the default.
    pub const ALL: &[Role] = &[Role::Planner, Role::Dispatcher, Role::Workers, Role::Cleaner];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Role::Planner => "planner",
            Role::Dispatcher => "dispatcher",
            Role::Workers => "workers",
            Role::Cleaner => "cleaner",
        }
    }
}

/// The options of a node.
///
/// | option | default | meaning |
/// |---|---|---|
/// | `roles` | all | what the node does |
/// | `slots` | cores × 4 | jobs it runs at once |
/// | `routes` | those of its kinds | the routes it serves; `main` if it has no kinds |
/// | `lease` | 30 s | how long a lease lasts without renewal; then another node can claim the job |
/// | `renewal` | 10 s | how often leases are renewed |
/// | `visibility_timeout` | none | replaces short renewed leases by one of this length; a handler that needs longer is stopped, and its job runs again |
/// | `limits` | exact | whether group limits and the global limit are exact, or counted without locks |
/// | `dispatch_ahead` | 1,000 | jobs of a route that a dispatcher without workers dispatches before they are claimed |
/// | `poll` | 1 s | poll interval when no notification arrives |
/// | `plan_interval` | 5 s | longest pause between planning cycles; it also plans when a manifest is due |
/// | `plan_batch` | 1,000 | manifests per planning cycle |
/// | `plan_group_share` | 20 | further manifests of each group per cycle, when more are due |
/// | `heartbeat` | 10 s | heartbeat interval |
/// | `shutdown_grace` | 30 s | how long handlers may continue when the node stops |
/// | `clean_interval` | 1 min | how often it cleans |
/// | `retention` | 7 days completed, 30 days the rest | what cleaning keeps |
/// | `crash_budget` | 3 | workers that may vanish with a job before it becomes a dead letter |
/// | `crashed_alone` | true | a job that the next vanished worker would bury runs alone on its node |
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// What the node does.
    pub roles: Vec<Role>,
    /// Jobs it runs at once.
    pub slots: u32,
    /// The routes it serves; empty: those of its kinds.
    pub routes: Vec<Name>,
    /// How long a lease lasts without renewal.
    pub lease: Duration,
    /// How often leases are renewed.
    pub renewal: Duration,
    /// Replaces renewed leases by one of this length.
    pub visibility_timeout: Option<Duration>,
    /// Whether limits are exact.
    pub limits: Limits,
    /// Jobs of a route that are dispatched before they are claimed.
    pub dispatch_ahead: u32,
    /// Poll interval when no notification arrives.
    pub poll: Duration,
    /// Longest pause between planning cycles.
    pub plan_interval: Duration,
    /// Manifests per planning cycle.
    pub plan_batch: u32,
    /// Further manifests of each group per cycle, when more are due.
    pub plan_group_share: u32,
    /// Heartbeat interval.
    pub heartbeat: Duration,
    /// How long handlers may continue when the node stops.
    pub shutdown_grace: Duration,
    /// How often it cleans.
    pub clean_interval: Duration,
    /// What cleaning keeps.
    pub retention: Retention,
    /// Workers that may vanish with a job before it becomes a dead letter.
    pub crash_budget: u32,
    /// A job that the next vanished worker would bury runs alone on its node.
    pub crashed_alone: bool,
}

impl Default for NodeOptions {
    fn default() -> NodeOptions {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        NodeOptions {
            roles: Role::ALL.to_vec(),
            slots: u32::try_from(cores * 4).unwrap_or(u32::MAX),
            routes: Vec::new(),
            lease: Duration::from_secs(30),
            renewal: Duration::from_secs(10),
            visibility_timeout: None,
            limits: Limits::Exact,
            dispatch_ahead: 1_000,
            poll: Duration::from_secs(1),
            plan_interval: Duration::from_secs(5),
            plan_batch: 1_000,
            plan_group_share: 20,
            heartbeat: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(30),
            clean_interval: Duration::from_secs(60),
            retention: Retention::default(),
            crash_budget: lineclear_model::outcome::CRASH_BUDGET,
            crashed_alone: true,
        }
    }
}

/// An invalid option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option {option}: {why}")]
pub struct BadOption {
    /// Which one.
    pub option: &'static str,
    /// Why, and what to do.
    pub why: String,
}

impl NodeOptions {
    /// Checks the options.
    pub fn check(&self) -> Result<(), BadOption> {
        let bad = |option, why: &str| Err(BadOption { option, why: why.to_owned() });
        let short = Duration::from_millis(10);
        if self.roles.is_empty() {
            return bad("roles", "a node needs at least one role");
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
        if self.plan_batch == 0 || self.plan_batch > 10_000 || self.plan_group_share > 1_000 {
            return bad("plan_batch", "between 1 and 10,000; and plan_group_share at most 1,000");
        }
        let day = Duration::from_secs(86_400);
        if self.visibility_timeout.is_some_and(|time| time < Duration::from_secs(1) || time > day) {
            return bad("visibility_timeout", "between a second and a day; 30 minutes is usual");
        }
        if self.dispatch_ahead == 0 || self.dispatch_ahead > 10_000 {
            return bad("dispatch_ahead", "between 1 and 10,000");
        }
        for (option, interval) in [
            ("poll", self.poll),
            ("plan_interval", self.plan_interval),
            ("heartbeat", self.heartbeat),
            ("clean_interval", self.clean_interval),
        ] {
            if interval < short {
                return bad(option, "at least 10 ms: a shorter interval only loads the database");
            }
        }
        if self.crash_budget == 0 {
            return bad(
                "crash_budget",
                "at least 1; with 1, the first vanished worker makes the job a dead letter",
            );
        }
        Ok(())
    }

    /// The options that operators can change while the node runs.
    pub fn tunable(&self) -> Tunable {
        Tunable {
            slots: self.slots,
            dispatch_ahead: self.dispatch_ahead,
            plan_batch: self.plan_batch,
            poll: self.poll,
            retention: self.retention,
        }
    }

    /// How often a node says that it is alive: often enough that others can tell a slow node from a dead one when a lease ends.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.heartbeat.min(self.lease / 3)
    }

    /// The length of a lease.
    pub(crate) fn lease_length(&self) -> Duration {
        self.visibility_timeout.unwrap_or(self.lease)
    }

    pub(crate) fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the fields of a struct, from how it is shown.
    fn fields(shown: &str) -> Vec<&str> {
        shown
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
            .filter_map(|line| line.split(':').next())
            .collect()
    }

    #[test]
    fn every_option_is_in_the_documentation() {
        let page = include_str!("../../../docs/options.md");
        let node = format!("{:#?}", NodeOptions::default());
        let kind = format!("{:#?}", crate::KindOptions::default());
        let retention = format!("{:#?}", Retention::default());
        let all: Vec<&str> = [fields(&node), fields(&kind), fields(&retention)].concat();
        assert!(all.len() > 20 && all.contains(&"crashed_alone"), "{all:?}");
        for option in all {
            assert!(
                page.contains(&format!("| `{option}` |")),
                "docs/options.md does not say what {option} is"
            );
        }
    }

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
        assert_eq!(option(|o| o.visibility_timeout = Some(Duration::ZERO)), Err("visibility_timeout"));
        assert_eq!(option(|o| o.plan_batch = 0), Err("plan_batch"));
        assert_eq!(option(|o| o.dispatch_ahead = 0), Err("dispatch_ahead"));
    }
}
