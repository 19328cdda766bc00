//! `lineclear schedule explain`: a schedule in words.

use clap::Args;
use lineclear_model::{
    Schedule, duration,
    schedule::{Fold, Gap},
};
use serde::Serialize;

use super::{Expression, next::zone_name, print_warnings};
use crate::{failure::Failure, output};

#[derive(Args)]
#[command(after_help = "\
Examples:
  lineclear schedule explain '*/15 9-17 * * mon-fri' --tz America/New_York
  lineclear schedule explain '0 * * * *' --tz Europe/Berlin
  lineclear schedule explain 'every 90m'")]
pub(crate) struct Explain {
    #[command(flatten)]
    expression: Expression,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An explanation as JSON.
#[derive(Serialize)]
struct Explanation<'a> {
    expression: &'a str,
    words: String,
    zone: String,
    follows_elapsed_time: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fold: Option<Fold>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

impl Explain {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let schedule = self.expression.schedule(None, None)?;
        print_warnings(&schedule);
        let has_rules = schedule.fields().cron.is_some() && !schedule.follows_elapsed_time();
        let explanation = Explanation {
            expression: self.expression.expression.trim(),
            words: in_words(&schedule),
            zone: zone_name(&schedule),
            follows_elapsed_time: schedule.fields().every.is_some() || schedule.follows_elapsed_time(),
            gap: has_rules.then(|| schedule.fields().gap.unwrap_or(Gap::NextValid)),
            fold: has_rules.then(|| schedule.fields().fold.unwrap_or(Fold::First)),
            warnings: schedule.warnings(),
        };
        if self.json { output::print_json(&explanation) } else { output::print(&for_people(&explanation)) }
    }
}

fn in_words(schedule: &Schedule) -> String {
    match (schedule.cron_in_words(), schedule.fields().every) {
        (Some(words), _) => words,
        (None, Some(every)) => {
            format!("Every {}, counted from 1970-01-01 00:00 UTC.", duration::format(every))
        }
        (None, None) => String::new(),
    }
}

fn for_people(explanation: &Explanation) -> String {
    let mut text = format!("{}\n  {}\n", explanation.expression, explanation.words);
    text.push_str(&match explanation.zone.as_str() {
        "UTC" => "  In UTC, which has no clock changes.\n".to_owned(),
        zone => format!("  In the local time of {zone}.\n"),
    });
    if explanation.zone == "UTC" {
        return text;
    }
    if explanation.follows_elapsed_time {
        text.push_str(
            "  It follows elapsed time: when the clock goes back, it fires in both passes of the hour;\n  \
             when it goes forward, the missing hour is not made up.\n",
        );
    }
    text.push_str(match explanation.gap {
        Some(Gap::Skip) => "  A local time that does not exist is skipped (gap = skip).\n",
        Some(Gap::NextValid) => {
            "  A local time that does not exist fires at the first moment after the gap (gap = next_valid).\n"
        }
        Some(Gap::Shift) => {
            "  A local time that does not exist fires later by the gap's length (gap = shift).\n"
        }
        None => "",
    });
    text.push_str(match explanation.fold {
        Some(Fold::First) => "  A local time that occurs twice fires the first time (fold = first).\n",
        Some(Fold::Second) => "  A local time that occurs twice fires the second time (fold = second).\n",
        Some(Fold::Both) => "  A local time that occurs twice fires both times (fold = both).\n",
        None => "",
    });
    text
}
