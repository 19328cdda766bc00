//! Times at which a manifest does not fire, in the local time of its schedule.

use jiff::{civil::Date, tz::TimeZone};
use serde::{Deserialize, Serialize};

use crate::{
    Micros,
    job::words,
    schedule::{Stretch, date_of},
    text::DateText,
};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// Most exclusions of one manifest, and most dates in one exclusion.
pub const EXCLUSIONS_MAX: usize = 400;

words! {
    /// A day of the week.
    Weekday {
        /// Monday.
        Monday = "mon",
        /// Tuesday.
        Tuesday = "tue",
        /// Wednesday.
        Wednesday = "wed",
        /// Thursday.
        Thursday = "thu",
        /// Friday.
        Friday = "fri",
        /// Saturday.
        Saturday = "sat",
        /// Sunday.
        Sunday = "sun",
    }
}

/// One exclusion: `{ weekdays = […] }`, `{ dates = […] }`, `{ from = …, to = … }` or `{ daily = "22:00-06:00"
/// }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub enum Exclusion {
    /// These days of the week.
    Weekdays(Vec<Weekday>),
    /// These dates.
    Dates(Vec<Date>),
    /// From one date to another, both included.
    Range {
        /// The first date.
        from: Date,
        /// The last date.
        to: Date,
    },
    /// Every day from one time of day up to, but not including, another; over midnight if the second is
    /// earlier. In seconds since midnight.
    Daily {
        /// The first excluded second.
        from: u32,
        /// The first second that is not excluded any more.
        to: u32,
    },
}

/// A stretch of time in which all moments are excluded, or none is: `from..until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub excluded: bool,
    pub from: Micros,
    pub until: Micros,
}

impl Exclusion {
    fn is_daily(&self) -> bool {
        matches!(self, Exclusion::Daily { .. })
    }

    /// The seconds of a day at which it begins or ends.
    fn edges(&self) -> impl Iterator<Item = i64> + use<> {
        let edges = match self {
            Exclusion::Daily { from, to } => Some([i64::from(*from), i64::from(*to)]),
            _ => None,
        };
        edges.into_iter().flatten()
    }

    /// Whether it covers a second of a day, both in local time.
    fn covers(&self, date: Date, second_of_day: i64) -> bool {
        match self {
            Exclusion::Weekdays(days) => {
                let at = usize::try_from(date.weekday().to_monday_zero_offset()).expect("0 to 6");
                days.contains(&Weekday::ALL[at])
            }
            Exclusion::Dates(dates) => dates.contains(&date),
            Exclusion::Range { from, to } => (*from..=*to).contains(&date),
            Exclusion::Daily { from, to } => {
                let (from, to) = (i64::from(*from), i64::from(*to));
                if from < to {
                    (from..to).contains(&second_of_day)
                } else {
                    second_of_day >= from || second_of_day < to
                }
            }
        }
    }
}

/// Whether exclusions leave no time at all, on any day.
pub(crate) fn leave_nothing(exclusions: &[Exclusion]) -> bool {
    let no_day = Weekday::ALL.iter().all(|day| {
        exclusions
            .iter()
            .any(|exclusion| matches!(exclusion, Exclusion::Weekdays(days) if days.contains(day)))
    });
    let daily: Vec<&Exclusion> = exclusions.iter().filter(|exclusion| exclusion.is_daily()).collect();
    // Between two edges nothing changes, so it is enough to look at each edge and at midnight.
    let mut edges = daily.iter().flat_map(|exclusion| exclusion.edges()).chain([0]).map(|edge| edge % DAY);
    let any_date = Date::constant(2000, 1, 1);
    no_day || edges.all(|edge| daily.iter().any(|exclusion| exclusion.covers(any_date, edge)))
}

/// Whether a moment is excluded.
pub fn is_excluded(exclusions: &[Exclusion], zone: &TimeZone, at: Micros) -> bool {
    piece_around(exclusions, zone, at).excluded
}

/// The piece around a moment. Pieces end at midnight, at the edges of daily windows and where the clock is
/// moved; two neighbours may be alike.
pub(crate) fn piece_around(exclusions: &[Exclusion], zone: &TimeZone, at: Micros) -> Piece {
    let always = Piece {
        excluded: false,
        from: Micros::EPOCH.offset(i64::MIN),
        until: Micros::EPOCH.offset(i64::MAX),
    };
    if exclusions.is_empty() {
        return always;
    }
    let second = at.get().div_euclid(SECOND);
    let stretch = Stretch::around(zone, second);
    let wall = second + stretch.offset;
    let (day, second_of_day) = (wall.div_euclid(DAY), wall.rem_euclid(DAY));
    let Some(date) = date_of(day) else { return always };

    let whole_day = exclusions.iter().any(|exclusion| !exclusion.is_daily() && exclusion.covers(date, 0));
    let (mut from, mut until) = (0, DAY);
    for edge in exclusions.iter().flat_map(Exclusion::edges).filter(|_| !whole_day) {
        if edge <= second_of_day {
            from = from.max(edge);
        } else {
            until = until.min(edge);
        }
    }
    let real =
        |second_of_day: i64| (day * DAY + second_of_day - stretch.offset).clamp(stretch.from, stretch.until);
    Piece {
        excluded: whole_day || exclusions.iter().any(|exclusion| exclusion.covers(date, second_of_day)),
        from: Micros::EPOCH.offset(real(from).saturating_mul(SECOND)),
        until: Micros::EPOCH.offset(real(until).saturating_mul(SECOND)),
    }
}

