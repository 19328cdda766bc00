//! `lineclear manifest backfill`: jobs of ticks in the past that did not run.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::One;
use crate::cmd::ask::say_or_json;
use crate::failure::Failure;
use crate::show::Progress;

const EXAMPLES: &str = "Examples:
  lineclear manifest backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z

Ticks that ran before are left out, so that it can be done again.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backfill {
    #[command(flatten)]
    one: One,
    /// From this moment on
    #[arg(long, value_name = "MOMENT")]
    from: String,
    /// Up to this moment, and without it
    #[arg(long, value_name = "MOMENT")]
    to: String,
}

impl Backfill {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let Backfill { one, mut from, to } = self;
        let span = (from.clone(), to.clone());
        one.ask(async |api, at, path| {
            let (mut jobs, mut known) = (Vec::new(), 0);
            let mut progress = Progress::new("ticks looked at", 0, at.json);
            // One call looks at a bounded number of ticks.
            let undecided = loop {
                let made = api.post(&format!("{path}/backfill"), json!({"from": from, "to": to})).await?;
                jobs.extend(made.get("jobs").and_then(Value::as_array).into_iter().flatten().cloned());
                known += made.get("known").and_then(Value::as_u64).unwrap_or_default();
                match made.get("next").and_then(Value::as_str) {
                    Some(next) => from = next.to_owned(),
                    None => break made.get("undecided_from").cloned().unwrap_or_default(),
                }
                let looked_at = jobs.len() as u64 + known;
                if let Some(total) = about(looked_at, &span, &from) {
                    progress.at_of(looked_at, total);
                }
            };
            drop(progress);
            let sentence = told(&jobs, known, undecided.as_str());
            let answer = json!({"jobs": jobs, "known": known, "next": null, "undecided_from": undecided});
            say_or_json(at, &answer.into(), &sentence)
        })
    }
}

/// How many ticks there may be in all, if they lie in the rest of the span as they do up to `now`.
fn about(looked_at: u64, (from, to): &(String, String), now: &str) -> Option<u64> {
    let moment = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|at| at.as_second() as f64);
    let (from, to, now) = (moment(from)?, moment(to)?, moment(now)?);
    (now > from).then(|| (looked_at as f64 * (to - from) / (now - from)).max(0.0) as u64)
}

fn told(jobs: &[Value], known: u64, undecided: Option<&str>) -> String {
    let id = |job: Option<&Value>| job.and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut text = match jobs {
        [] => "no jobs were made".to_owned(),
        [one] => format!("1 job was made: {}", id(Some(one))),
        many => format!("{} jobs were made: {} to {}", many.len(), id(many.first()), id(many.last())),
    };
    match known {
        0 => {}
        1 => text.push_str("; 1 tick had run before"),
        known => text.push_str(&format!("; {known} ticks had run before")),
    }
    if let Some(from) = undecided {
        text.push_str(&format!("; from {from} on they are still the planner's"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_guessed_from_what_is_done() {
        let span = ("2026-01-01T00:00:00Z".to_owned(), "2026-01-05T00:00:00Z".to_owned());
        assert_eq!(about(1000, &span, "2026-01-02T00:00:00Z"), Some(4000));
        assert_eq!(about(1000, &span, "2026-01-01T00:00:00Z"), None, "nothing is behind us");
        assert_eq!(about(1000, &span, "soon"), None);
    }

    #[test]
    fn what_was_made_is_a_sentence() {
        assert_eq!(told(&[], 0, None), "no jobs were made");
        assert_eq!(
            told(&[json!("4"), json!("6")], 1, Some("2026-01-01T00:00:00Z")),
            "2 jobs were made: 4 to 6; 1 tick had run before; from 2026-01-01T00:00:00Z on they are still the planner's"
        );
    }
}
