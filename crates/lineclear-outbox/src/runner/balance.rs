//! Which partition a node hands over, and to which node: so that no node has two more than another one.
//!
//! With a difference of one nothing moves: the nodes settle, and each has at most its share, rounded up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lineclear_lock::{Epoch, Locks, Registry, RunnerRecord, RunnerState, RunnerStatus};
use tokio::time::Instant;

/// Runners of a database that are read.
const RUNNERS_MAX: u32 = 10_000;
/// For so long, a node that did not take a partition gets no other one: it may be frozen.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Balance {
    registry: Option<Registry>,
    /// This node, as the registry names it.
    holder: String,
    /// Begins the names of the locks of partitions; the number follows.
    prefix: String,
    last: Option<HandOver>,
}

/// The last one of this node.
struct HandOver {
    number: u32,
    epoch: Option<Epoch>,
    to: String,
    /// How many partitions that node had.
    had: usize,
    at: Instant,
}

/// What the registry knows of a node.
#[derive(Debug, Default)]
struct Load {
    held: usize,
    /// Partitions that it waits for.
    waits: BTreeSet<u32>,
}

impl Balance {
    pub(super) fn new(locks: &Locks, lock_name: &str) -> Balance {
        Balance {
            registry: locks.registry().cloned(),
            holder: locks.holder().to_string(),
            prefix: format!("{lock_name}/"),
            last: None,
        }
    }

    /// A partition of this node to hand over, and the node to which. `held`: those that this node has.
    pub(super) async fn choose(&mut self, held: &[(u32, RunnerStatus)]) -> Option<(u32, String)> {
        let is_ending = |last: &HandOver| {
            held.iter().any(|(number, status)| *number == last.number && status.epoch == last.epoch)
        };
        if held.len() < 2 || self.last.as_ref().is_some_and(is_ending) {
            return None;
        }
        // The registry only describes; without it, partitions stay where they are.
        let records = self.registry.as_ref()?.runners(RUNNERS_MAX).await.ok()?;
        let numbers: Vec<u32> = held.iter().map(|(number, _)| *number).collect();
        let (number, to, had) = choice(&numbers, self.others(&records))?;
        let tried = |last: &HandOver| last.to == to && last.had >= had && last.at.elapsed() < PATIENCE;
        if self.last.as_ref().is_some_and(tried) {
            return None;
        }
        let epoch = held.iter().find(|(held, _)| *held == number).and_then(|(_, status)| status.epoch);
        self.last = Some(HandOver { number, epoch, to: to.clone(), had, at: Instant::now() });
        Some((number, to))
    }

    /// Other nodes that are alive.
    fn others(&self, records: &[RunnerRecord]) -> BTreeMap<String, Load> {
        let mut loads: BTreeMap<String, Load> = BTreeMap::new();
        for record in records.iter().filter(|record| !record.is_stale() && record.holder() != self.holder) {
            let number = record.name.strip_prefix(&self.prefix).and_then(|number| number.parse().ok());
            let Some(number) = number else { continue };
            match record.state {
                RunnerState::Running | RunnerState::Failing => {
                    loads.entry(record.holder()).or_default().held += 1
                }
                RunnerState::Waiting => drop(loads.entry(record.holder()).or_default().waits.insert(number)),
                RunnerState::Stopped => {}
            }
        }
        loads
    }
}

/// A partition that the node with the fewest waits for, that node, and how many it has: if it has at least two fewer.
fn choice(held: &[u32], others: BTreeMap<String, Load>) -> Option<(u32, String, usize)> {
    let (to, load) = others.into_iter().min_by_key(|(_, load)| load.held)?;
    let number = held.iter().rev().find(|number| load.waits.contains(number))?;
    (held.len() >= load.held + 2).then_some((*number, to, load.held))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(held: usize) -> Load {
        Load { held, waits: (0..64).collect() }
    }

    fn others(held: &[usize]) -> BTreeMap<String, Load> {
        held.iter().enumerate().map(|(at, held)| (format!("node-{at}"), load(*held))).collect()
    }

    #[test]
    fn the_node_with_the_fewest_gets_one_and_a_difference_of_one_stays() {
        let mine: Vec<u32> = (0..4).collect();
        assert_eq!(choice(&mine, others(&[2, 0, 1])), Some((3, "node-1".to_owned(), 0)));
        assert_eq!(choice(&mine, others(&[2])), Some((3, "node-0".to_owned(), 2)));
        assert_eq!(choice(&mine, others(&[3, 4])), None);
        assert_eq!(choice(&mine, others(&[])), None, "it is alone");
    }

    #[test]
    fn a_node_that_does_not_wait_for_a_partition_does_not_get_it() {
        let few = Load { held: 0, waits: BTreeSet::from([1]) };
        let others = BTreeMap::from([("a".to_owned(), few)]);
        assert_eq!(choice(&[0, 1, 2], others), Some((1, "a".to_owned(), 0)));
        let none = BTreeMap::from([("a".to_owned(), Load::default())]);
        assert_eq!(choice(&[0, 1, 2], none), None);
    }

    /// Every node hands over in its turn, from any beginning, and the turns end.
    #[test]
    fn nodes_settle_with_a_fair_share() {
        for begin in [vec![5, 0], vec![7, 0, 0], vec![0, 0, 1, 9], vec![3, 3, 0], vec![64, 0, 0, 0, 0]] {
            let (mut held, total) = (begin.clone(), begin.iter().sum::<usize>());
            let mut moves = 0;
            loop {
                let before = moves;
                for at in 0..held.len() {
                    let mine: Vec<u32> = (0..u32::try_from(held[at]).unwrap()).collect();
                    let rest: Vec<usize> = held
                        .iter()
                        .copied()
                        .enumerate()
                        .filter(|(other, _)| *other != at)
                        .map(|(_, held)| held)
                        .collect();
                    let Some((_, to, _)) = choice(&mine, others(&rest)) else { continue };
                    let to: usize = to.trim_start_matches("node-").parse().unwrap();
                    held[at] -= 1;
                    held[if to >= at { to + 1 } else { to }] += 1;
                    moves += 1;
                }
                assert!(moves <= total * held.len(), "{begin:?} does not settle");
                if moves == before {
                    break;
                }
            }
            assert!(held.iter().all(|held| *held <= total.div_ceil(begin.len())), "{begin:?}: {held:?}");
        }
    }
}
