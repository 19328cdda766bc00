//! Schedules: valid and invalid ones, and their ticks.

use super::*;

fn at(text: &str) -> Micros {
    text.parse::<jiff::Timestamp>().unwrap().into()
}

fn cron(expression: &str, tz: &str, gap: Gap, fold: Fold) -> Schedule {
    let (gap, fold) = (Some(gap), Some(fold));
    let fields = ScheduleFields {
        cron: Some(expression.into()),
        tz: Some(tz.into()),
        gap,
        fold,
        ..Default::default()
    };
    Schedule::new(fields).unwrap()
}

fn next(schedule: &Schedule, after: &str, n: usize) -> Vec<String> {
    let ticks = schedule.ticks_between(at(after), at("2100-01-01T00:00:00Z"), n);
    ticks
        .iter()
        .map(|tick| tick.timestamp().to_zoned(schedule.zone().clone()).strftime("%FT%T%:z").to_string())
        .collect()
}

#[test]
fn a_local_time_in_a_gap_follows_the_gap_rule() {
    let ticks = |gap| next(&cron("30 2 * * *", "Europe/Berlin", gap, Fold::First), "2026-03-28T12:00:00Z", 2);
    assert_eq!(ticks(Gap::Skip), ["2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"]);
    assert_eq!(ticks(Gap::NextValid), ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
    assert_eq!(ticks(Gap::Shift), ["2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"]);
}

#[test]
fn a_local_time_in_a_fold_follows_the_fold_rule() {
    let ticks = |fold| next(&cron("30 2 * * *", "Europe/Berlin", Gap::Skip, fold), "2026-10-24T12:00:00Z", 2);
    assert_eq!(ticks(Fold::First), ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]);
    assert_eq!(ticks(Fold::Second), ["2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"]);
    assert_eq!(ticks(Fold::Both), ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]);
}

#[test]
fn ticks_of_both_passes_of_a_fold_are_in_order() {
    let both = cron("0,30 2 * * *", "Europe/Berlin", Gap::Skip, Fold::Both);
    assert_eq!(
        next(&both, "2026-10-24T12:00:00Z", 4),
        [
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00"
        ]
    );
}

#[test]
fn a_shifted_tick_may_pass_a_later_local_time() {
    let shift = cron("30 2,3 * * *", "Europe/Berlin", Gap::Shift, Fold::First);
    assert_eq!(
        next(&shift, "2026-03-28T12:00:00Z", 2),
        ["2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"],
        "02:30 moved to 03:30 and 03:30 itself are one tick"
    );
    let shift = cron("45 2 * * *", "Europe/Berlin", Gap::Shift, Fold::First);
    assert_eq!(next(&shift, "2026-03-29T01:15:00Z", 1), ["2026-03-29T03:45:00+02:00"]);
}

#[test]
fn many_ticks_in_a_gap_are_one_tick_after_it() {
    let quarter_hours = cron("*/15 2 * * *", "Europe/Berlin", Gap::NextValid, Fold::First);
    assert_eq!(
        next(&quarter_hours, "2026-03-28T12:00:00Z", 2),
        ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]
    );
}

#[test]
fn a_cron_for_every_hour_follows_elapsed_time() {
    for expression in ["0 * * * *", "0 0-23 * * *", "0 */1 * * *"] {
        let hourly = cron(expression, "Europe/Berlin", Gap::NextValid, Fold::First);
        assert!(hourly.follows_elapsed_time());
        let ticks = hourly.ticks_between(at("2026-01-01T00:30:00Z"), at("2027-01-01T00:30:00Z"), 10_000);
        assert_eq!(ticks.len(), 365 * 24);
        assert!(ticks.windows(2).all(|pair| pair[1].get() - pair[0].get() == 3600 * SECOND));
    }
    // The half-hour shift of Lord Howe: the minute is still a local one.
    let hourly = cron("0 * * * *", "Australia/Lord_Howe", Gap::NextValid, Fold::First);
    assert_eq!(
        next(&hourly, "2026-10-03T14:30:00Z", 3),
        ["2026-10-04T03:00:00+11:00", "2026-10-04T04:00:00+11:00", "2026-10-04T05:00:00+11:00"]
    );
}

