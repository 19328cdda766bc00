//! The fields of a schedule, as manifests spell them, and which of them go together.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{
    BadSchedule, EVERY_MIN, Fold, Form, Gap, Need, PARENTS_MAX, cron::Cron, ticks::LocalCron, zone::find_zone,
};
use crate::{Micros, Name, duration, text};

/// A schedule as it is written: exactly one of `cron`, `every`, `once`, `on_demand` and `after`, and what
/// refines it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleFields {
    /// A cron expression of 5 fields, or 6 with seconds first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// An interval, counted from the Unix epoch plus `phase`.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// One moment.
    #[serde(deserialize_with = "text::moment_option", skip_serializing_if = "Option::is_none")]
    pub once: Option<Micros>,
    /// Only when triggered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_demand: Option<bool>,
    /// After these manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<Name>>,
    /// With `after`: all of them (default) or any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub need: Option<Need>,
    /// With `after`: fires only when a running parent activates it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dormant: bool,
    /// IANA time zone; UTC if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// With `cron`: what to do with a local time that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// With `cron`: what to do with a local time that occurs twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
    /// No tick before this moment.
    #[serde(deserialize_with = "text::moment_option", skip_serializing_if = "Option::is_none")]
    pub start: Option<Micros>,
    /// No tick after this moment.
    #[serde(deserialize_with = "text::moment_option", skip_serializing_if = "Option::is_none")]
    pub end: Option<Micros>,
    /// With `every`: how far the interval's grid is moved.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub phase: Option<Duration>,
}

impl ScheduleFields {
    pub(super) fn check(mut self) -> Result<(ScheduleFields, Form, TimeZone), BadSchedule> {
        self.check_one_form()?;
        self.check_company()?;
        let zone = find_zone(self.tz.as_deref().unwrap_or("UTC"))?;
        if self.tz.is_some() {
            self.tz = zone.iana_name().map(str::to_owned);
        }
        if let (Some(start), Some(end)) = (self.start, self.end)
            && end < start
        {
            return Err(BadSchedule::new("end", format!("{end} is before start, {start}")).hint("swap them"));
        }
        let form = self.form(&zone)?;
        Ok((self, form, zone))
    }

    fn form(&self, zone: &TimeZone) -> Result<Form, BadSchedule> {
        if let Some(expression) = &self.cron {
            let (cron, zone) = (Cron::new(expression)?, zone.clone());
            let (gap, fold) = (self.gap.unwrap_or(Gap::NextValid), self.fold.unwrap_or(Fold::First));
            return Ok(Form::Cron(LocalCron { cron, zone, gap, fold }));
        }
        if let Some(every) = self.every {
            return interval(every, self.phase.unwrap_or_default());
        }
        if let Some(at) = self.once {
            let early = self.start.is_some_and(|start| at < start);
            let late = self.end.is_some_and(|end| at > end);
            if early || late {
                let bad =
                    BadSchedule::new("once", format!("{at} lies outside start and end, so it never fires"));
                return Err(bad.hint("remove `start` and `end`"));
            }
            return Ok(Form::Once(at));
        }
        if let Some(parents) = &self.after {
            check_parents(parents)?;
            return Ok(Form::After);
        }
        Ok(Form::OnDemand)
    }

    fn check_one_form(&self) -> Result<(), BadSchedule> {
        if self.on_demand == Some(false) {
            let bad = BadSchedule::new("on_demand", "false says nothing about when it is due");
            return Err(bad.hint("remove it, or write `on_demand = true`"));
        }
        let forms = [
            ("cron", self.cron.is_some()),
            ("every", self.every.is_some()),
            ("once", self.once.is_some()),
            ("on_demand", self.on_demand.is_some()),
            ("after", self.after.is_some()),
        ];
        let given: Vec<&'static str> = forms.iter().filter(|form| form.1).map(|form| form.0).collect();
        match given[..] {
            [_] => Ok(()),
            [] => Err(BadSchedule::new("schedule", "it does not say when")
                .hint("give one of cron, every, once, on_demand, after")),
            [_, second, ..] => {
                Err(BadSchedule::new(second, format!("{} exclude each other", given.join(" and ")))
                    .hint("keep one; a second schedule is a second manifest"))
            }
        }
    }

    /// Refuses a field that would have no effect: its author expects one.
    fn check_company(&self) -> Result<(), BadSchedule> {
        let timed = self.on_demand.is_none() && self.after.is_none();
        let lonely = [
            ("gap", self.gap.is_some() && self.cron.is_none(), "cron"),
            ("fold", self.fold.is_some() && self.cron.is_none(), "cron"),
            ("phase", self.phase.is_some() && self.every.is_none(), "every"),
            ("need", self.need.is_some() && self.after.is_none(), "after"),
            ("dormant", self.dormant && self.after.is_none(), "after"),
            ("start", self.start.is_some() && !timed, "cron, every or once"),
            ("end", self.end.is_some() && !timed, "cron, every or once"),
        ];
        match lonely.into_iter().find(|(_, alone, _)| *alone) {
            Some((field, _, with)) => {
                Err(BadSchedule::new(field, format!("it only means something with {with}"))
                    .hint(format!("remove `{field}`")))
            }
            None => Ok(()),
        }
    }
}

fn interval(every: Duration, phase: Duration) -> Result<Form, BadSchedule> {
    if every < EVERY_MIN {
        let given = duration::format(every);
        return Err(
            BadSchedule::new("every", format!("{given} is too short")).hint("the shortest interval is 1s")
        );
    }
    if every > duration::DURATION_MAX {
        return Err(BadSchedule::new("every", "it is too long").hint("the longest interval is 3650d"));
    }
    if phase >= every {
        let bad = BadSchedule::new("phase", "it is not shorter than the interval itself");
        return Err(bad.hint(format!("use less than {}", duration::format(every))));
    }
    Ok(Form::Every { every: duration::micros(every), phase: duration::micros(phase) })
}

fn check_parents(parents: &[Name]) -> Result<(), BadSchedule> {
    if parents.is_empty() {
        let bad = BadSchedule::new("after", "it names no manifest, so it never fires");
        return Err(bad.hint("name a parent, or write `on_demand = true`"));
    }
    if parents.len() > PARENTS_MAX {
        let bad = BadSchedule::new("after", format!("it names {} manifests", parents.len()));
        return Err(bad.hint(format!("the most is {PARENTS_MAX}")));
    }
    let twice = parents.iter().enumerate().find(|(at, parent)| parents[..*at].contains(parent));
    match twice {
        Some((_, parent)) => {
            Err(BadSchedule::new("after", format!("it names {parent} twice")).hint("name it once"))
        }
        None => Ok(()),
    }
}
