//! The checker finds what is planted, and nothing else.

use super::*;

fn event(text: &str) -> Event {
    text.parse().unwrap()
}

fn found(lines: &[&str]) -> Vec<Violation> {
    check(lines.iter().map(|line| event(line)).collect(), Duration::from_micros(100))
}

const GOOD: [&str; 8] = [
    "lock asked 0 10 a report",
    "lock asked 0 11 b report",
    "lock held 1 12 a report",
    "lock held 1 13 c another name",
    "lock ended 1 20 a report",
    "lock held 3 21 b report",
    "lock ended 3 30 b report",
    "lock ended 1 40 c another name",
];

#[test]
fn events_are_lines_of_text() {
    for line in GOOD {
        assert_eq!(event(line).to_string(), line);
    }
    for bad in ["", "lock", "lock held x 1 a b", "lock lost 1 1 a b", "key held 1 1 a b", "lock held 1 1 a"] {
        assert!(bad.parse::<Event>().is_err(), "{bad}");
    }
}

#[test]
fn a_good_history_is_good_in_any_order() {
    assert_eq!(found(&GOOD), []);
    let mut backwards = GOOD;
    backwards.reverse();
    assert_eq!(found(&backwards), []);
}

#[test]
fn two_holders_at_once_are_found() {
    let lines = ["lock held 1 10 a x", "lock held 2 15 b x", "lock ended 1 16 a x", "lock ended 2 20 b x"];
    let [Violation::TwoHolders { first, second }] = &found(&lines)[..] else { panic!("{:?}", found(&lines)) };
    assert_eq!((first.contender.as_str(), second.contender.as_str()), ("a", "b"));
    // On two names it is no fault.
    assert_eq!(found(&["lock held 1 10 a x", "lock held 2 15 b y"]), []);
}

#[test]
fn a_holder_that_never_ended_is_in_the_way_of_all_later_ones() {
    let lines = ["lock held 1 10 a x", "lock held 2 15 b x", "lock ended 2 20 b x", "lock held 3 30 c x"];
    assert_eq!(found(&lines).len(), 2);
}

#[test]
fn epochs_that_repeat_or_go_back_are_found() {
    for second in [1, 2] {
        let lines = [
            "lock held 2 10 a x".to_owned(),
            "lock ended 2 11 a x".to_owned(),
            format!("lock held {second} 12 b x"),
            format!("lock ended {second} 13 b x"),
        ];
        let found = found(&lines.each_ref().map(String::as_str));
        assert!(matches!(found[..], [Violation::EpochNotHigher { .. }]), "{found:?}");
    }
}

#[test]
fn who_waits_too_long_while_others_are_served_starves() {
    let lines = ["lock asked 0 10 a x", "lock held 1 20 b x", "lock ended 1 30 b x", "lock held 2 200 a x"];
    assert!(matches!(found(&lines)[..], [Violation::Starved { .. }]));
    // Never served at all, and asking again and again.
    let lines = ["lock asked 0 10 a x", "lock asked 0 50 a x", "lock held 1 20 b x", "lock ended 1 120 b x"];
    assert!(matches!(found(&lines)[..], [Violation::Starved { .. }]));
    // No contender was served: the store was away.
    assert_eq!(found(&["lock asked 0 10 a x", "lock held 2 200 a x"]), []);
}

#[test]
fn an_end_without_a_beginning_is_senseless() {
    assert!(matches!(found(&["lock ended 1 10 a x"])[..], [Violation::EndWithoutStart(_)]));
}