#[test]
fn a_whole_skipped_day_does_not_end_the_schedule() {
    let daily =
        |gap| next(&cron("30 2 * * *", "Pacific/Apia", gap, Fold::First), "2011-12-29T00:00:00-10:00", 3);
    assert_eq!(
        daily(Gap::Skip),
        ["2011-12-29T02:30:00-10:00", "2011-12-31T02:30:00+14:00", "2012-01-01T02:30:00+14:00"]
    );
    assert_eq!(
        daily(Gap::NextValid),
        ["2011-12-29T02:30:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T02:30:00+14:00"]
    );
    assert_eq!(daily(Gap::Shift), daily(Gap::Skip), "the shifted tick and the next day's are one");
}

#[test]
fn midnight_that_does_not_exist_is_the_first_moment_of_the_day() {
    let midnight = cron("0 0 * * *", "Africa/Cairo", Gap::NextValid, Fold::First);
    assert_eq!(
        next(&midnight, "2026-04-23T12:00:00Z", 2),
        ["2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"]
    );
}

#[test]
fn days_match_as_in_vixie_cron() {
    let days = |expression: &str, n| {
        let schedule = Schedule::cron(expression, "UTC").unwrap();
        next(&schedule, "2026-01-31T12:00:00Z", n).iter().map(|t| t[5..10].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(days("0 0 13 * 5", 4), ["02-06", "02-13", "02-20", "02-27"], "either");
    assert_eq!(days("0 0 */2 * 1", 2), ["02-09", "02-23"], "both, since one field starts with *");
    assert_eq!(days("0 0 L * *", 2), ["02-28", "03-31"]);
    assert_eq!(days("0 0 LW * *", 2), ["02-27", "03-31"]);
    assert_eq!(days("0 0 15W * *", 2), ["02-16", "03-16"]);
    assert_eq!(days("0 0 * * mon#1", 2), ["02-02", "03-02"]);
    assert_eq!(days("0 0 * * 7L", 2), ["02-22", "03-29"]);
    assert_eq!(days("0 0 * * fri-sun", 4), ["02-01", "02-06", "02-07", "02-08"]);
}

#[test]
fn an_interval_is_anchored_at_the_epoch_plus_its_phase() {
    let fields = ScheduleFields {
        every: Some(Duration::from_secs(3600)),
        phase: Some(Duration::from_secs(300)),
        ..Default::default()
    };
    let hourly = Schedule::new(fields).unwrap();
    assert_eq!(next(&hourly, "2026-01-01T00:05:00Z", 1), ["2026-01-01T01:05:00+00:00"]);
    assert_eq!(hourly.last_through(at("2026-01-01T00:05:00Z")), Some(at("2026-01-01T00:05:00Z")));
    assert_eq!(hourly.last_through(at("1969-12-31T23:59:59Z")), Some(at("1969-12-31T23:05:00Z")));
}

#[test]
fn start_and_end_are_the_first_and_last_possible_tick() {
    let fields = ScheduleFields {
        cron: Some("0 0 * * *".into()),
        start: Some(at("2026-01-02T00:00:00Z")),
        end: Some(at("2026-01-03T00:00:00Z")),
        ..Default::default()
    };
    let daily = Schedule::new(fields).unwrap();
    let ticks = daily.ticks_between(at("2020-01-01T00:00:00Z"), at("2030-01-01T00:00:00Z"), 9);
    assert_eq!(ticks, [at("2026-01-02T00:00:00Z"), at("2026-01-03T00:00:00Z")]);
    assert_eq!(daily.last_through(at("2030-01-01T00:00:00Z")), Some(ticks[1]));
    assert_eq!(daily.last_through(at("2026-01-01T12:00:00Z")), None);
}

#[test]
fn a_schedule_that_can_never_fire_is_refused() {
    for expression in ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 31 2 */7", "0 0 30 feb ?"] {
        let message = Schedule::cron(expression, "UTC").unwrap_err().to_string();
        assert!(message.contains("never fires"), "{expression}: {message}");
    }
    let (start, end) = (at("2026-01-02T00:00:01Z"), at("2026-01-02T23:00:00Z"));
    let daily = ScheduleFields { cron: Some("0 0 * * *".into()), ..Default::default() };
    let bad = |fields| Schedule::new(fields).unwrap_err().to_string();
    let message = bad(ScheduleFields { start: Some(start), end: Some(end), ..daily.clone() });
    assert!(message.contains("never fires"), "{message}");
    let message = bad(ScheduleFields { start: Some(end), end: Some(start), ..daily });
    assert!(message.contains("before start"), "{message}");
    let once = ScheduleFields { once: Some(end), end: Some(start), ..Default::default() };
    assert!(bad(once).contains("never fires"));
}

#[test]
fn a_rare_schedule_is_found_quickly_or_not_at_all() {
    let rare = Schedule::cron("0 0 29 2 */7", "Europe/Berlin").unwrap();
    assert_eq!(next(&rare, "2060-03-01T00:00:00Z", 1), ["2088-02-29T00:00:00+01:00"]);
    assert_eq!(rare.next_after(at("2088-03-01T00:00:00Z")), Some(at("2128-02-28T23:00:00Z")));
    assert_eq!(rare.last_through(at("2128-02-28T00:00:00Z")), Some(at("2088-02-28T23:00:00Z")));
    assert_eq!(rare.next_after(at("9998-12-31T00:00:00Z")), None);
    assert_eq!(rare.last_through(Micros::EPOCH.offset(i64::MIN)), None);
    assert_eq!(rare.next_after(Micros::EPOCH.offset(i64::MAX)), None);
}

#[test]
fn fields_that_do_not_belong_together_are_refused() {
    let bad = |text: &str| serde_json::from_str::<Schedule>(text).unwrap_err().to_string();
    for (text, part) in [
        (r#"{}"#, "does not say when"),
        (r#"{"cron":"@daily","every":"5m"}"#, "cron and every exclude each other"),
        (r#"{"every":"5m","gap":"skip"}"#, "gap: it only means something with cron"),
        (r#"{"cron":"@daily","phase":"5m"}"#, "phase: it only means something with every"),
        (r#"{"cron":"@daily","dormant":true}"#, "dormant: it only means something with after"),
        (r#"{"on_demand":true,"start":"2026-01-01T00:00:00Z"}"#, "start: it only means something"),
        (r#"{"on_demand":false}"#, "on_demand = true"),
        (r#"{"every":"0s"}"#, "every: 0s is too short"),
        (r#"{"every":"500ms"}"#, "shortest interval is 1s"),
        (r#"{"every":"-5m"}"#, "not a length of time"),
        (r#"{"every":"5m","phase":"5m"}"#, "use less than 5m"),
        (r#"{"after":[]}"#, "names no manifest"),
        (r#"{"after":["a","a"]}"#, "names a twice"),
        (r#"{"cron":"@daily","tz":"Europe/Berln"}"#, "Europe/Berlin"),
        (r#"{"cron":"@daily","when":"now"}"#, "unknown field `when`"),
        (r#"{"once":"tomorrow"}"#, "not a moment"),
        (r#"{"once":"2026-01-01T00:00:00"}"#, "with its offset"),
    ] {
        assert!(bad(text).contains(part), "{text}: {}", bad(text));
    }
}

#[test]
fn a_schedule_survives_being_stored() {
    for text in [
        r#"{"cron":"30 2 * * *","tz":"Europe/Berlin","gap":"shift","fold":"both"}"#,
        r#"{"every":"1h30m","phase":"5m"}"#,
        r#"{"once":"2026-01-01T00:00:00Z"}"#,
        r#"{"on_demand":true}"#,
        r#"{"after":["a","b"],"need":"any","dormant":true}"#,
    ] {
        let schedule: Schedule = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&schedule).unwrap(), text);
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,40}") {
        let _ = Schedule::cron(&text, "UTC");
    }

    #[test]
    fn text_that_looks_like_cron_is_refused_or_has_ticks(
        text in "([0-9*/,LW#?a-uA-U-]{1,6} ){4,5}[0-9*/,LW#?a-z-]{1,6}"
    ) {
        if let Ok(schedule) = Schedule::cron(&text, "America/New_York") {
            let noon = at("2026-01-01T12:00:00Z");
            let tick = schedule.next_after(noon);
            proptest::prop_assert!(tick.is_some(), "{} is accepted and has a next tick", text);
            proptest::prop_assert_eq!(schedule.last_through(tick.unwrap()), tick);
        }
    }
}
