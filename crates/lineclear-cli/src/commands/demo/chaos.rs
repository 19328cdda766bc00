//! Kills nodes of the demo, and reports which node leads and which one delivers the outbox.

use std::time::{Duration, Instant};

use lineclear_lock::{LeaseRecord, RunnerRecord};

use super::cluster::Cluster;
use super::event_log::EventLog;
use crate::failure::Failure;

/// When the leader is killed.
const FIRST_KILL: Duration = Duration::from_secs(15);
/// When the node that delivers the outbox is killed, unless it was the leader.
const SECOND_KILL: Duration = Duration::from_secs(6);
/// When a killed node is restarted.
const RESTART_AFTER: Duration = Duration::from_secs(10);
/// With `--chaos`: seconds until the next kill.
const NEXT_KILL: std::ops::Range<u64> = 6..16;

pub(super) struct Chaos {
    repeats: bool,
    state: u64,
    kill_at: Option<Instant>,
    dead: Vec<(String, Instant)>,
    leader: Option<String>,
    /// When the leader was killed, until another node leads.
    leaderless_since: Option<Instant>,
    /// The node that delivers the outbox.
    runner: Option<String>,
    /// When that was killed, until another node delivers.
    runnerless_since: Option<Instant>,
    kills: u32,
    has_killed_runner: bool,
}

/// What the registry says.
pub(super) struct Seen {
    pub(super) leader: Option<LeaseRecord>,
    pub(super) runners: Vec<RunnerRecord>,
}

impl Chaos {
    pub(super) fn new(repeats: bool, seed: u64) -> Chaos {
        let kill_at = Some(Instant::now() + FIRST_KILL);
        Chaos {
            repeats,
            state: seed | 1,
            kill_at,
            dead: Vec::new(),
            leader: None,
            leaderless_since: None,
            runner: None,
            runnerless_since: None,
            kills: 0,
            has_killed_runner: false,
        }
    }

    pub(super) fn act(
        &mut self,
        cluster: &mut Cluster,
        seen: &Seen,
        log: &mut EventLog,
    ) -> Result<(), Failure> {
        self.report_leader(cluster, seen.leader.as_ref(), log);
        self.report_runner(cluster, &seen.runners, log);
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| now >= at) && cluster.running().len() > 1 {
            self.kill_one(cluster, log);
        }
        let (back, still): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.dead).into_iter().partition(|(_, at)| now >= *at);
        self.dead = still;
        for (name, _) in back {
            cluster.restart(&name)?;
            log.node("node_started", &name, "restarted");
        }
        Ok(())
    }

    /// Reports the leader when it changes.
    fn report_leader(&mut self, cluster: &Cluster, lease: Option<&LeaseRecord>, log: &mut EventLog) {
        let Some(lease) = lease else { return };
        let Some(name) = cluster.name_of(lease.pid) else { return };
        if self.leader.as_ref() == Some(&name) {
            return;
        }
        match self.leaderless_since.take() {
            Some(killed) => {
                let after = killed.elapsed().as_secs_f64();
                let text = format!(
                    "became the leader {after:.1} s after the old one was killed (epoch {})",
                    lease.epoch
                );
                log.node("leader_changed", &name, &text);
            }
            None => log.node("leader", &name, &format!("leads (epoch {})", lease.epoch)),
        }
        self.leader = Some(name);
    }

    /// Reports the node that delivers the outbox when it changes.
    fn report_runner(&mut self, cluster: &Cluster, runners: &[RunnerRecord], log: &mut EventLog) {
        let Some(runner) =
            runners.iter().filter(|runner| runner.is_active()).max_by_key(|runner| runner.epoch)
        else {
            return;
        };
        // The row of a killed node is there for a while.
        let Some(name) = cluster.name_of(runner.pid) else { return };
        if self.runner.as_ref() == Some(&name) {
            return;
        }
        match self.runnerless_since.take() {
            Some(killed) => {
                let after = killed.elapsed().as_secs_f64();
                let text = format!("delivers the outbox {after:.1} s after the node before it was killed");
                log.node("runner_moved", &name, &text);
            }
            None => log.node("runner", &name, "delivers the outbox: orders become e-mails"),
        }
        self.runner = Some(name);
    }

    fn kill_one(&mut self, cluster: &mut Cluster, log: &mut EventLog) {
        let running = cluster.running();
        let first = self.kills == 0;
        self.kills += 1;
        // The first kill hits the leader, and the second one the node that delivers the outbox, unless that was the leader.
        let at_leader = first || self.random(3) == 0;
        let leader = self.leader.clone().filter(|leader| at_leader && running.contains(leader));
        let runner = self
            .runner
            .clone()
            .filter(|runner| !first && !self.has_killed_runner && running.contains(runner));
        let any = running[self.random(running.len() as u64) as usize].clone();
        let victim = runner.or(leader).unwrap_or(any);
        let now = Instant::now();
        cluster.kill(&victim);
        self.dead.push((victim.clone(), now + RESTART_AFTER));
        let delivered = self.runner.as_ref() == Some(&victim);
        if delivered {
            (self.runner, self.runnerless_since, self.has_killed_runner) = (None, Some(now), true);
        }
        if self.leader.as_ref() == Some(&victim) {
            (self.leader, self.leaderless_since) = (None, Some(now));
            let what = if delivered { "led, delivered the outbox" } else { "led" };
            log.node("leader_killed", &victim, &format!("{what} and was killed on purpose (SIGKILL)"));
        } else if delivered {
            log.node("runner_killed", &victim, "delivered the outbox and was killed on purpose (SIGKILL)");
        } else {
            log.node("node_killed", &victim, "was killed on purpose (SIGKILL)");
        }
        let next = Duration::from_secs(NEXT_KILL.start + self.random(NEXT_KILL.end - NEXT_KILL.start));
        self.kill_at = match self.has_killed_runner {
            true => self.repeats.then(|| now + next),
            false => Some(now + SECOND_KILL),
        };
    }

    /// A number below `end`, reproducible by the seed.
    fn random(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % end
    }
}
