//! Checks that each tick ran once, by the output of its commands and by the history.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// A tick: a manifest's key and a second.
type Tick = (String, i64);

/// How long it may take from the end of a command to the record of it. A server that dies in between cannot know
/// whether the work was done, and it is done again: handlers run at least once.
const RECORDED_WITHIN: f64 = 5.0;

/// A line that a command wrote.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) what: What,
    pub(super) tick: Tick,
    pub(super) claim: i32,
    /// The server's process.
    pub(super) server: u32,
    pub(super) at: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Begin,
    End,
    /// Another one held the lock of this tick.
    Twice,
}

impl FromStr for Mark {
    type Err = String;

    fn from_str(line: &str) -> Result<Mark, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let &[what, key, tick, claim, server, at] = words.as_slice() else { return Err(line.to_owned()) };
        let what = match what {
            "begin" => What::Begin,
            "end" => What::End,
            "twice" => What::Twice,
            _ => return Err(line.to_owned()),
        };
        let tick: jiff::Timestamp = tick.parse().map_err(|_| line.to_owned())?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| line.to_owned());
        Ok(Mark {
            what,
            tick: (key.to_owned(), tick.as_second()),
            claim: claim.parse().map_err(|_| line.to_owned())?,
            server: number(server)?,
            at: at.parse().map_err(|_| line.to_owned())?,
        })
    }
}

/// A claim that ended, from the history.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) key: String,
    pub(super) tick: i64,
    pub(super) no: i32,
    pub(super) outcome: String,
    pub(super) is_final: bool,
}

/// When a server was killed, or from when to when it was frozen. Its commands may continue for a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Away {
    pub(super) pid: u32,
    pub(super) since: f64,
    pub(super) until: f64,
}

/// All violations, in words.
pub(super) fn judge(
    due: impl Iterator<Item = Tick>,
    marks: &[Mark],
    claims: &[Claim],
    away: &[Away],
) -> Vec<String> {
    let due: BTreeSet<Tick> = due.collect();
    let mut written: BTreeMap<&Tick, Vec<&Mark>> = BTreeMap::new();
    for mark in marks {
        written.entry(&mark.tick).or_default().push(mark);
    }
    let mut recorded: BTreeMap<Tick, Vec<&Claim>> = BTreeMap::new();
    for claim in claims {
        recorded.entry((claim.key.clone(), claim.tick)).or_default().push(claim);
    }
    let seen = written.keys().copied().chain(recorded.keys());
    let surplus = seen.filter(|tick| !due.contains(*tick)).map(|tick| format!("{tick:?}: was never due"));
    let mut faults: Vec<String> = surplus.collect();
    for tick in &due {
        let (marks, claims) =
            (written.remove(tick).unwrap_or_default(), recorded.remove(tick).unwrap_or_default());
        let story = || format!("{tick:?}: {marks:?} {claims:?}");
        faults.extend(of_one(&marks, &claims, away).map(|fault| format!("{fault}: {}", story())));
    }
    faults
}

