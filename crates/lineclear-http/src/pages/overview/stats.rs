//! Throughput, latency and failures over time.

use std::collections::BTreeMap;

use lineclear::Store;
use lineclear::store::{RUN_STEPS_MS, StoreResult, Total};
use lineclear_model::Micros;
use lineclear_model::job::ExecutionOutcome;
use maud::{Markup, html};
use serde::Deserialize;

use crate::pages::View;
use crate::pages::components::chart::{Bar, bars};
use crate::pages::components::{clock, duration, escape_query, number};

/// The range of time.
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

    /// The seconds of a step, and the number of steps.
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
#[derive(Clone, Default)]
struct Step {
    claims: u64,
    completed: u64,
    failed: u64,
    other: u64,
    run_ms_max: u64,
    wait_ms: u64,
    wait_ms_max: u64,
    /// Executions by run time, in the buckets of [`RUN_STEPS_MS`]. Jobs cancelled while they waited are not included.
    runs: BTreeMap<u64, u64>,
}

impl Step {
    fn add(&mut self, total: &Total) {
        use ExecutionOutcome::{Completed, Failed, Lost, TimedOut};
        self.claims += total.claims;
        match total.outcome {
            Completed => self.completed += total.claims,
            Failed | TimedOut | Lost => self.failed += total.claims,
            _ => self.other += total.claims,
        }
        if let Some(from) = total.run_from_ms {
            *self.runs.entry(from).or_default() += total.claims;
        }
        self.run_ms_max = self.run_ms_max.max(total.run_ms_max);
        self.wait_ms += total.wait_ms;
        self.wait_ms_max = self.wait_ms_max.max(total.wait_ms_max);
    }

    fn mean_wait(&self) -> u64 {
        self.wait_ms.checked_div(self.runs.values().sum()).unwrap_or(0)
    }

    /// A quantile of the run times, interpolated within a bucket.
    fn run_quantile(&self, part: f64) -> u64 {
        let wanted = self.runs.values().sum::<u64>() as f64 * part;
        let mut before = 0.0;
        for (from, claims) in &self.runs {
            let claims = *claims as f64;
            if before + claims >= wanted {
                let next = RUN_STEPS_MS.iter().map(|step| step.unsigned_abs()).find(|step| step > from);
                let next = next.unwrap_or(u64::MAX).min(self.run_ms_max.max(*from));
                let inside = ((wanted - before) / claims.max(1.0)).clamp(0.0, 1.0);
                return from + ((next - from) as f64 * inside) as u64;
            }
            before += claims;
        }
        self.run_ms_max
    }
}

pub(super) struct Stats {
    from: Micros,
    step: i64,
    steps: Vec<Step>,
    all: Step,
}

/// Reads whole steps, up to and including the current one.
pub(super) async fn read(store: &Store, now: Micros, range: Range) -> StoreResult<Stats> {
    let (seconds, many) = range.steps();
    let step = seconds * 1_000_000;
    let last = now.get().div_euclid(step) * step;
    let from = Micros::EPOCH.offset(last - (many - 1) * step);
    let totals = store.totals(from, from.offset(many * step), seconds).await?;
    let (mut steps, mut all) = (vec![Step::default(); usize::try_from(many).unwrap_or(0)], Step::default());
    for total in &totals {
        let place = usize::try_from((total.at.get() - from.get()) / step).unwrap_or(usize::MAX);
        if let Some(step) = steps.get_mut(place) {
            step.add(total);
            all.add(total);
        }
    }
    Ok(Stats { from, step, steps, all })
}

impl Stats {
    pub(super) fn is_empty(&self) -> bool {
        self.all.claims == 0
    }

    fn at(&self, place: usize) -> Micros {
        self.from.offset(self.step * i64::try_from(place).unwrap_or(0))
    }

    /// The jobs that were accepted in a step: the search has no field for the end.
    fn link(&self, view: &View<'_>, at: Micros) -> String {
        view.link(&format!("/jobs?q={}", escape_query(&format!("since:{at} until:{}", at.offset(self.step)))))
    }

