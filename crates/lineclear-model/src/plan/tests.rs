//! The planner's decisions, tick by tick and by their invariants.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    Exclusion, Misfire, MisfirePolicy, Schedule,
    rules::Excluded::{Defer, Skip as Drop},
};

fn at(text: &str) -> Micros {
    text.parse::<jiff::Timestamp>().unwrap().into()
}

fn key() -> Name {
    Name::new("etl").unwrap()
}

fn hourly() -> Rules {
    Rules::new(Schedule::cron("0 * * * *", "UTC").unwrap())
}

fn night(excluded: Excluded) -> Rules {
    let exclude = vec![serde_json::from_str::<Exclusion>(r#"{"daily":"22:00-06:00"}"#).unwrap()];
    Rules { exclude, excluded, ..hourly() }
}

fn with_policy(rules: Rules, policy: MisfirePolicy, max: Option<u32>) -> Rules {
    Rules { misfire: Misfire { policy, max, ..Misfire::default() }, ..rules }
}

/// A decision in short: fired and skipped ticks as hours and minutes.
fn short(decision: &Decision) -> (Vec<String>, Vec<String>) {
    let time = |at: Micros| at.to_string()[11..16].to_owned();
    let fire = decision.fire.iter().map(|tick| time(tick.tick_at)).collect();
    let skip =
        |skip: &Skip| format!("{}-{} {}", time(skip.from_tick_at), time(skip.until_tick_at), skip.reason);
    (fire, decision.skips.iter().map(skip).collect())
}

#[track_caller]
fn assert_decision(rules: &Rules, from: &str, now: &str, fire: &[&str], skips: &[&str]) -> Decision {
    let decision = decide(rules, &key(), at(from), at(now), 100);
    let (fired, skipped) = short(&decision);
    assert_eq!(fired, fire);
    assert_eq!(skipped, skips);
    decision
}

#[test]
fn a_tick_fires_when_its_time_has_come() {
    let decision = assert_decision(&hourly(), "2026-01-01T00:30:00Z", "2026-01-01T00:59:59Z", &[], &[]);
    assert_eq!(decision.next_due_at, Some(at("2026-01-01T01:00:00Z")));
    let decision =
        assert_decision(&hourly(), "2026-01-01T00:59:59Z", "2026-01-01T01:00:00Z", &["01:00"], &[]);
    assert_eq!(decision.planned_through, at("2026-01-01T01:00:00Z"));
    assert_eq!(decision.next_due_at, Some(at("2026-01-01T02:00:00Z")));
}

#[test]
fn a_late_tick_fires_and_a_missed_one_follows_the_policy() {
    let (from, now) = ("2026-01-01T00:30:00Z", "2026-01-01T05:01:00Z");
    assert_decision(&hourly(), from, now, &["04:00", "05:00"], &["01:00-03:00 missed"]);
    let skip = with_policy(hourly(), MisfirePolicy::Skip, None);
    assert_decision(&skip, from, now, &["05:00"], &["01:00-04:00 missed"]);
    let catch_up = with_policy(hourly(), MisfirePolicy::CatchUp, Some(2));
    assert_decision(&catch_up, from, now, &["03:00", "04:00", "05:00"], &["01:00-02:00 missed"]);
    let now = "2026-01-01T05:01:00.000001Z";
    assert_decision(&hourly(), from, now, &["05:00"], &["01:00-04:00 missed"]);
    assert_decision(&skip, from, now, &[], &["01:00-05:00 missed"]);
}

#[test]
fn an_excluded_tick_is_a_recorded_skip_and_does_not_fire_afterwards() {
    let (from, now) = ("2026-01-01T20:30:00Z", "2026-01-02T06:00:00Z");
    let rules = night(Drop);
    assert_decision(&rules, from, now, &["21:00", "06:00"], &["22:00-05:00 excluded"]);
    let decision = assert_decision(
        &rules,
        "2026-01-01T21:30:00Z",
        "2026-01-01T22:00:00Z",
        &[],
        &["22:00-22:00 excluded"],
    );
    assert_eq!(decision.next_due_at, Some(at("2026-01-01T23:00:00Z")));
}

#[test]
fn a_deferred_tick_fires_when_the_excluded_time_is_over() {
    let rules = night(Defer);
    let decision = assert_decision(&rules, "2026-01-01T21:00:00Z", "2026-01-01T23:30:00Z", &[], &[]);
    assert_eq!(decision.planned_through, at("2026-01-01T21:59:59.999999Z"));
    assert_eq!(decision.next_due_at, Some(at("2026-01-02T06:00:00Z")), "there is nothing to do before that");
    let decision = assert_decision(
        &rules,
        "2026-01-01T21:59:59.999999Z",
        "2026-01-02T06:00:30Z",
        &["05:00", "06:00"],
        &["22:00-04:00 excluded"],
    );
    assert_eq!(decision.next_due_at, Some(at("2026-01-02T07:00:00Z")));
    assert_eq!(decision.fire[0].due_at, at("2026-01-02T06:00:00Z"));
    // Long after it, the deferred tick is one of the missed ones.
    let skips = ["22:00-05:00 excluded", "06:00-08:00 missed"];
    assert_decision(&rules, "2026-01-01T21:30:00Z", "2026-01-02T09:30:00Z", &["09:00"], &skips);
}

#[test]
fn a_missed_tick_that_is_excluded_does_not_stand_for_the_others() {
    let skips = ["18:00-20:00 missed", "22:00-03:00 excluded"];
    assert_decision(&night(Drop), "2026-01-01T17:30:00Z", "2026-01-02T03:30:00Z", &["21:00"], &skips);
}

#[test]
fn one_pass_fires_no_more_than_it_may_and_the_next_goes_on() {
    let rules = with_policy(hourly(), MisfirePolicy::CatchUp, Some(24));
    let now = at("2026-01-02T00:30:00Z");
    let first = decide(&rules, &key(), at("2026-01-01T00:30:00Z"), now, 10);
    assert_eq!(first.fire.len(), 10);
    assert_eq!(first.planned_through, first.fire[9].tick_at);
    assert_eq!(first.next_due_at, Some(at("2026-01-01T11:00:00Z")), "already due");
    let second = decide(&rules, &key(), first.planned_through, now, 100);
    assert_eq!(second.fire[0].tick_at, at("2026-01-01T11:00:00Z"));
    assert_eq!(second.fire.len(), 14);
    assert_eq!(second.planned_through, now);
}

#[test]
fn a_year_without_a_planner_costs_nothing() {
    let rules = Rules {
        exclude: vec![serde_json::from_str(r#"{"weekdays":["sat","sun"]}"#).unwrap()],
        ..Rules::new(Schedule::every(Duration::from_secs(1)).unwrap())
    };
    let (from, now) = (at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
    let started = std::time::Instant::now();
    let decision = decide(&rules, &key(), from, now, 1000);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(decision.fire.len(), 62, "the newest missed tick and the last 61 seconds");
    assert_eq!(decision.skips.len(), 105, "52 weekends and the weeks around them");
    let without = Rules { exclude: vec![], ..rules };
    assert_eq!(decide(&without, &key(), from, now, 1000).skips.len(), 1);
}

#[test]
fn too_many_ranges_are_decided_in_several_passes() {
    let (mut through, now) = (at("2020-01-01T00:30:00Z"), at("2026-01-01T12:30:00Z"));
    let (mut passes, mut fired) = (0, Vec::new());
    while through < now {
        let decision = decide(&night(Drop), &key(), through, now, 10);
        assert!(decision.planned_through > through, "every pass gets on");
        assert!(decision.skips.len() <= SKIPS_MAX);
        fired.extend(decision.fire);
        through = decision.planned_through;
        passes += 1;
    }
    assert_eq!(passes, 5);
    assert_eq!(fired.iter().map(|tick| tick.tick_at).collect::<Vec<_>>(), [at("2026-01-01T12:00:00Z")]);
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let through = at("2026-01-01T05:00:00Z");
    let decision = decide(&hourly(), &key(), through, at("2026-01-01T01:30:00Z"), 10);
    assert_eq!((decision.fire.len(), decision.skips.len(), decision.planned_through), (0, 0, through));
}

#[test]
fn once_fires_even_if_its_moment_has_passed_when_it_is_declared() {
    let once = Rules::new(Schedule::once(at("2026-01-01T09:00:00Z")).unwrap());
    let start = plan_start(&once, at("2026-01-01T10:00:00Z"));
    assert_eq!(start.next_due_at, Some(at("2026-01-01T09:00:00Z")));
    let decision = decide(&once, &key(), start.planned_through, at("2026-01-01T10:00:00Z"), 10);
    assert_eq!((decision.fire.len(), decision.next_due_at), (1, None));
    let skip = with_policy(once, MisfirePolicy::Skip, None);
    let decision = decide(&skip, &key(), start.planned_through, at("2026-01-01T10:00:00Z"), 10);
    assert_eq!((decision.fire.len(), decision.skips.len()), (0, 1));
    assert_eq!(
        plan_start(&hourly(), at("2026-01-01T10:00:00Z")).next_due_at,
        Some(at("2026-01-01T11:00:00Z"))
    );
}

#[test]
fn a_schedule_without_ticks_is_never_due() {
    let decision =
        decide(&Rules::new(Schedule::on_demand()), &key(), Micros::EPOCH, at("2026-01-01T00:00:00Z"), 10);
    assert_eq!((decision.fire.len(), decision.skips.len(), decision.next_due_at), (0, 0, None));
}

#[test]
fn jitter_moves_the_due_moment_and_not_the_tick() {
    let rules = Rules { jitter: Duration::from_secs(600), ..hourly() };
    let decision = decide(&rules, &key(), at("2026-01-01T00:30:00Z"), at("2026-01-01T01:00:00Z"), 10);
    assert_eq!(decision.fire[0].tick_at, at("2026-01-01T01:00:00Z"));
    assert_eq!(decision.fire[0].due_at, rules.due_at(&key(), decision.fire[0].tick_at));
    assert!(decision.fire[0].due_at > decision.fire[0].tick_at);
}

#[test]
fn a_preview_is_what_a_planner_that_always_looks_would_fire() {
    let (from, to) = (at("2026-01-01T20:30:00Z"), at("2026-01-02T07:30:00Z"));
    for (excluded, expected) in
        [(Drop, vec!["21:00", "06:00", "07:00"]), (Defer, vec!["21:00", "05:00", "06:00", "07:00"])]
    {
        let fire = ticks_between(&night(excluded), &key(), from, to, 100);
        let (fired, _) = short(&Decision { fire, skips: vec![], planned_through: to, next_due_at: None });
        assert_eq!(fired, expected);
    }
    assert_eq!(ticks_between(&hourly(), &key(), from, to, 3).len(), 3);
}

#[test]
fn looking_ahead_finds_what_a_preview_finds_and_gives_up_where_all_is_excluded() {
    let from = at("2026-01-01T20:30:00Z");
    for excluded in [Drop, Defer] {
        let ahead = preview(&night(excluded), &key(), from, 40);
        let fire = ticks_between(&night(excluded), &key(), from, Micros::EPOCH.offset(i64::MAX), 40);
        assert_eq!((ahead.ticks, ahead.excluded_through), (fire, None));
    }
    let sundays: Exclusion = serde_json::from_str(r#"{"weekdays":["sun"]}"#).unwrap();
    let weekly = Rules::new(Schedule::cron("0 3 * * 0", "UTC").unwrap());
    let mut rules = Rules { exclude: vec![sundays], ..weekly };
    let ahead = preview(&rules, &key(), from, 40);
    assert_eq!(ahead.ticks, []);
    let through = ahead.excluded_through.expect("it gives up").to_string();
    assert!(through.starts_with("2217-"), "10,000 Sundays later: {through}");
    // Many dates to compare with make a step longer, so there are fewer.
    let dates = format!("[{}]", vec![r#""2026-12-25""#; 400].join(","));
    let dates: Exclusion = serde_json::from_str(&format!(r#"{{"dates":{dates}}}"#)).unwrap();
    rules.exclude.extend(vec![dates; 100]);
    let through = preview(&rules, &key(), from, 40).excluded_through.expect("it gives up").to_string();
    assert!(through.starts_with("2047-"), "{through}");
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let schedule = prop_oneof![
        Just(r#"{"every":"7m"}"#),
        Just(r#"{"cron":"*/20 * * * *","tz":"Europe/Berlin"}"#),
        Just(r#"{"cron":"*/10 1-3 * * *","tz":"Europe/Berlin","gap":"shift","fold":"both"}"#),
        Just(r#"{"cron":"0 30 2 * * *","tz":"Australia/Lord_Howe"}"#),
        Just(r#"{"every":"1h","phase":"10m","start":"2026-10-24T10:00:00Z","end":"2026-10-26T07:00:00Z"}"#),
        Just(r#"{"once":"2026-10-25T01:10:00Z"}"#),
    ];
    let exclude = prop_oneof![
        Just("[]"),
        Just(r#"[{"daily":"22:00-02:20"}]"#),
        Just(r#"[{"weekdays":["sun"]},{"daily":"05:00-05:30"}]"#),
        Just(r#"[{"dates":["2026-10-25"]},{"from":"2026-10-27","to":"2026-10-28"}]"#),
    ];
    let policy = prop_oneof![
        Just(r#"{}"#),
        Just(r#"{"policy":"skip","threshold":"10m"}"#),
        Just(r#"{"policy":"catch_up","max":4,"threshold":"1h"}"#),
    ];
    (schedule, exclude, policy, any::<bool>()).prop_map(|(schedule, exclude, misfire, defer)| Rules {
        exclude: serde_json::from_str(exclude).unwrap(),
        excluded: if defer { Defer } else { Drop },
        misfire: serde_json::from_str(misfire).unwrap(),
        ..Rules::new(serde_json::from_str(schedule).unwrap())
    })
}

/// Runs the planner at each of these moments, and counts for every tick how often it was fired or skipped.
fn run(
    rules: &Rules,
    from: Micros,
    moments: &[Micros],
    most: usize,
) -> (BTreeMap<Micros, usize>, Vec<Micros>, Micros) {
    let (mut times, mut fired, mut through) = (BTreeMap::new(), Vec::new(), from);
    for &now in moments {
        let decision = decide(rules, &key(), through, now, most);
        assert!(decision.planned_through >= through, "planned_through never goes back");
        assert!(decision.fire.len() <= most);
        for tick in &decision.fire {
            *times.entry(tick.tick_at).or_default() += 1;
            fired.push(tick.tick_at);
        }
        for skip in &decision.skips {
            let range =
                rules.schedule.ticks_between(skip.from_tick_at.offset(-1), skip.until_tick_at, 100_000);
            assert_eq!((range.first(), range.last()), (Some(&skip.from_tick_at), Some(&skip.until_tick_at)));
            for tick in range {
                *times.entry(tick).or_default() += 1;
            }
        }
        through = decision.planned_through;
    }
    (times, fired, through)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_tick_is_fired_or_skipped_exactly_once(
        rules in any_rules(),
        mut moments in prop::collection::vec(0i64..5 * 86_400, 1..20),
        most in 1usize..40,
    ) {
        moments.sort();
        let from = at("2026-10-23T12:34:56Z");
        let moments: Vec<Micros> = moments.into_iter().map(|s| from.offset(s * 1_000_000)).collect();
        let (times, fired, through) = run(&rules, from, &moments, most);
        let expected = rules.schedule.ticks_between(from, through, 100_000);
        prop_assert_eq!(times.keys().copied().collect::<Vec<_>>(), expected);
        prop_assert!(times.values().all(|&n| n == 1), "each once");
        prop_assert!(fired.windows(2).all(|pair| pair[0] < pair[1]), "oldest first");
    }

    #[test]
    fn it_does_not_matter_how_often_the_planner_looks_within_the_threshold(
        rules in any_rules(),
        start in 0i64..4 * 86_400,
        steps in prop::collection::vec(1i64..50, 1..80),
    ) {
        let rules = Rules { misfire: Misfire::default(), ..rules };
        let from = at("2026-10-23T12:34:56Z").offset(start * 1_000_000);
        let seconds = 1..=steps.iter().sum();
        let every_second: Vec<Micros> = seconds.map(|s| from.offset(s * 1_000_000)).collect();
        let mut now = from;
        let now_and_then: Vec<Micros> = steps
            .iter()
            .map(|step| {
                now = now.offset(step * 1_000_000);
                now
            })
            .collect();
        let often = run(&rules, from, &every_second, 1000);
        let seldom = run(&rules, from, &now_and_then, 1000);
        prop_assert_eq!(often, seldom);
    }
}