/// The piece around a moment together with all like neighbours, looked for up to forty years to each side.
pub(crate) fn run_around(exclusions: &[Exclusion], zone: &TimeZone, at: Micros) -> Piece {
    const PIECES_MAX: usize = 40 * 366;
    let mut run = piece_around(exclusions, zone, at);
    if exclusions.is_empty() {
        return run;
    }
    for _ in 0..PIECES_MAX {
        let next = piece_around(exclusions, zone, run.until);
        if next.excluded != run.excluded || next.until <= run.until {
            break;
        }
        run.until = next.until;
    }
    for _ in 0..PIECES_MAX {
        let before = piece_around(exclusions, zone, run.from.offset(-1));
        if before.excluded != run.excluded || before.from >= run.from {
            break;
        }
        run.from = before.from;
    }
    run
}

/// The fields of an exclusion, as manifests spell them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fields {
    #[serde(skip_serializing_if = "Option::is_none")]
    weekdays: Option<Vec<Weekday>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dates: Option<Vec<DateText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<DateText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<DateText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    daily: Option<String>,
}

impl TryFrom<Fields> for Exclusion {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Exclusion, String> {
        match fields {
            Fields { weekdays: Some(days), dates: None, from: None, to: None, daily: None } => {
                if Weekday::ALL.iter().all(|day| days.contains(day)) {
                    return Err("exclude.weekdays: all seven days are excluded, so it never fires".into());
                }
                if days.is_empty() {
                    return Err("exclude.weekdays: the list is empty".into());
                }
                Ok(Exclusion::Weekdays(days))
            }
            Fields { weekdays: None, dates: Some(dates), from: None, to: None, daily: None } => {
                if dates.is_empty() || dates.len() > EXCLUSIONS_MAX {
                    return Err(format!("exclude.dates: a list has 1 to {EXCLUSIONS_MAX} dates"));
                }
                dates
                    .iter()
                    .map(|date| parse_date("dates", date))
                    .collect::<Result<_, _>>()
                    .map(Exclusion::Dates)
            }
            Fields { weekdays: None, dates: None, from: Some(from), to: Some(to), daily: None } => {
                let (from, to) = (parse_date("from", &from)?, parse_date("to", &to)?);
                if to < from {
                    return Err(format!("exclude.to: {to} is before from, {from}; swap them"));
                }
                Ok(Exclusion::Range { from, to })
            }
            Fields { weekdays: None, dates: None, from: None, to: None, daily: Some(window) } => {
                parse_daily(&window)
            }
            _ => Err(
                "exclude: each entry is one of { weekdays = […] }, { dates = […] }, { from = …, to = … }, \
                 { daily = \"22:00-06:00\" }"
                    .into(),
            ),
        }
    }
}

fn parse_date(field: &str, text: &DateText) -> Result<Date, String> {
    let date = if text.0.len() == 10 { text.0.parse::<Date>().ok() } else { None };
    date.filter(|date| (1..9999).contains(&date.year())).ok_or_else(|| {
        let shown: String = text.0.chars().take(40).collect();
        format!("exclude.{field}: {shown:?} is not a date; write it like 2026-12-25")
    })
}

fn parse_daily(window: &str) -> Result<Exclusion, String> {
    let bad = |why: &str| {
        let shown: String = window.chars().take(40).collect();
        format!("exclude.daily: {shown:?} {why}; write it like \"22:00-06:00\"")
    };
    let (from, to) = window.split_once('-').ok_or_else(|| bad("is not a window"))?;
    let time = |text: &str| {
        let parts: Vec<&str> = text.trim().split(':').collect();
        let number =
            |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
        let all: Option<Vec<u32>> =
            parts.iter().map(|part| number(part).filter(|_| part.len() == 2)).collect();
        match all?[..] {
            [24, 0] => Some(86_400),
            [h @ 0..24, m @ 0..60] => Some(h * 3600 + m * 60),
            [h @ 0..24, m @ 0..60, s @ 0..60] => Some(h * 3600 + m * 60 + s),
            _ => None,
        }
    };
    let (Some(from), Some(to)) = (time(from), time(to)) else {
        return Err(bad("has a time that is not HH:MM"));
    };
    if from == to || (from == 0 && to == 86_400) {
        return Err(bad("excludes nothing or the whole day"));
    }
    // 24:00 is today's end as an end, and tomorrow's start as a start.
    Ok(Exclusion::Daily { from: from % 86_400, to })
}

