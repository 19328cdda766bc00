//! `lineclear schedule next`: the next ticks of a schedule.

use clap::Args;
use lineclear_model::{Micros, Schedule, schedule::TickNote};
use serde::Serialize;

use super::{Expression, approx_duration, local_time, moment, now, print_warnings};
use crate::{display::OutputStyle, failure::Failure, output};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lineclear schedule next '30 2 * * *' --tz Europe/Berlin
  lineclear schedule next '30 2 * * *' --tz Europe/Berlin --from 2026-03-28T00:00:00Z --gap shift
  lineclear schedule next '0 9 * * mon#1' --json
  lineclear schedule next 'every 90m' -n 10")]
pub(crate) struct Next {
    #[command(flatten)]
    expression: Expression,
    /// Show ticks after this time (RFC 3339) [default: now].
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Micros>,
    /// Time of the first tick.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    start: Option<Micros>,
    /// Time of the last tick.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    end: Option<Micros>,
    /// Number of ticks, at most 1000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
    /// Print JSON: [{"utc": …, "local": …, "zone": …}].
    #[arg(long)]
    json: bool,
}

/// A tick as JSON.
#[derive(Serialize)]
struct Line {
    utc: String,
    local: String,
    zone: String,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: Vec<String>,
}

impl Next {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let schedule = self.expression.schedule(self.start, self.end)?;
        print_warnings(&schedule);
        let from = self.from.unwrap_or_else(now);
        let for_ever = Micros::EPOCH.offset(i64::MAX);
        let ticks = schedule.ticks_between(from, for_ever, self.count.into());
        if self.json {
            let lines: Vec<Line> = ticks.into_iter().map(|tick| line(tick, &schedule)).collect();
            return output::print_json(&lines);
        }
        match OutputStyle::detect().is_terminal {
            true => output::print(&self.for_people(&schedule, from, &ticks)),
            false => output::print(&for_programs(&schedule, &ticks)),
        }
    }

    fn for_people(&self, schedule: &Schedule, from: Micros, ticks: &[Micros]) -> String {
        let head =
            format!("{} in {}, after {from}\n", self.expression.expression.trim(), zone_name(schedule));
        if ticks.is_empty() {
            return head + "  no more ticks\n";
        }
        let row = |&tick: &Micros| {
            let wait = format!("in {}", approx_duration(tick.get() - from.get()));
            vec![local_time(tick, schedule), tick.to_string(), wait, note(tick, schedule).to_owned()]
        };
        head + &output::aligned_rows(&ticks.iter().map(row).collect::<Vec<_>>())
    }
}

fn note(tick: Micros, schedule: &Schedule) -> &'static str {
    let note = if schedule.follows_elapsed_time() { None } else { schedule.note(tick) };
    note.map(in_words).unwrap_or_default()
}

fn for_programs(schedule: &Schedule, ticks: &[Micros]) -> String {
    let rows = ticks.iter().map(|tick| {
        let Line { utc, local, zone, .. } = line(*tick, schedule);
        format!("{utc}\t{local}\t{zone}\t{}\n", note(*tick, schedule))
    });
    format!("UTC\tLOCAL\tZONE\tNOTE\n{}", rows.collect::<String>())
}

fn line(tick: Micros, schedule: &Schedule) -> Line {
    let local = tick.timestamp().to_zoned(schedule.zone().clone());
    // Not jiff's own form, which adds the zone in brackets: RFC 3339, as everywhere.
    Line {
        utc: tick.to_string(),
        local: local.strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string(),
        zone: zone_name(schedule),
        warnings: schedule.warnings().to_vec(),
    }
}

pub(super) fn zone_name(schedule: &Schedule) -> String {
    schedule.zone().iana_name().unwrap_or("UTC").to_owned()
}

fn in_words(note: TickNote) -> &'static str {
    match note {
        TickNote::Moved => "moved: its local time does not exist on this day",
        TickNote::FirstPass => "first of two: the clock goes back",
        TickNote::SecondPass => "second of two: the clock went back",
    }
}
