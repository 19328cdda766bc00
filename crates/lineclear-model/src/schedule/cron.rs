//! A cron expression over *wall seconds*: the seconds that a clock on a wall has counted since 1970-01-01
//! 00:00, as if there were no time zones. What happens when that clock is moved is decided in
//! [`super::ticks`].

use croner::{Cron as Croner, Weekday, parser::CronParser};
use jiff::{
    Timestamp,
    civil::{Date, date},
    tz::Offset,
};

use super::{BadSchedule, grammar, words};

const DAY: i64 = 86_400;

/// No rule waits longer: 29 February falls on a given weekday at least every 40 years.
const YEARS_BETWEEN_MATCHES: i64 = 41;

/// A cron expression, ready to be searched.
#[derive(Clone, Debug)]
pub(super) struct Cron {
    croner: Box<Croner>,
    plain: grammar::Plain,
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
}

impl Cron {
    pub(super) fn new(expression: &str) -> Result<Cron, BadSchedule> {
        let plain = grammar::check(expression)?;
        let parser = CronParser::builder().dom_and_dow(plain.both_days).build();
        // Only the day fields of the library are asked, never its year: one year instead of "every year"
        // saves it 5,000 entries, which is most of the time that making a schedule takes.
        let croner = parser
            .parse(&format!("{} 2000", plain.text))
            .map_err(|error| BadSchedule::new("cron", format!("{error}: {expression:?}")))?;
        let mask = |values: Vec<u16>| values.into_iter().fold(0u64, |mask, value| mask | 1 << value);
        let cron = Cron {
            seconds: mask(croner.pattern.seconds.values()),
            minutes: mask(croner.pattern.minutes.values()),
            hours: mask(croner.pattern.hours.values()),
            months: mask(croner.pattern.months.values()),
            croner: Box::new(croner),
            plain,
        };
        // These 28 years hold every kind of year: each first weekday, with and without a leap day.
        let (from, to) = (wall_of(date(2001, 1, 1)), wall_of(date(2029, 1, 1)));
        if cron.first_in(from, to).is_none() {
            let bad = BadSchedule::new(
                "cron",
                format!("{:?} never fires: no year has such a day", expression.trim()),
            );
            return Err(bad.hint("check day of month against month; the last day of a month is `L`"));
        }
        Ok(cron)
    }

    /// Whether the hour field matches every hour, so that the rule is one about elapsed time.
    pub(super) fn every_hour(&self) -> bool {
        self.hours == (1 << 24) - 1
    }

    /// What is valid, but probably not meant.
    pub(super) fn warnings(&self) -> &[String] {
        &self.plain.warnings
    }

    pub(super) fn describe(&self) -> String {
        words::describe(&self.plain.text, self.plain.both_days)
    }

    /// The first matching wall second in `from..to`.
    pub(super) fn first_in(&self, from: i64, to: i64) -> Option<i64> {
        let to = to.min(from.saturating_add(YEARS_BETWEEN_MATCHES * 366 * DAY));
        let mut day = from.div_euclid(DAY);
        let mut second_of_day = from.rem_euclid(DAY);
        while day * DAY < to {
            let date = date_of(day)?;
            if self.months & 1 << date.month() == 0 {
                day = wall_of(date.last_of_month()).div_euclid(DAY) + 1;
            } else {
                if self.day_matches(date)
                    && let Some(second) = self.first_time_from(second_of_day)
                {
                    return Some(day * DAY + second).filter(|&wall| wall < to);
                }
                day += 1;
            }
            second_of_day = 0;
        }
        None
    }

    /// The last matching wall second in `from..to`.
    pub(super) fn last_in(&self, from: i64, to: i64) -> Option<i64> {
        let from = from.max(to.saturating_sub(YEARS_BETWEEN_MATCHES * 366 * DAY));
        let mut day = (to - 1).div_euclid(DAY);
        let mut second_of_day = (to - 1).rem_euclid(DAY);
        while (day + 1) * DAY > from {
            let date = date_of(day)?;
            if self.months & 1 << date.month() == 0 {
                day = wall_of(date.first_of_month()).div_euclid(DAY) - 1;
            } else {
                if self.day_matches(date)
                    && let Some(second) = self.last_time_through(second_of_day)
                {
                    return Some(day * DAY + second).filter(|&wall| wall >= from);
                }
                day -= 1;
            }
            second_of_day = DAY - 1;
        }
        None
    }

    fn day_matches(&self, date: Date) -> bool {
        let weekday =
            Weekday::from_days_from_sunday(date.weekday().to_sunday_zero_offset().unsigned_abs().into());
        let (year, month, day) = (date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs());
        self.croner.pattern.day_match(year, month.into(), day.into(), weekday).unwrap_or(false)
    }

    fn first_time_from(&self, second: i64) -> Option<i64> {
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let begin =
            |hour: i64| Some(hour * 3600 + first_bit(self.minutes, 0)? * 60 + first_bit(self.seconds, 0)?);
        let hour = first_bit(self.hours, h)?;
        if hour > h {
            return begin(hour);
        }
        if let Some(minute) = first_bit(self.minutes, m) {
            if minute > m {
                return Some(hour * 3600 + minute * 60 + first_bit(self.seconds, 0)?);
            }
            if let Some(second) = first_bit(self.seconds, s) {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = first_bit(self.minutes, m + 1) {
                return Some(hour * 3600 + minute * 60 + first_bit(self.seconds, 0)?);
            }
        }
        begin(first_bit(self.hours, h + 1)?)
    }

    fn last_time_through(&self, second: i64) -> Option<i64> {
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let end =
            |hour: i64| Some(hour * 3600 + last_bit(self.minutes, 59)? * 60 + last_bit(self.seconds, 59)?);
        let hour = last_bit(self.hours, h)?;
        if hour < h {
            return end(hour);
        }
        if let Some(minute) = last_bit(self.minutes, m) {
            if minute < m {
                return Some(hour * 3600 + minute * 60 + last_bit(self.seconds, 59)?);
            }
            if let Some(second) = last_bit(self.seconds, s) {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = last_bit(self.minutes, m - 1) {
                return Some(hour * 3600 + minute * 60 + last_bit(self.seconds, 59)?);
            }
        }
        end(last_bit(self.hours, h - 1)?)
    }
}

/// The lowest set bit at or above `from`.
fn first_bit(mask: u64, from: i64) -> Option<i64> {
    let left = mask.checked_shr(u32::try_from(from).ok()?)?;
    (left != 0).then(|| from + i64::from(left.trailing_zeros()))
}

/// The highest set bit at or below `through`.
fn last_bit(mask: u64, through: i64) -> Option<i64> {
    let through = u32::try_from(through).ok()?;
    let left = mask & (u64::MAX >> (63 - through.min(63)));
    (left != 0).then(|| i64::from(63 - left.leading_zeros()))
}

/// The date of a day counted from 1970-01-01, if the calendar reaches that far.
pub(crate) fn date_of(day: i64) -> Option<Date> {
    let midnight = Timestamp::from_second(day.checked_mul(DAY)?).ok()?;
    Some(Offset::UTC.to_datetime(midnight).date())
}

/// The wall second at which a date begins.
fn wall_of(date: Date) -> i64 {
    let midnight = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0));
    // Only dates that came from a moment or from a person's text of the years 0 to 9998 get here.
    midnight.map_or(i64::MAX / 4, Timestamp::as_second)
}

#[cfg(test)]
mod tests;
