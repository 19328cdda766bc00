//! `lineclear manifest backfill`: enqueues jobs of past ticks that did not run.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::One;
use crate::api_command::print_answer;
use crate::display::Progress;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  lineclear manifest backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z

Ticks that already have a job are skipped, so the command can be repeated.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backfill {
    #[command(flatten)]
    one: One,
    /// First time, inclusive
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Last time, exclusive
    #[arg(long, value_name = "TIME")]
    to: String,
}

impl Backfill {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let Backfill { one, mut from, to } = self;
        let span = (from.clone(), to.clone());
        one.with(async |api, target, path| {
            let (mut jobs, mut known) = (Vec::new(), 0);
            let mut progress = Progress::new("ticks processed", 0, target.json);
            // One request processes a bounded number of ticks.
            let undecided = loop {
                let made = api.post(&format!("{path}/backfill"), json!({"from": from, "to": to})).await?;
                jobs.extend(made.get("jobs").and_then(Value::as_array).into_iter().flatten().cloned());
                known += made.get("known").and_then(Value::as_u64).unwrap_or_default();
                match made.get("next").and_then(Value::as_str) {
                    Some(next) => from = next.to_owned(),
                    None => break made.get("undecided_from").cloned().unwrap_or_default(),
                }
                let processed = jobs.len() as u64 + known;
                if let Some(total) = estimated_total(processed, &span, &from) {
                    progress.set_with_total(processed, total);
                }
            };
            drop(progress);
            let sentence = summary(&jobs, known, undecided.as_str());
            let answer = json!({"jobs": jobs, "known": known, "next": null, "undecided_from": undecided});
            print_answer(target, &answer.into(), &sentence)
        })
    }
}

/// Estimates the number of ticks: those after `now` are as dense as those before.
fn estimated_total(processed: u64, (from, to): &(String, String), now: &str) -> Option<u64> {
    let moment = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|at| at.as_second() as f64);
    let (from, to, now) = (moment(from)?, moment(to)?, moment(now)?);
    (now > from).then(|| (processed as f64 * (to - from) / (now - from)).max(0.0) as u64)
}

fn summary(jobs: &[Value], known: u64, undecided: Option<&str>) -> String {
    let id = |job: Option<&Value>| job.and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut text = match jobs {
        [] => "no jobs enqueued".to_owned(),
        [one] => format!("1 job enqueued: {}", id(Some(one))),
        many => format!("{} jobs enqueued: {} to {}", many.len(), id(many.first()), id(many.last())),
    };
    match known {
        0 => {}
        1 => text.push_str("; 1 tick already had a job"),
        known => text.push_str(&format!("; {known} ticks already had jobs")),
    }
    if let Some(from) = undecided {
        text.push_str(&format!("; the planner has yet to process ticks from {from} on"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_estimated_from_what_is_done() {
        let span = ("2026-01-01T00:00:00Z".to_owned(), "2026-01-05T00:00:00Z".to_owned());
        assert_eq!(estimated_total(1000, &span, "2026-01-02T00:00:00Z"), Some(4000));
        assert_eq!(estimated_total(1000, &span, "2026-01-01T00:00:00Z"), None, "nothing is done yet");
        assert_eq!(estimated_total(1000, &span, "soon"), None);
    }

    #[test]
    fn the_summary_is_a_sentence() {
        assert_eq!(summary(&[], 0, None), "no jobs enqueued");
        assert_eq!(
            summary(&[json!("4"), json!("6")], 1, Some("2026-01-01T00:00:00Z")),
            "2 jobs enqueued: 4 to 6; 1 tick already had a job; the planner has yet to process ticks from 2026-01-01T00:00:00Z on"
        );
    }
}
