//! The gap and fold rules, checked at every transition of every zone from 1970 to 2037.
//!
//! The oracle goes the other way round: it walks the local minutes around a transition one by one, asks
//! `jiff` about each, and applies the rule to it. It shares no code with the search by stretches.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{
    Timestamp, ToSpan,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

use super::*;

/// A cron that only restricts hour and minute, and the same rule in plain Rust.
struct Case {
    expression: &'static str,
    matches: fn(i8, i8) -> bool,
    every_hour: bool,
}

const CASES: [Case; 7] = [
    Case { expression: "*/10 * * * *", matches: |_, m| m % 10 == 0, every_hour: true },
    Case { expression: "7 0-23 * * *", matches: |_, m| m == 7, every_hour: true },
    Case { expression: "30 2 * * *", matches: |h, m| h == 2 && m == 30, every_hour: false },
    Case { expression: "0 0 * * *", matches: |h, m| h == 0 && m == 0, every_hour: false },
    Case { expression: "*/7 0-3 * * *", matches: |h, m| h <= 3 && m % 7 == 0, every_hour: false },
    Case {
        expression: "0,30 1-22 * * *",
        matches: |h, m| (1..=22).contains(&h) && m % 30 == 0,
        every_hour: false,
    },
    Case { expression: "59 */2 * * *", matches: |h, m| h % 2 == 0 && m == 59, every_hour: false },
];

struct Transition {
    zone: TimeZone,
    at: Timestamp,
    before: i32,
    after: i32,
}

/// Every transition that moves the clock, each moment and move once, however many zones share it.
fn transitions() -> Vec<Transition> {
    let (from, to): (Timestamp, Timestamp) =
        ("1970-01-01T00:00:00Z".parse().unwrap(), "2037-12-31T00:00:00Z".parse().unwrap());
    let mut distinct = BTreeMap::new();
    for name in zone_names() {
        let zone = find_zone(&name).unwrap();
        for transition in zone.following(from).take_while(|transition| transition.timestamp() < to) {
            let at = transition.timestamp();
            let before = zone.to_offset(at - 1.second()).seconds();
            let after = transition.offset().seconds();
            if before != after {
                distinct.entry((at, before, after)).or_insert_with(|| zone.clone());
            }
        }
    }
    distinct.into_iter().map(|((at, before, after), zone)| Transition { zone, at, before, after }).collect()
}

/// The local minutes around a transition, each with what `jiff` says about it.
fn minutes_around(transition: &Transition) -> Vec<(DateTime, AmbiguousOffset)> {
    let shift = i64::from((transition.after - transition.before).abs());
    let zone = &transition.zone;
    let first = zone.to_datetime(transition.at - 1.second()) - (2 * shift + 4 * 3600).seconds();
    let first = first.date().at(first.hour(), first.minute(), 0, 0);
    let minutes = (4 * shift + 8 * 3600) / 60;
    (0..minutes)
        .map(|minute| first + minute.minutes())
        .map(|local| (local, zone.to_ambiguous_timestamp(local).offset()))
        .collect()
}

/// The ticks of a case by the oracle, in order.
fn oracle(
    case: &Case,
    minutes: &[(DateTime, AmbiguousOffset)],
    transition: &Transition,
    gap: Gap,
    fold: Fold,
) -> BTreeSet<Timestamp> {
    let (gap, fold) = if case.every_hour { (Gap::Skip, Fold::Both) } else { (gap, fold) };
    let mut ticks = BTreeSet::new();
    for &(local, offset) in minutes.iter().filter(|(local, _)| (case.matches)(local.hour(), local.minute())) {
        match offset {
            AmbiguousOffset::Unambiguous { offset } => {
                ticks.insert(offset.to_timestamp(local).unwrap());
            }
            AmbiguousOffset::Gap { before, .. } => {
                let shifted = before.to_timestamp(local).unwrap();
                match gap {
                    Gap::Skip => false,
                    Gap::Shift => ticks.insert(shifted),
                    Gap::NextValid => {
                        let near = transition.zone.following(shifted - 48.hours());
                        ticks.insert(
                            near.map(|t| t.timestamp()).take_while(|&at| at <= shifted).last().unwrap(),
                        )
                    }
                };
            }
            AmbiguousOffset::Fold { before, after } => {
                if fold != Fold::Second {
                    ticks.insert(before.to_timestamp(local).unwrap());
                }
                if fold != Fold::First {
                    ticks.insert(after.to_timestamp(local).unwrap());
                }
            }
        }
    }
    ticks
}

