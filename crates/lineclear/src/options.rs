//! How a node behaves, with its defaults in one place.

use std::time::Duration;

use lineclear_model::Name;

use crate::store::{Limits, Retention, Tunable};

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Turns ticks into jobs. One node at a time does, whichever comes first.
    Planner,
    /// Hands waiting jobs to workers. A node that has workers, too, hands them to itself, in one step.
    Dispatcher,
    /// Runs jobs.
    Workers,
    /// Removes what is long over.
    Cleaner,
}

impl Role {
    /// All of them: what a node does unless it is told otherwise.
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

/// How a node behaves.
///
/// | option | default | meaning |
/// |---|---|---|
/// | `roles` | all | what it does |
/// | `slots` | cores × 4 | jobs it runs at once |
/// | `routes` | those of its kinds | the lanes it serves; `main` if it has no kinds |
/// | `lease` | 30 s | after this time without renewal, a job is given to another node |
/// | `renewal` | 10 s | how often leases are renewed |
/// | `visibility_timeout` | none | instead of short renewed leases: one of this length, not renewed; a handler that needs longer is stopped, and runs again |
/// | `limits` | exact | whether limits of groups, and the global one, are exact, or counted without locks |
/// | `dispatch_ahead` | 1,000 | jobs of a route that a dispatcher without workers hands over before they are claimed |
/// | `poll` | 1 s | how often it looks for work when nobody nudges it |
/// | `plan_interval` | 5 s | how often it plans at least; it plans when a manifest is due in any case |
/// | `plan_batch` | 1,000 | manifests that one planning cycle takes |
/// | `plan_group_share` | 20 | manifests of each group that it takes beyond these, when more are due |
/// | `heartbeat` | 10 s | how often it says that it is alive |
/// | `shutdown_grace` | 30 s | how long handlers may go on when it stops |
/// | `clean_interval` | 1 min | how often it cleans |
/// | `retention` | 7 days completed, 30 days the rest | what cleaning keeps |
/// | `crash_budget` | 3 | workers that may vanish with a job before it becomes a dead letter |
/// | `crashed_alone` | true | a job that the next vanished worker would bury runs alone on its node |
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// What it does.
    pub roles: Vec<Role>,
    /// Jobs it runs at once.
    pub slots: u32,
    /// The lanes it serves; empty: those of its kinds.
    pub routes: Vec<Name>,
    /// How long a lease is good without renewal.
    pub lease: Duration,
    /// How often leases are renewed.
    pub renewal: Duration,
    /// Instead of leases that are renewed: one of this length, not renewed.
    pub visibility_timeout: Option<Duration>,
    /// How exact limits are.
    pub limits: Limits,
    /// Jobs of a route that are handed over before they are claimed.
    pub dispatch_ahead: u32,
    /// How often it looks for work.
    pub poll: Duration,
    /// How often it plans at least.
    pub plan_interval: Duration,
    /// Manifests that one planning cycle takes.
    pub plan_batch: u32,
    /// Manifests of each group that it takes beyond these, when more are due.
    pub plan_group_share: u32,
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
    /// A job on its last chance runs alone.
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
                return bad(option, "at least 10 ms: shorter would only keep the database busy");
            }
        }
        if self.crash_budget == 0 {
            return bad("crash_budget", "at least 1: then the first vanished worker buries the job");
        }
        Ok(())
    }

    /// What operators may change while it runs.
    pub fn tunable(&self) -> Tunable {
        Tunable {
            slots: self.slots,
            dispatch_ahead: self.dispatch_ahead,
            plan_batch: self.plan_batch,
            poll: self.poll,
            retention: self.retention,
        }
    }

    /// How long a lease is.
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