impl From<Exclusion> for Fields {
    fn from(exclusion: Exclusion) -> Fields {
        let date = |date: Date| DateText(date.to_string());
        match exclusion {
            Exclusion::Weekdays(days) => Fields { weekdays: Some(days), ..Fields::default() },
            Exclusion::Dates(dates) => {
                Fields { dates: Some(dates.into_iter().map(date).collect()), ..Fields::default() }
            }
            Exclusion::Range { from, to } => {
                Fields { from: Some(date(from)), to: Some(date(to)), ..Fields::default() }
            }
            Exclusion::Daily { from, to } => {
                let time = |at: u32| match (at / 3600, at / 60 % 60, at % 60) {
                    (h, m, 0) => format!("{h:02}:{m:02}"),
                    (h, m, s) => format!("{h:02}:{m:02}:{s:02}"),
                };
                Fields { daily: Some(format!("{}-{}", time(from), time(to))), ..Fields::default() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::find_zone;

    fn excluded(text: &str, zone: &str, at: &str) -> bool {
        let exclusion: Exclusion = serde_json::from_str(text).unwrap();
        let at = at.parse::<jiff::Timestamp>().unwrap();
        is_excluded(&[exclusion], &find_zone(zone).unwrap(), at.into())
    }

    #[test]
    fn exclusions_are_meant_in_local_time() {
        let weekend = r#"{"weekdays":["sat","sun"]}"#;
        assert!(excluded(weekend, "Europe/Berlin", "2026-01-02T23:00:00Z"), "Saturday has begun in Berlin");
        assert!(!excluded(weekend, "UTC", "2026-01-02T23:00:00Z"));
        assert!(excluded(r#"{"dates":["2026-12-25"]}"#, "UTC", "2026-12-25T23:59:59.999999Z"));
        assert!(!excluded(r#"{"dates":["2026-12-25"]}"#, "UTC", "2026-12-26T00:00:00Z"));
        let range = r#"{"from":"2026-12-24","to":"2027-01-02"}"#;
        assert!(excluded(range, "UTC", "2026-12-24T00:00:00Z"));
        assert!(excluded(range, "UTC", "2027-01-02T23:59:59Z"), "both ends are included");
        assert!(!excluded(range, "UTC", "2027-01-03T00:00:00Z"));
    }

    #[test]
    fn a_daily_window_may_cross_midnight_and_does_not_include_its_end() {
        let night = r#"{"daily":"22:00-06:00"}"#;
        for (at, expected) in [
            ("21:59:59", false),
            ("22:00:00", true),
            ("00:00:00", true),
            ("05:59:59", true),
            ("06:00:00", false),
        ] {
            assert_eq!(excluded(night, "UTC", &format!("2026-01-01T{at}Z")), expected, "{at}");
        }
        assert!(excluded(r#"{"daily":"12:00-24:00"}"#, "UTC", "2026-01-01T23:59:59Z"));
        assert!(!excluded(r#"{"daily":"12:00-24:00"}"#, "UTC", "2026-01-01T00:00:00Z"));
    }

    #[test]
    fn both_passes_of_a_fold_are_excluded() {
        let window = r#"{"daily":"02:15-02:45"}"#;
        for (at, expected) in [("00:30", true), ("00:50", false), ("01:10", false), ("01:30", true)] {
            assert_eq!(excluded(window, "Europe/Berlin", &format!("2026-10-25T{at}:00Z")), expected, "{at}");
        }
    }

    #[test]
    fn exclusions_survive_being_stored_and_bad_ones_are_refused() {
        for text in [
            r#"{"weekdays":["sat","sun"]}"#,
            r#"{"dates":["2026-12-25"]}"#,
            r#"{"from":"2026-12-24","to":"2027-01-02"}"#,
            r#"{"daily":"22:00-06:00"}"#,
            r#"{"daily":"22:00:30-24:00"}"#,
        ] {
            let exclusion: Exclusion = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&exclusion).unwrap(), text);
        }
        for (text, part) in [
            (r#"{}"#, "each entry is one of"),
            (r#"{"from":"2026-12-24"}"#, "each entry is one of"),
            (r#"{"weekdays":["saturday"]}"#, "saturday"),
            (r#"{"weekdays":["mon","tue","wed","thu","fri","sat","sun"]}"#, "never fires"),
            (r#"{"dates":["25.12.2026"]}"#, "not a date"),
            (r#"{"dates":["2026-02-30"]}"#, "not a date"),
            (r#"{"from":"2026-12-24","to":"2026-12-23"}"#, "swap"),
            (r#"{"daily":"22-6"}"#, "not HH:MM"),
            (r#"{"daily":"22:00"}"#, "not a window"),
            (r#"{"daily":"22:00-22:00"}"#, "excludes nothing"),
        ] {
            let message = serde_json::from_str::<Exclusion>(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
