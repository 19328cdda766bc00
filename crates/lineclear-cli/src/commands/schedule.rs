//! `lineclear schedule`: previews and explains schedules. Needs no database.

mod check;
mod explain;
mod next;

use clap::{Args, Subcommand, ValueEnum};
use lineclear_model::{
    Micros, Schedule, ScheduleFields, duration,
    schedule::{Fold, Gap},
    text::parse_moment,
};

use crate::failure::Failure;
use crate::output::approx_duration;

const EXAMPLES: &str = "Examples:
  lineclear schedule next '30 2 * * *' --tz Europe/Berlin
  lineclear schedule explain '*/15 9-17 * * mon-fri'
  lineclear schedule check jobs.toml --window 7d";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Print the next ticks of a schedule.
    Next(next::Next),
    /// Explain a schedule in words.
    Explain(explain::Explain),
    /// Check a manifest file: list its ticks in a window, and where they collide.
    Check(check::Check),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Command::Next(next) => next.run(),
            Command::Explain(explain) => explain.run(),
            Command::Check(check) => check.run(),
        }
    }
}

/// A schedule on the command line.
#[derive(Args)]
struct Expression {
    /// A cron expression (5 fields, or 6 with seconds first), a short form such as @daily, or `every 5m`.
    // Expressions contain hyphens, and `-5m` should be refused as a schedule and not as an option.
    #[arg(allow_hyphen_values = true)]
    expression: String,
    /// IANA time zone.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// What to do with a local time that does not exist [default: next_valid].
    #[arg(long)]
    gap: Option<GapWord>,
    /// What to do with a local time that occurs twice [default: first].
    #[arg(long)]
    fold: Option<FoldWord>,
}

impl Expression {
    fn schedule(&self, start: Option<Micros>, end: Option<Micros>) -> Result<Schedule, Failure> {
        let mut fields = ScheduleFields {
            tz: Some(self.tz.clone()),
            gap: self.gap.map(|word| word.0),
            fold: self.fold.map(|word| word.0),
            start,
            end,
            ..ScheduleFields::default()
        };
        match self.expression.trim().strip_prefix("every ") {
            Some(length) => {
                let every = duration::parse(length.trim());
                fields.every = Some(every.map_err(|error| Failure::usage(format!("every: {error}")))?);
            }
            None => fields.cron = Some(self.expression.clone()),
        }
        Ok(Schedule::new(fields)?)
    }
}

/// Prints the warnings of a schedule to standard error.
fn print_warnings(schedule: &Schedule) {
    for warning in schedule.warnings() {
        crate::output::print_stderr(&format!("warning: {warning}\n"));
    }
}

/// A gap rule, spelled as in manifests.
#[derive(Clone, Copy)]
struct GapWord(Gap);

/// A fold rule, spelled as in manifests.
#[derive(Clone, Copy)]
struct FoldWord(Fold);

impl ValueEnum for GapWord {
    fn value_variants<'a>() -> &'a [GapWord] {
        &[GapWord(Gap::Skip), GapWord(Gap::NextValid), GapWord(Gap::Shift)]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.as_str()))
    }
}

impl ValueEnum for FoldWord {
    fn value_variants<'a>() -> &'a [FoldWord] {
        &[FoldWord(Fold::First), FoldWord(Fold::Second), FoldWord(Fold::Both)]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.as_str()))
    }
}

/// Parses a time of the command line.
fn moment(text: &str) -> Result<Micros, String> {
    parse_moment(text)
}

/// The current time; the schedules themselves never read a clock.
fn now() -> Micros {
    jiff::Timestamp::now().into()
}

/// A local time with its weekday.
fn local_time(at: Micros, schedule: &Schedule) -> String {
    at.timestamp().to_zoned(schedule.zone().clone()).strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string()
}