fn check(
    case: &Case,
    minutes: &[(DateTime, AmbiguousOffset)],
    transition: &Transition,
    gap: Gap,
    fold: Fold,
) {
    let what = || {
        let zone = transition.zone.iana_name().unwrap_or_default();
        format!("{} {gap} {fold} in {zone} at {}", case.expression, transition.at)
    };
    let fields = ScheduleFields {
        cron: Some(case.expression.into()),
        tz: transition.zone.iana_name().map(str::to_owned),
        gap: Some(gap),
        fold: Some(fold),
        ..Default::default()
    };
    let schedule = Schedule::new(fields).unwrap();
    // The oracle's window is wider than the one compared, so that nothing moves in or out at its edges.
    let reach = i64::from((transition.after - transition.before).abs()) + 2 * 3600;
    let (from, to) = (transition.at - reach.seconds(), transition.at + reach.seconds());
    let all = oracle(case, minutes, transition, gap, fold);
    let expected: Vec<Micros> = all.range(from..=to).map(|&tick| tick.into()).collect();
    let ticks = schedule.ticks_between(Micros::from(from).offset(-1), to.into(), 10_000);
    assert_eq!(ticks, expected, "{}", what());

    let mut backwards = Vec::new();
    let mut through = Micros::from(to);
    while let Some(tick) = schedule.last_through(through).filter(|&tick| tick >= from.into()) {
        backwards.push(tick);
        through = tick.offset(-1);
    }
    backwards.reverse();
    assert_eq!(backwards, expected, "backwards: {}", what());
}

#[test]
fn every_transition_of_every_zone_follows_the_rules() {
    let transitions = transitions();
    assert!(transitions.len() > 4_000, "the bundled database has been looked at: {}", transitions.len());
    for (n, transition) in transitions.iter().enumerate() {
        let minutes = minutes_around(transition);
        // Each transition gets two of the cases in turn, and odd ones all of them.
        let odd = (transition.after - transition.before).abs() != 3600;
        for (at, case) in CASES.iter().enumerate() {
            if !odd && at != n % CASES.len() && at != (n / 7 + 2) % CASES.len() {
                continue;
            }
            if transition.after > transition.before {
                Gap::ALL.iter().for_each(|&gap| check(case, &minutes, transition, gap, Fold::First));
            } else {
                Fold::ALL.iter().for_each(|&fold| check(case, &minutes, transition, Gap::NextValid, fold));
            }
        }
    }
}

#[test]
fn no_stretch_is_shorter_than_the_shift_at_its_border() {
    // The search takes a gap or fold to concern only the two stretches that meet there. This is where that
    // would break.
    for transition in transitions() {
        let shift = i64::from((transition.after - transition.before).abs());
        for second in [transition.at.as_second() - 1, transition.at.as_second()] {
            let stretch = Stretch::around(&transition.zone, second);
            let name = transition.zone.iana_name().unwrap_or_default();
            assert!(stretch.until - stretch.from > shift, "{name} at {}", transition.at);
        }
    }
}

#[test]
fn the_stretches_of_every_zone_follow_each_other() {
    let from: Timestamp = "1970-01-01T00:00:00Z".parse().unwrap();
    let to: Timestamp = "2050-01-01T00:00:00Z".parse().unwrap();
    for name in zone_names() {
        let zone = find_zone(&name).unwrap();
        let borders: Vec<i64> = zone
            .following(from)
            .map(|t| t.timestamp().as_second())
            .take_while(|&at| at < to.as_second())
            .collect();
        for pair in borders.windows(2) {
            for second in [pair[0], pair[0] + 1, (pair[0] + pair[1]) / 2, pair[1] - 1] {
                let stretch = Stretch::around(&zone, second);
                assert_eq!((stretch.from, stretch.until), (pair[0], pair[1]), "{name} at {second}");
            }
        }
    }
}
