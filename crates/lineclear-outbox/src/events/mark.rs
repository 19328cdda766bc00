//! The mark: up to which position the log is complete. A number is drawn before its transaction commits, so a higher one may be visible while a
//! lower one is still to come.
//!
//! An appender takes a shared lock before it draws a number. A reader reads the last number drawn, and then who holds the lock. As soon as none
//! of these holders is left, every number up to that one is committed, or never will be.

use std::collections::BTreeSet;

/// How far the log is complete, as far as a reader has seen.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    complete: i64,
    pending: Option<Pending>,
}

/// A mark that waits.
#[derive(Debug)]
struct Pending {
    upto: i64,
    /// Those that may hold a number up to it.
    waits_for: BTreeSet<String>,
}

/// A prepared transaction without the name of the session that prepared it: so it is after a restart of the server, and was before PostgreSQL 14.1.
fn is_prepared(holder: &str) -> bool {
    holder.starts_with("-1/")
}

impl Mark {
    /// All positions up to here are committed, or never will be.
    pub(crate) fn complete(&self) -> i64 {
        self.complete
    }

    /// Whether it waits for open transactions.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Takes in the last number drawn, and who held the lock after that was read. Rows must be read after this returned.
    pub(crate) fn observe(&mut self, last: i64, holders: Vec<String>) {
        if let Some(pending) = &mut self.pending {
            let is_left = |holder: &String| holders.contains(holder);
            let gone = pending.waits_for.iter().any(|holder| !is_prepared(holder) && !is_left(holder));
            pending.waits_for.retain(is_left);
            if gone {
                // One that is gone may be among those that were prepared meanwhile.
                pending.waits_for.extend(holders.iter().filter(|holder| is_prepared(holder)).cloned());
            }
            if !pending.waits_for.is_empty() {
                return;
            }
            self.complete = self.complete.max(pending.upto);
            self.pending = None;
        }
        if holders.is_empty() {
            self.complete = self.complete.max(last);
        } else if last > self.complete {
            self.pending = Some(Pending { upto: last, waits_for: holders.into_iter().collect() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(seen: &[(i64, &[&str])]) -> Vec<i64> {
        let mut mark = Mark::default();
        let observe = |(last, holders): &(i64, &[&str])| {
            mark.observe(*last, holders.iter().map(|holder| (*holder).to_owned()).collect());
            mark.complete()
        };
        seen.iter().map(observe).collect()
    }

    #[test]
    fn without_holders_all_numbers_are_complete() {
        assert_eq!(marks(&[(0, &[]), (7, &[]), (7, &[]), (9, &[])]), [0, 7, 7, 9]);
    }

    #[test]
    fn it_waits_only_for_those_that_held_the_lock() {
        let seen: &[(i64, &[&str])] = &[
            (5, &["3/1", "4/1"]),
            (8, &["4/1", "5/1"]),
            (9, &["5/1", "3/2"]), // 3/1 and 4/1 have ended: up to 5
            (12, &["3/2"]),
            (12, &["6/1"]), // 5/1 and 3/2 have ended: up to 9
            (12, &[]),
        ];
        assert_eq!(marks(seen), [0, 0, 5, 5, 9, 12]);
    }

    #[test]
    fn a_transaction_that_is_prepared_meanwhile_is_waited_for() {
        let seen: &[(i64, &[&str])] = &[
            (5, &["3/1"]),
            (5, &["-1/700"]),           // it may be 3/1
            (6, &["-1/700", "-1/701"]), // 701 came later
            (6, &["-1/701"]),           // up to 5
            (6, &[]),
        ];
        assert_eq!(marks(seen), [0, 0, 0, 5, 6]);
    }

    #[test]
    fn transactions_that_are_prepared_all_the_time_do_not_hold_it_up_for_ever() {
        let mut mark = Mark::default();
        for n in 0..100 {
            let holders = [format!("{n}/1"), format!("-1/{n}"), format!("-1/{}", n + 1)];
            mark.observe(n, holders.into());
        }
        assert!(mark.complete() > 90, "{mark:?}");
    }

    /// Random appenders that draw numbers, prepare, commit and roll back in any order: whenever a mark is complete, no number up to it is open.
    #[test]
    fn no_number_below_the_mark_is_open() {
        let mut dice = 88_172_645_463_325_252_u64;
        let mut roll = move |below: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            usize::try_from(dice % u64::try_from(below).unwrap()).unwrap()
        };
        for _ in 0..200 {
            let (mut mark, mut last, mut names) = (Mark::default(), 0, 0);
            let mut open: Vec<(String, Vec<i64>)> = Vec::new();
            for _ in 0..200 {
                match roll(6) {
                    0 => {
                        names += 1;
                        open.push((format!("3/{names}"), Vec::new()));
                    }
                    1 if !open.is_empty() => {
                        last += 1;
                        let at = roll(open.len());
                        open[at].1.push(last);
                    }
                    2 if !open.is_empty() => {
                        names += 1;
                        let at = roll(open.len());
                        if !is_prepared(&open[at].0) {
                            open[at].0 = format!("-1/{names}");
                        }
                    }
                    3 if !open.is_empty() => drop(open.remove(roll(open.len()))),
                    _ => {
                        mark.observe(last, open.iter().map(|(name, _)| name.clone()).collect());
                        let lowest = open.iter().flat_map(|(_, drawn)| drawn).min().copied();
                        assert!(lowest.is_none_or(|lowest| lowest > mark.complete()), "{mark:?} {open:?}");
                    }
                }
            }
        }
    }
}
