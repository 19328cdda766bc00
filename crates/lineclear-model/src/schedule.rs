//! When a manifest is due: cron, interval, once, on demand, or after other manifests.

mod cron;
mod error;
mod fields;
mod grammar;
mod ticks;
mod words;
mod zone;

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

pub(crate) use cron::date_of;
pub use error::{BadSchedule, Place};
pub use fields::ScheduleFields;
pub use grammar::CRON_BYTES_MAX;
pub(crate) use ticks::Stretch;
pub(crate) use zone::edits;
pub use zone::{find_zone, zone_names};

use crate::{Micros, Name, job::words};
use ticks::LocalCron;

words! {
    /// What happens to a local time that does not exist, because the clock jumps over it.
    Gap {
        /// Nothing fires.
        Skip = "skip",
        /// It fires at the first moment after the gap.
        NextValid = "next_valid",
        /// It fires later by the length of the gap: 02:30 becomes 03:30.
        Shift = "shift",
    }
}

words! {
    /// What happens to a local time that occurs twice, because the clock goes back.
    Fold {
        /// It fires the first time.
        First = "first",
        /// It fires the second time.
        Second = "second",
        /// It fires both times.
        Both = "both",
    }
}

words! {
    /// How many of its parents a dependent waits for.
    Need {
        /// Every parent has completed since the last round.
        All = "all",
        /// One parent has completed.
        Any = "any",
    }
}

words! {
    /// What the clock did to a tick of a cron.
    TickNote {
        /// Its local time does not exist, and the gap rule moved it.
        Moved = "moved",
        /// Its local time occurs twice; this is the first time.
        FirstPass = "first_pass",
        /// Its local time occurs twice; this is the second time.
        SecondPass = "second_pass",
    }
}

/// Shortest interval. Below a second a scheduler over a database is the wrong tool.
pub const EVERY_MIN: Duration = Duration::from_secs(1);

/// Most parents of a dependent.
pub const PARENTS_MAX: usize = 64;

/// A schedule that has been checked. It knows its ticks; it does not know what time it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "ScheduleFields", into = "ScheduleFields")]
pub struct Schedule {
    fields: ScheduleFields,
    form: Form,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
enum Form {
    Cron(LocalCron),
    /// Ticks at `phase + n × every` since the epoch, in microseconds.
    Every {
        every: i64,
        phase: i64,
    },
    Once(Micros),
    OnDemand,
    After,
}

impl Schedule {
    /// Checks the fields of a schedule.
    pub fn new(fields: ScheduleFields) -> Result<Schedule, BadSchedule> {
        let (fields, form, zone) = fields.check()?;
        let schedule = Schedule { fields, form, zone };
        if let (Some(start), Some(_)) = (schedule.fields.start, schedule.fields.end)
            && schedule.is_timed()
            && schedule.next_after(start.offset(-1)).is_none()
        {
            let bad = BadSchedule::new("end", "no tick lies between start and end, so it never fires");
            return Err(bad.hint("move `end` or `start`, or remove them"));
        }
        Ok(schedule)
    }

    /// A cron expression in a time zone.
    pub fn cron(expression: &str, tz: &str) -> Result<Schedule, BadSchedule> {
        let (cron, tz) = (Some(expression.to_owned()), Some(tz.to_owned()));
        Schedule::new(ScheduleFields { cron, tz, ..Default::default() })
    }

    /// Every so often, counted from the Unix epoch.
    pub fn every(every: Duration) -> Result<Schedule, BadSchedule> {
        Schedule::new(ScheduleFields { every: Some(every), ..Default::default() })
    }

    /// Once.
    pub fn once(at: Micros) -> Result<Schedule, BadSchedule> {
        Schedule::new(ScheduleFields { once: Some(at), ..Default::default() })
    }

    /// Only when it is triggered.
    pub fn on_demand() -> Schedule {
        let fields = ScheduleFields { on_demand: Some(true), ..Default::default() };
        Schedule { fields, form: Form::OnDemand, zone: TimeZone::UTC }
    }

    /// When its parents have completed.
    pub fn after(parents: Vec<Name>, need: Need) -> Result<Schedule, BadSchedule> {
        Schedule::new(ScheduleFields { after: Some(parents), need: Some(need), ..Default::default() })
    }

    /// The fields it was made of.
    pub fn fields(&self) -> &ScheduleFields {
        &self.fields
    }

