//! Cron expressions against plain definitions of their rules.

use proptest::prelude::*;

use super::*;

/// The dates from 2001 to 2028 (every kind of year) on which an expression for midnight matches.
fn dates(days: &str) -> Vec<Date> {
    let cron = Cron::new(&format!("0 0 {days}")).unwrap();
    let (mut at, end) = (wall_of(date(2001, 1, 1)), wall_of(date(2029, 1, 1)));
    let mut dates = Vec::new();
    while let Some(wall) = cron.first_in(at, end) {
        dates.push(date_of(wall / DAY).unwrap());
        at = wall + 1;
    }
    let mut back = Vec::new();
    let (start, mut until) = (wall_of(date(2001, 1, 1)), end);
    while let Some(wall) = cron.last_in(start, until) {
        back.push(date_of(wall / DAY).unwrap());
        until = wall;
    }
    back.reverse();
    assert_eq!(dates, back, "{days}: both directions find the same");
    dates
}

fn all_dates() -> impl Iterator<Item = Date> {
    date(2001, 1, 1).series(jiff::Span::new().days(1)).take_while(|date| date.year() < 2029)
}

fn is_workday(date: Date) -> bool {
    date.weekday().to_monday_zero_offset() < 5
}

#[test]
fn special_days_are_what_they_are_called() {
    let nearest = |to: Date| {
        let candidates = [0, -1, 1, -2, 2].map(|days| to.saturating_add(jiff::Span::new().days(days)));
        candidates.into_iter().find(|day| is_workday(*day) && day.month() == to.month()).unwrap()
    };
    let only = |keep: &dyn Fn(Date) -> bool| all_dates().filter(|&date| keep(date)).collect::<Vec<_>>();
    assert_eq!(dates("L * *"), only(&|d| d == d.last_of_month()));
    assert_eq!(
        dates("LW * *"),
        only(&|d| {
            let week = (0..7).map(|back| d.last_of_month() - jiff::Span::new().days(back));
            Some(d) == week.into_iter().find(|day| is_workday(*day))
        })
    );
    for day in [1i8, 15, 31] {
        assert_eq!(
            dates(&format!("{day}W * *")),
            only(&|d| { d.days_in_month() >= day && nearest(d.with().day(day).build().unwrap()) == d })
        );
    }
    let weekday = |d: Date| d.weekday().to_sunday_zero_offset();
    assert_eq!(dates("* * 5L"), only(&|d| weekday(d) == 5 && d.day() + 7 > d.days_in_month()));
    assert_eq!(dates("* * 7#L"), only(&|d| weekday(d) == 0 && d.day() + 7 > d.days_in_month()));
    for nth in 1..=5i8 {
        assert_eq!(
            dates(&format!("* * mon#{nth}")),
            only(&|d| weekday(d) == 1 && (d.day() - 1) / 7 + 1 == nth)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn day_fields_match_as_in_vixie_cron(
        day in prop::option::of(prop::collection::btree_set(1i8..=28, 1..4)),
        month in prop::option::of(prop::collection::btree_set(1i8..=12, 1..4)),
        weekday in prop::option::of(prop::collection::btree_set(0i8..=7, 1..4)),
    ) {
        let text = |set: &Option<std::collections::BTreeSet<i8>>| match set {
            Some(set) => set.iter().map(i8::to_string).collect::<Vec<_>>().join(","),
            None => "*".into(),
        };
        let expected: Vec<Date> = all_dates().filter(|date| {
            let on_day = day.as_ref().map(|days| days.contains(&date.day()));
            let sunday_zero = date.weekday().to_sunday_zero_offset();
            let on_weekday = weekday.as_ref().map(|days| {
                days.contains(&sunday_zero) || (sunday_zero == 0 && days.contains(&7))
            });
            let in_month = month.as_ref().is_none_or(|months| months.contains(&date.month()));
            in_month && match (on_day, on_weekday) {
                (Some(on_day), Some(on_weekday)) => on_day || on_weekday,
                (one, other) => one.or(other).unwrap_or(true),
            }
        }).collect();
        prop_assert_eq!(dates(&format!("{} {} {}", text(&day), text(&month), text(&weekday))), expected);
    }

    #[test]
    fn times_of_day_are_found_in_both_directions(
        expression in "(\\*|\\*/7|5,50|0) (\\*|\\*/13|0,59|30) (\\*|3|\\*/5|0,23) \\* \\* \\*",
        second in 0i64..86_400,
    ) {
        let cron = Cron::new(&expression).unwrap();
        let matches = |second: i64| {
            let (h, m, s) = (second / 3600 % 24, second / 60 % 60, second % 60);
            let pattern = &cron.croner.pattern;
            let as_u32 = |n: i64| u32::try_from(n).unwrap();
            pattern.hour_match(as_u32(h)).unwrap()
                && pattern.minute_match(as_u32(m)).unwrap()
                && pattern.second_match(as_u32(s)).unwrap()
        };
        let day = 20_000 * DAY;
        let next = (second..second + DAY).find(|&second| matches(second)).map(|second| day + second);
        prop_assert_eq!(cron.first_in(day + second, day + 3 * DAY), next);
        let last = (second - DAY..second).rev().find(|&s| matches(s + DAY)).map(|second| day + second);
        prop_assert_eq!(cron.last_in(day - 3 * DAY, day + second), last);
    }
}
