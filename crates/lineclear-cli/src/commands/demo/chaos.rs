//! Whom the demo kills, and when; and who takes over.

use std::time::{Duration, Instant};

use lineclear_lock::Lease;

use super::cluster::Cluster;
use super::story::Story;
use crate::failure::Failure;

/// The leader is killed after this time.
const FIRST: Duration = Duration::from_secs(15);
/// A killed node comes back after this time.
const BACK: Duration = Duration::from_secs(10);
/// With chaos, the next one is killed after so many seconds, more or less.
const NEXT: std::ops::Range<u64> = 6..16;

pub(super) struct Chaos {
    goes_on: bool,
    state: u64,
    kill_at: Option<Instant>,
    dead: Vec<(String, Instant)>,
    leader: Option<String>,
    /// When the leader was killed, and nobody has taken over yet.
    orphaned: Option<Instant>,
}

impl Chaos {
    pub(super) fn new(goes_on: bool, seed: u64) -> Chaos {
        let kill_at = Some(Instant::now() + FIRST);
        Chaos { goes_on, state: seed | 1, kill_at, dead: Vec::new(), leader: None, orphaned: None }
    }

    pub(super) fn act(
        &mut self,
        cluster: &mut Cluster,
        lease: Option<Lease>,
        story: &mut Story,
    ) -> Result<(), Failure> {
        self.watch(cluster, lease, story);
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| now >= at) && cluster.living().len() > 1 {
            self.strike(cluster, story);
        }
        let (back, still): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.dead).into_iter().partition(|(_, at)| now >= *at);
        self.dead = still;
        for (name, _) in back {
            cluster.start_again(&name)?;
            story.node("node_started", &name, "started again");
        }
        Ok(())
    }

    /// Who leads is told when it changes.
    fn watch(&mut self, cluster: &Cluster, lease: Option<Lease>, story: &mut Story) {
        let Some(lease) = lease else { return };
        let Some(name) = cluster.name_of(lease.pid) else { return };
        if self.leader.as_ref() == Some(&name) {
            return;
        }
        match self.orphaned.take() {
            Some(killed) => {
                let after = killed.elapsed().as_secs_f64();
                let text = format!(
                    "took over the planning {after:.1} s after the leader's death (epoch {})",
                    lease.epoch
                );
                story.node("leader_changed", &name, &text);
            }
            None => story.node("leader", &name, &format!("plans now (epoch {})", lease.epoch)),
        }
        self.leader = Some(name);
    }

    fn strike(&mut self, cluster: &mut Cluster, story: &mut Story) {
        let living = cluster.living();
        let first = self.dead.is_empty() && self.orphaned.is_none();
        // The first blow is for the leader.
        let at_leader = first || self.random(3) == 0;
        let leader = self.leader.clone().filter(|leader| at_leader && living.contains(leader));
        let any = living[self.random(living.len() as u64) as usize].clone();
        let victim = leader.unwrap_or(any);
        let now = Instant::now();
        cluster.kill(&victim);
        self.dead.push((victim.clone(), now + BACK));
        if self.leader.as_ref() == Some(&victim) {
            (self.leader, self.orphaned) = (None, Some(now));
            story.node("leader_killed", &victim, "led the planning, and was killed on purpose (SIGKILL)");
        } else {
            story.node("node_killed", &victim, "was killed on purpose (SIGKILL)");
        }
        let next = NEXT.start + self.random(NEXT.end - NEXT.start);
        self.kill_at = self.goes_on.then(|| now + Duration::from_secs(next));
    }

    /// Below `end`; the same for the same seed.
    fn random(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % end
    }
}
