//! Throughput, latency and failures over time, from the table of minutes.

use lineclear::Store;
use lineclear::store::{By, Stat, StoreResult};
use lineclear_model::Micros;
use lineclear_model::job::ExecutionOutcome;
use maud::{Markup, html};
use serde::Deserialize;

use crate::pages::View;
use crate::pages::part::chart::{Bar, bars};
use crate::pages::part::{clock, escaped, length, number};

/// How far back.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(super) enum Range {
    #[default]
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "6h")]
    SixHours,
    #[serde(rename = "24h")]
    Day,
    #[serde(rename = "7d")]
    Week,
}

impl Range {
    const ALL: [(Range, &str); 4] =
        [(Range::Hour, "1h"), (Range::SixHours, "6h"), (Range::Day, "24h"), (Range::Week, "7d")];

    /// Seconds of a step, and how many there are.
    const fn steps(self) -> (i64, i64) {
        match self {
            Range::Hour => (60, 60),
            Range::SixHours => (300, 72),
            Range::Day => (1_200, 72),
            Range::Week => (7_200, 84),
        }
    }
}

/// One step of time.
#[derive(Clone, Copy, Default)]
struct Step {
    claims: u64,
    completed: u64,
    failed: u64,
    other: u64,
    run_ms: u64,
    run_ms_max: u64,
    wait_ms: u64,
    wait_ms_max: u64,
}

impl Step {
    fn add(&mut self, stat: &Stat) {
        use ExecutionOutcome::{Completed, Failed, Lost, TimedOut};
        self.claims += stat.claims;
        match stat.outcome {
            Completed => self.completed += stat.claims,
            Failed | TimedOut | Lost => self.failed += stat.claims,
            _ => self.other += stat.claims,
        }
        self.run_ms += stat.run_ms;
        self.wait_ms += stat.wait_ms;
        self.run_ms_max = self.run_ms_max.max(stat.run_ms_max);
        self.wait_ms_max = self.wait_ms_max.max(stat.wait_ms_max);
    }

    fn mean(sum: u64, claims: u64) -> u64 {
        sum.checked_div(claims).unwrap_or(0)
    }
}

pub(super) struct Figures {
    from: Micros,
    step: i64,
    steps: Vec<Step>,
}

/// Whole steps up to and with the one that goes on.
pub(super) async fn read(store: &Store, now: Micros, range: Range) -> StoreResult<Figures> {
    let (seconds, many) = range.steps();
    let step = seconds * 1_000_000;
    let last = now.get().div_euclid(step) * step;
    let from = Micros::EPOCH.offset(last - (many - 1) * step);
    let stats = store.stats(from, from.offset(many * step), seconds, By::None).await?;
    let mut steps = vec![Step::default(); usize::try_from(many).unwrap_or(0)];
    for stat in &stats.items {
        let place = usize::try_from((stat.at.get() - from.get()) / step).unwrap_or(usize::MAX);
        if let Some(step) = steps.get_mut(place) {
            step.add(stat);
        }
    }
    Ok(Figures { from, step, steps })
}

impl Figures {
    pub(super) fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| step.claims == 0)
    }

    fn sum(&self) -> Step {
        let mut all = Step::default();
        for step in &self.steps {
            all.claims += step.claims;
            all.completed += step.completed;
            all.failed += step.failed;
            all.run_ms += step.run_ms;
            all.wait_ms += step.wait_ms;
            all.run_ms_max = all.run_ms_max.max(step.run_ms_max);
            all.wait_ms_max = all.wait_ms_max.max(step.wait_ms_max);
        }
        all
    }

    fn bars(&self, view: &View<'_>, of: impl Fn(&Step) -> (Vec<(u64, &'static str)>, String)) -> Vec<Bar> {
        let bar = |(place, step): (usize, &Step)| {
            let at = self.from.offset(self.step * i64::try_from(place).unwrap_or(0));
            let (parts, says) = of(step);
            let q = format!("since:{at} until:{}", at.offset(self.step));
            Bar { at: clock(at), parts, says, link: view.link(&format!("/jobs?q={}", escaped(&q))) }
        };
        self.steps.iter().enumerate().map(bar).collect()
    }

    pub(super) fn cards(&self, view: &View<'_>, range: Range) -> Markup {
        let all = self.sum();
        // The last whole step: the one that goes on is not over.
        let before = self.steps.iter().rev().nth(1).copied().unwrap_or_default();
        let rate = before.claims as f64 / (self.step as f64 / 60_000_000.0);
        let through = self.bars(view, |step| {
            let says = format!("{} ended, {} of them failed", number(step.claims), number(step.failed));
            (
                vec![(step.completed, "f-completed"), (step.other, "f-cancelled"), (step.failed, "f-dead")],
                says,
            )
        });
        let took = self.bars(view, |step| {
            let (mean, waited) =
                (Step::mean(step.run_ms, step.claims), Step::mean(step.wait_ms, step.claims));
            let says = format!(
                "ran {} in the mean, {} at most; waited {}",
                length(mean),
                length(step.run_ms_max),
                length(waited)
            );
            (vec![(mean, "f-running"), (waited, "f-queued")], says)
        });
        let failed = self
            .bars(view, |step| (vec![(step.failed, "f-dead")], format!("{} failed", number(step.failed))));
        let percent = if all.claims == 0 { 0.0 } else { all.failed as f64 * 100.0 / all.claims as f64 };
        let card = |name: &str, figure: String, note: String, chart: Markup| {
            html! { section.card.figure { h2 { (name) } p.latest { strong { (figure) } span.muted { (note) } } (chart) } }
        };
        html! {
            div.bar {
                nav.pills aria-label="Range" {
                    @for (one, word) in Range::ALL {
                        a.pill href=(view.link(&format!("/?range={word}"))) aria-current=[(one == range).then_some("true")] { (word) }
                    }
                }
            }
            div.three {
                (card("Throughput", format!("{rate:.0}/min"), format!("{} ended", number(all.claims)), bars("Executions that ended, over time", &through, "ended")))
                (card("Latency", length(Step::mean(all.run_ms, all.claims)), format!("mean run · waited {} · slowest {}", length(Step::mean(all.wait_ms, all.claims)), length(all.run_ms_max)), bars("Milliseconds that executions ran and waited in the mean, over time", &took, "ms")))
                (card("Failures", format!("{percent:.1} %"), format!("{} failed", number(all.failed)), bars("Executions that failed, over time", &failed, "failed")))
            }
        }
    }
}
