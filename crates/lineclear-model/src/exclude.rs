//! Times at which a manifest does not fire, in the local time of its schedule.

mod fields;

use jiff::{civil::Date, tz::TimeZone};
use serde::{Deserialize, Serialize};

use crate::{
    Micros,
    job::words,
    schedule::{Stretch, date_of},
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
#[serde(try_from = "fields::Fields", into = "fields::Fields")]
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

/// A period in which all moments are excluded, or none is: `from..until`.
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

/// The first exclusion that covers a moment, by its place in the list.
pub(crate) fn covering(exclusions: &[Exclusion], zone: &TimeZone, at: Micros) -> Option<usize> {
    let second = at.get().div_euclid(SECOND);
    let wall = second + Stretch::around(zone, second).offset;
    let date = date_of(wall.div_euclid(DAY))?;
    exclusions.iter().position(|exclusion| exclusion.covers(date, wall.rem_euclid(DAY)))
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

#[cfg(test)]
mod tests;