/// The violations of one tick.
fn of_one(marks: &[&Mark], claims: &[&Claim], away: &[Away]) -> impl Iterator<Item = &'static str> {
    let completed: Vec<_> =
        claims.iter().filter(|claim| claim.outcome == "completed" && claim.is_final).collect();
    let of = |what: What, no: i32| marks.iter().filter(move |mark| mark.what == what && mark.claim == no);
    let last = claims.iter().map(|claim| claim.no).max();
    let done_by = completed.first().map_or(0, |claim| claim.no);
    let numbers: Vec<i32> =
        marks.iter().filter(|mark| mark.what == What::Begin).map(|mark| mark.claim).collect();
    // In the order in which they were written: nothing of an earlier claim after the beginning of a later one.
    let in_order = marks.windows(2).all(|pair| pair[0].claim <= pair[1].claim);
    let is_lost = |no: i32| claims.iter().any(|claim| claim.no == no && claim.outcome == "lost");
    let was_away = |mark: &Mark| {
        let of_its_server = away.iter().filter(|away| away.pid == mark.server);
        of_its_server.clone().any(|away| {
            let began_before = mark.what == What::Begin && mark.at <= away.until;
            began_before || (away.since - RECORDED_WITHIN..=away.until).contains(&mark.at)
        })
    };
    let in_vain = || marks.iter().filter(|mark| mark.claim != done_by);
    [
        (completed.len() != 1, "not completed once by the history"),
        (of(What::Begin, done_by).count() != 1, "the completed claim did not begin once"),
        (of(What::End, done_by).count() != 1, "the completed claim did not end once"),
        (last != Some(done_by), "claimed again after it was completed"),
        (marks.iter().any(|mark| mark.what == What::Twice), "run twice at the same time"),
        (!numbers.windows(2).all(|pair| pair[0] < pair[1]), "run again without a higher claim number"),
        (!in_order, "an earlier claim ran beside a later one"),
        (!in_vain().all(|mark| is_lost(mark.claim)), "run in vain, and not recorded as lost"),
        (!in_vain().all(|mark| was_away(mark)), "run again, though its server was neither killed nor frozen"),
    ]
    .into_iter()
    .filter_map(|(is_so, fault)| is_so.then_some(fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(marks: &[&str], claims: &[(i32, &str)], away: &[Away]) -> String {
        let marks: Vec<Mark> = marks.iter().map(|line| line.parse().unwrap()).collect();
        let claim = |&(no, outcome): &(i32, &str)| Claim {
            key: "a".to_owned(),
            tick: 0,
            no,
            outcome: outcome.to_owned(),
            is_final: outcome == "completed",
        };
        let claims: Vec<Claim> = claims.iter().map(claim).collect();
        judge([("a".to_owned(), 0)].into_iter(), &marks, &claims, away).join("\n")
    }

    const AWAY: [Away; 1] = [Away { pid: 7, since: 20.0, until: 21.0 }];

    #[test]
    fn the_judge_accepts_a_tick_that_ran_once_or_again_after_a_kill() {
        let once = ["begin a 1970-01-01T00:00:00Z 1 7 10.0", "end a 1970-01-01T00:00:00Z 1 7 10.2"];
        assert_eq!(judged(&once, &[(1, "completed")], &[]), "");
        let interrupted = [
            "begin a 1970-01-01T00:00:00Z 1 7 19.0",
            "begin a 1970-01-01T00:00:00Z 2 8 25.0",
            "end a 1970-01-01T00:00:00Z 2 8 25.2",
        ];
        assert_eq!(judged(&interrupted, &[(1, "lost"), (2, "completed")], &AWAY), "");
    }

    #[test]
    fn the_judge_finds_every_violation() {
        let [begin, end] = ["begin a 1970-01-01T00:00:00Z 1 7 10.0", "end a 1970-01-01T00:00:00Z 1 7 10.2"];
        let [begin_2, end_2] =
            ["begin a 1970-01-01T00:00:00Z 2 8 25.0", "end a 1970-01-01T00:00:00Z 2 8 25.2"];
        let twice = "twice a 1970-01-01T00:00:00Z 2 8 10.1";
        let late_end = "end a 1970-01-01T00:00:00Z 1 7 25.1";
        let other = "begin a 1970-01-01T00:00:01Z 1 7 10.0";
        type Case<'a> = (&'a str, &'a [&'a str], &'a [(i32, &'a str)]);
        let cases: [Case<'_>; 11] = [
            ("not completed once", &[], &[]),
            ("not completed once", &[begin, end], &[(1, "lost")]),
            ("not completed once", &[begin, end, begin_2, end_2], &[(1, "completed"), (2, "completed")]),
            ("did not begin once", &[begin, begin, end], &[(1, "completed")]),
            ("did not end once", &[begin], &[(1, "completed")]),
            ("claimed again", &[begin, end], &[(1, "completed"), (2, "lost")]),
            ("at the same time", &[begin, twice, end], &[(1, "completed")]),
            ("a higher claim number", &[begin_2, begin, end], &[(1, "lost"), (2, "completed")]),
            ("beside a later one", &[begin, begin_2, late_end, end_2], &[(1, "lost"), (2, "completed")]),
            ("not recorded as lost", &[begin, end, begin_2, end_2], &[(2, "completed")]),
            ("was never due", &[begin, end, other], &[(1, "completed")]),
        ];
        for (fault, marks, claims) in cases {
            let found = judged(marks, claims, &AWAY);
            assert!(found.contains(fault), "{fault} in {marks:?} {claims:?}: {found}");
        }
        // It ended long before its server was killed, so it must not run again.
        let found = judged(&[begin, end, begin_2, end_2], &[(1, "lost"), (2, "completed")], &AWAY);
        assert!(found.contains("neither killed nor frozen"), "{found}");
        let found = judged(&[begin, begin_2, end_2], &[(1, "lost"), (2, "completed")], &[]);
        assert!(found.contains("neither killed nor frozen"), "{found}");
    }
}
