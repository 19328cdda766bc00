//! What is measured, how often, and how large.

use std::fmt;

use peer_harness::Settings;
use serde::{Deserialize, Serialize};

use crate::subjects::Subject;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    Drain,
    EndToEnd,
    Single1,
    Single16,
    Bulk,
    Latency,
}

impl Measure {
    pub(crate) const ALL: [Measure; 6] = [
        Measure::Drain,
        Measure::EndToEnd,
        Measure::Single1,
        Measure::Single16,
        Measure::Bulk,
        Measure::Latency,
    ];

    /// Single jobs are enqueued by as many connections as callers: there is nothing to set.
    pub(crate) fn settings(self) -> &'static [Settings] {
        match self {
            Measure::Single1 | Measure::Single16 => &[Settings::Best],
            _ => &[Settings::Best, Settings::Default],
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::Drain => "drain",
            Measure::EndToEnd => "end to end",
            Measure::Single1 => "single enqueue, 1 caller",
            Measure::Single16 => "single enqueue, 16 callers",
            Measure::Bulk => "bulk enqueue",
            Measure::Latency => "latency",
        })
    }
}

/// How large everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Size {
    Full,
    Quick,
}

impl Size {
    pub(crate) fn rounds(self) -> u32 {
        match self {
            Size::Full => 3,
            Size::Quick => 1,
        }
    }

    /// Jobs in the queue before a drain.
    pub(crate) fn queued(self, measure: Measure, settings: Settings) -> u64 {
        match (measure, self, settings) {
            (Measure::Drain, Size::Full, Settings::Best) => 100_000,
            (Measure::Drain, Size::Full, Settings::Default) => 20_000,
            (Measure::Drain, Size::Quick, _) => 500,
            _ => 0,
        }
    }

    /// The arguments of a program.
    pub(crate) fn arguments(self, measure: Measure, settings: Settings) -> Vec<String> {
        let quick = self == Size::Quick;
        let choose = |full: &'static str, small: &'static str| if quick { small } else { full };
        let queued = self.queued(measure, settings).to_string();
        let jobs_at_once = if settings == Settings::Best { "60000" } else { "20000" };
        let words: Vec<&str> = match measure {
            Measure::Drain => vec!["drain", "--jobs", &queued, "--seconds", choose("8", "3")],
            Measure::EndToEnd => {
                vec!["end", "--jobs", choose(jobs_at_once, "500"), "--seconds", choose("5", "2")]
            }
            Measure::Single1 => vec!["single", "--callers", "1", "--seconds", choose("2", "0.2")],
            Measure::Single16 => vec!["single", "--callers", "16", "--seconds", choose("2", "0.2")],
            Measure::Bulk => {
                vec!["bulk", "--jobs", choose("200000", "2000"), "--seconds", choose("2", "1")]
            }
            Measure::Latency => {
                vec!["latency", "--jobs", choose("150", "20"), "--seconds", choose("6", "3")]
            }
        };
        let which = if settings == Settings::Best { "--best" } else { "--default" };
        words.into_iter().chain([which]).map(str::to_owned).collect()
    }
}

/// One process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) round: u32,
    pub(crate) measure: Measure,
    pub(crate) subject: &'static Subject,
    pub(crate) settings: Settings,
}

/// All steps. The sides of a measurement follow each other, and each round begins with another one, so that other load hits all alike.
pub(crate) fn steps(subjects: &[&'static Subject], rounds: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..rounds {
        for measure in Measure::ALL {
            let mut sides: Vec<Step> = measure
                .settings()
                .iter()
                .flat_map(|&settings| {
                    let with = subjects.iter().filter(move |subject| subject.has(settings));
                    with.map(move |&subject| Step { round, measure, subject, settings })
                })
                .collect();
            let first = (round as usize * sides.len()).div_ceil(rounds as usize) % sides.len().max(1);
            sides.rotate_left(first);
            steps.append(&mut sides);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::SUBJECTS;

    #[test]
    fn sides_are_measured_alternately_and_each_round_begins_with_another_one() {
        let subjects: Vec<&Subject> = SUBJECTS.iter().collect();
        let all = steps(&subjects, 3);
        let of = |round| -> Vec<&Step> {
            all.iter().filter(|step| step.round == round && step.measure == Measure::Drain).collect()
        };
        let first = |round| (of(round)[0].subject.name, of(round)[0].settings);
        assert!(first(0) != first(1) && first(1) != first(2) && first(0) != first(2));
        assert_eq!(of(0).len(), 2 * SUBJECTS.len() - 1, "all but the floor have defaults");
    }
}