    fn bars(&self, view: &View<'_>, of: impl Fn(&Step) -> (Vec<(u64, &'static str)>, String)) -> Vec<Bar> {
        let bar = |(place, step): (usize, &Step)| {
            let (at, (parts, description)) = (self.at(place), of(step));
            Bar { at: clock(at), parts, description, link: self.link(view, at) }
        };
        self.steps.iter().enumerate().map(bar).collect()
    }

    pub(super) fn cards(&self, view: &View<'_>, range: Range) -> Markup {
        let all = &self.all;
        // The last complete step.
        let before = self.steps.iter().rev().nth(1).map_or(0, |step| step.claims);
        let rate = before as f64 / (self.step as f64 / 60_000_000.0);
        let through = self.bars(view, |step| {
            let description =
                format!("{} ended, {} of them failed", number(step.claims), number(step.failed));
            (
                vec![(step.completed, "f-completed"), (step.other, "f-cancelled"), (step.failed, "f-dead")],
                description,
            )
        });
        let took = self.bars(view, |step| {
            let (half, most) = (step.run_quantile(0.5), step.run_quantile(0.95));
            let description = format!(
                "p50 {}, p95 {}, slowest {}",
                duration(half),
                duration(most),
                duration(step.run_ms_max)
            );
            (vec![(half, "f-running"), (most.saturating_sub(half), "f-queued")], description)
        });
        let failed = self
            .bars(view, |step| (vec![(step.failed, "f-dead")], format!("{} failed", number(step.failed))));
        let percent = if all.claims == 0 { 0.0 } else { all.failed as f64 * 100.0 / all.claims as f64 };
        let card = |name: &str, value: String, note: String, chart: Markup| {
            html! { section.card.figure { h2 { (name) } p.latest { strong { (value) } span.muted { (note) } } (chart) } }
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
                (card("Latency", format!("p95 {}", duration(all.run_quantile(0.95))), format!("p50 {} · max {} · waited {}", duration(all.run_quantile(0.5)), duration(all.run_ms_max), duration(all.mean_wait())), bars("Run time of executions, median and 95th percentile, over time", &took, "ms")))
                (card("Failures", format!("{percent:.1} %"), format!("{} failed", number(all.failed)), bars("Executions that failed, over time", &failed, "failed")))
            }
            (self.table(view))
        }
    }

    /// The numbers of the charts, without empty steps.
    fn table(&self, view: &View<'_>) -> Markup {
        let busy = || self.steps.iter().enumerate().rev().filter(|(_, step)| step.claims > 0);
        html! {
            details.stats-table data-key="stats-table" {
                summary { "Show as a table" }
                @if busy().next().is_none() { p.muted { "No execution ended in this range." } }
                @else { div.scroll { table {
                    thead { tr {
                        th scope="col" { "From" } th.number scope="col" { "Ended" } th.number scope="col" { "Failed" }
                        th.number scope="col" { "p50" } th.number scope="col" { "p95" } th.number scope="col" { "Slowest" } th.number scope="col" { "Waited" }
                    } }
                    tbody { @for (place, step) in busy() { tr {
                        td { a href=(self.link(view, self.at(place))) title="Jobs accepted then" { (clock(self.at(place))) } }
                        td.number { (number(step.claims)) } td.number { (number(step.failed)) }
                        td.number { (duration(step.run_quantile(0.5))) } td.number { (duration(step.run_quantile(0.95))) } td.number { (duration(step.run_ms_max)) } td.number { (duration(step.mean_wait())) }
                    } } }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(all: &[(u64, u64)], longest: u64) -> Step {
        let claims = all.iter().map(|(_, claims)| claims).sum();
        Step { claims, run_ms_max: longest, runs: all.iter().copied().collect(), ..Step::default() }
    }

    #[test]
    fn quantiles_are_estimated_from_the_steps() {
        let one = ran(&[(100, 1)], 130);
        assert_eq!(
            (one.run_quantile(0.0), one.run_quantile(1.0)),
            (100, 130),
            "never longer than the longest"
        );
        let even = ran(&[(0, 50), (10, 50)], 20);
        assert_eq!((even.run_quantile(0.5), even.run_quantile(0.75), even.run_quantile(0.95)), (1, 15, 19));
        let rare = ran(&[(1, 99), (10_000, 1)], 12_000);
        assert_eq!((rare.run_quantile(0.5), rare.run_quantile(0.95), rare.run_quantile(1.0)), (1, 1, 12_000));
        assert_eq!(Step::default().run_quantile(0.95), 0);
        let cancelled = Step { claims: 10_000, ..ran(&[(1_000, 4)], 1_500) };
        assert_eq!(cancelled.run_quantile(0.5), 1_250, "what never ran did not run for no time");
    }
}