    /// The zone in which its local times and its exclusions are meant. UTC unless said otherwise.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Whether time makes it due, and not a person or a parent.
    pub fn is_timed(&self) -> bool {
        !matches!(self.form, Form::OnDemand | Form::After)
    }

    /// The manifests it waits for.
    pub fn parents(&self) -> &[Name] {
        self.fields.after.as_deref().unwrap_or_default()
    }

    /// How many of its parents it waits for.
    pub fn need(&self) -> Need {
        self.fields.need.unwrap_or(Need::All)
    }

    /// Whether it waits to be activated by the running parent instead of by the parent's success.
    pub fn is_dormant(&self) -> bool {
        self.fields.dormant
    }

    /// Whether it is a cron for every hour, which follows elapsed time: gap and fold rules do not matter to
    /// it.
    pub fn follows_elapsed_time(&self) -> bool {
        matches!(&self.form, Form::Cron(local) if local.cron.every_hour())
    }

    /// The moment it fires, if it fires once.
    pub fn once_at(&self) -> Option<Micros> {
        self.fields.once
    }

    /// A cron expression in words, without zone and rules.
    pub fn cron_in_words(&self) -> Option<String> {
        match &self.form {
            Form::Cron(local) => Some(local.cron.describe()),
            _ => None,
        }
    }

    /// What is valid, but probably not meant, such as a cron step that is longer than its field.
    pub fn warnings(&self) -> &[String] {
        match &self.form {
            Form::Cron(local) => local.cron.warnings(),
            _ => &[],
        }
    }

    /// What the clock did to one of its ticks, if anything.
    pub fn note(&self, tick: Micros) -> Option<TickNote> {
        match &self.form {
            Form::Cron(local) => local.note(tick.get().div_euclid(SECOND)),
            _ => None,
        }
    }

    /// The first tick after a moment.
    pub fn next_after(&self, after: Micros) -> Option<Micros> {
        let after = self.fields.start.map_or(after, |start| after.max(start.offset(-1)));
        let end = self.fields.end.unwrap_or(Micros::EPOCH.offset(i64::MAX));
        let tick = match &self.form {
            Form::Cron(local) => {
                let from = after.get().div_euclid(SECOND) + 1;
                let to = end.get().div_euclid(SECOND) + 1;
                Micros::new(local.first_in(from, to)?.checked_mul(SECOND)?)?
            }
            Form::Every { every, phase } => {
                let rounds = (after.get() - phase).div_euclid(*every) + 1;
                Micros::new(rounds.checked_mul(*every)?.checked_add(*phase)?)?
            }
            Form::Once(at) => *at,
            Form::OnDemand | Form::After => return None,
        };
        (tick > after && tick <= end).then_some(tick)
    }

    /// The last tick at or before a moment.
    pub fn last_through(&self, through: Micros) -> Option<Micros> {
        let through = self.fields.end.map_or(through, |end| through.min(end));
        let start = self.fields.start.unwrap_or(Micros::EPOCH.offset(i64::MIN));
        let tick = match &self.form {
            Form::Cron(local) => {
                let from = start.get().div_euclid(SECOND);
                let to = through.get().div_euclid(SECOND) + 1;
                Micros::new(local.last_in(from, to)?.checked_mul(SECOND)?)?
            }
            Form::Every { every, phase } => {
                let rounds = (through.get() - phase).div_euclid(*every);
                Micros::new(rounds.checked_mul(*every)?.checked_add(*phase)?)?
            }
            Form::Once(at) => *at,
            Form::OnDemand | Form::After => return None,
        };
        (tick <= through && tick >= start).then_some(tick)
    }

    /// The first `max` ticks after one moment, up to and including another.
    pub fn ticks_between(&self, after: Micros, through: Micros, max: usize) -> Vec<Micros> {
        let next = |&at: &Micros| self.next_after(at).filter(|&tick| tick <= through);
        std::iter::successors(next(&after), next).take(max).collect()
    }
}

const SECOND: i64 = 1_000_000;

impl PartialEq for Schedule {
    fn eq(&self, other: &Schedule) -> bool {
        self.fields == other.fields
    }
}

impl Eq for Schedule {}

impl TryFrom<ScheduleFields> for Schedule {
    type Error = BadSchedule;
    fn try_from(fields: ScheduleFields) -> Result<Schedule, BadSchedule> {
        Schedule::new(fields)
    }
}

impl From<Schedule> for ScheduleFields {
    fn from(schedule: Schedule) -> ScheduleFields {
        schedule.fields
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod transitions;
