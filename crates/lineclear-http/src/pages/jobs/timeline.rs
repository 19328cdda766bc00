//! The timeline of a job, to scale: waiting and running times.

use lineclear::read::{ExecutionView, JobDetail, JobView};
use lineclear_model::{JobState, Micros};
use maud::{Markup, html};

use crate::pages::components::{between, clock, duration};

const WIDTH: u64 = 1_000;
/// The minimum width of a part.
const LEAST: u64 = 6;

struct Part {
    class: &'static str,
    word: String,
    from: Micros,
    to: Micros,
}

impl Part {
    fn ms(&self) -> u64 {
        u64::try_from((self.to.get() - self.from.get()) / 1_000).unwrap_or(0)
    }
}

pub(super) fn card(detail: &JobDetail) -> Markup {
    let parts = parts(&detail.job, &detail.executions, detail.claimed_at, detail.now);
    let all: u64 = parts.iter().map(Part::ms).sum();
    let widths = widths(&parts.iter().map(Part::ms).collect::<Vec<_>>());
    let starts: Vec<u64> = widths
        .iter()
        .scan(0, |at, width| {
            let start = *at;
            *at += width;
            Some(start)
        })
        .collect();
    html! {
        section.card {
            h2 { "Timeline" }
            @if parts.is_empty() { p.muted { "Just accepted." } }
            @else {
                svg.life role="img" aria-label={ "Since its acceptance: " (duration(all)) } viewBox={ "0 0 " (WIDTH) " 24" } preserveAspectRatio="none" {
                    @for ((part, width), start) in parts.iter().zip(&widths).zip(&starts) {
                        rect class=(part.class) x=(start) y="0" width=(width.saturating_sub(1).max(1)) height="24" { title { (part.word) ", " (between(part.from, part.to)) } }
                    }
                }
                ol.legend { @for part in &parts { li { span class={ "key " (part.class) } {} (part.word) " " strong { (between(part.from, part.to)) } span.muted { " from " (clock(part.from)) } } } }
            }
        }
    }
}

/// The parts from the acceptance of the job to its end, or to now.
fn parts(job: &JobView, executions: &[ExecutionView], claimed_at: Option<Micros>, now: Micros) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = job.created_at;
    let mut add = |class, word: String, to: Micros, at: &mut Micros| {
        if to > *at {
            parts.push(Part { class, word, from: *at, to });
            *at = to;
        }
    };
    // A retry or a death changes the due time: then only the waiting is known.
    let is_over = matches!(job.state, JobState::Completed | JobState::Cancelled);
    let is_first = executions.is_empty() || (executions.len() == 1 && is_over);
    if is_first {
        let claimed = executions.first().and_then(|execution| execution.claimed_at).or(claimed_at);
        let waited = claimed.or(job.finished_at).unwrap_or(now);
        add("f-scheduled", "scheduled".to_owned(), job.due_at.min(waited), &mut at);
    }
    let wait = |retried: bool| if retried { "waited for the next attempt" } else { "waited" }.to_owned();
    for (place, execution) in executions.iter().enumerate() {
        let claimed = execution.claimed_at.unwrap_or(execution.finished_at);
        // The page has only the last claims of a job with very many.
        let word =
            if place == 0 && execution.claim_no > 1 { "earlier claims".to_owned() } else { wait(place > 0) };
        add("f-queued", word, claimed, &mut at);
        let class = match execution.outcome.as_str() {
            "completed" => "f-completed",
            "cancelled" | "released" | "snoozed" => "f-cancelled",
            _ => "f-dead",
        };
        let word = format!("claim {} {}", execution.claim_no, execution.outcome.as_str());
        add(class, word, execution.finished_at, &mut at);
    }
    match job.state {
        JobState::Completed | JobState::Cancelled => {}
        JobState::Dead => {
            add("f-queued", "until it died".to_owned(), job.finished_at.unwrap_or(now), &mut at)
        }
        JobState::Running => {
            add("f-queued", wait(!executions.is_empty()), claimed_at.unwrap_or(now), &mut at);
            add("f-running", format!("claim {} runs", job.claim_no), now, &mut at);
        }
        JobState::Retrying => add("f-queued", "waits for the next attempt".to_owned(), now, &mut at),
        JobState::Scheduled => add("f-scheduled", "scheduled".to_owned(), now, &mut at),
        waits => add("f-queued", format!("waits, {}", waits.as_str()), now, &mut at),
    }
    parts
}

/// The widths in proportion, with a minimum.
fn widths(lengths: &[u64]) -> Vec<u64> {
    let count = lengths.len() as u64;
    // With very many parts the minimum shrinks, so that all fit.
    let least = LEAST.min(WIDTH / count.max(1));
    let room = WIDTH.saturating_sub(least * count);
    let all: u64 = lengths.iter().sum::<u64>().max(1);
    lengths
        .iter()
        .map(|length| {
            least + u64::try_from(u128::from(*length) * u128::from(room) / u128::from(all)).unwrap_or(0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use lineclear::store::JobId;
    use lineclear_model::job::{ExecutionOutcome, Origin};

    fn second(second: i64) -> Micros {
        Micros::EPOCH.offset(second * 1_000_000)
    }

    /// Accepted and due at second 10.
    fn job(state: JobState) -> JobView {
        JobView {
            id: JobId(1),
            state,
            kind: "mail".to_owned(),
            manifest: None,
            manifest_key: None,
            group: None,
            tags: Vec::new(),
            route: None,
            limit_key: None,
            phase: None,
            tick_at: None,
            origin: Origin::Adhoc,
            claim_no: 2,
            failures: None,
            created_at: second(10),
            due_at: second(10),
            finished_at: None,
            node: None,
            node_name: None,
            last_error: None,
            progress: None,
        }
    }

    fn ended(claimed: i64, finished: i64, outcome: ExecutionOutcome) -> ExecutionView {
        ExecutionView {
            claim_no: 1,
            is_final: false,
            outcome,
            node: None,
            output: None,
            error_type: None,
            error_message: None,
            fingerprint: None,
            node_name: None,
            claimed_at: Some(second(claimed)),
            finished_at: second(finished),
        }
    }

    /// The words, and the second at which each part ends, at second 100.
    fn told(job: &JobView, executions: &[ExecutionView], claimed_at: Option<i64>) -> Vec<(String, i64)> {
        let parts = parts(job, executions, claimed_at.map(second), second(100)).into_iter();
        parts.map(|part| (part.word, part.to.get() / 1_000_000)).collect()
    }

    #[test]
    fn running_parts_are_drawn_until_now_and_no_further() {
        use JobState::{Held, Queued, Retrying, Running, Scheduled};
        let is = |told: Vec<(String, i64)>, expected: &[(&str, i64)]| {
            let told: Vec<(&str, i64)> = told.iter().map(|(word, at)| (word.as_str(), *at)).collect();
            assert_eq!(told, expected);
        };
        is(told(&job(Queued), &[], None), &[("waits, queued", 100)]);
        is(told(&job(Held), &[], None), &[("waits, held", 100)]);
        is(told(&job(Running), &[], Some(40)), &[("waited", 40), ("claim 2 runs", 100)]);
        let later = JobView { due_at: second(500), ..job(Scheduled) };
        is(told(&later, &[], None), &[("scheduled", 100)]);
        let failed = [ended(20, 30, ExecutionOutcome::Failed)];
        let tried = [("waited", 20), ("claim 1 failed", 30)];
        is(
            told(&job(Retrying), &failed, None),
            &[&tried[..], &[("waits for the next attempt", 100)]].concat(),
        );
        let again = [&tried[..], &[("waited for the next attempt", 60), ("claim 2 runs", 100)]].concat();
        let due_again = JobView { due_at: second(40), ..job(Running) };
        is(told(&due_again, &failed, Some(60)), &again);
    }

    #[test]
    fn a_finished_job_is_drawn_until_its_end() {
        let over = JobView { finished_at: Some(second(50)), due_at: second(15), ..job(JobState::Completed) };
        let done = [ended(20, 50, ExecutionOutcome::Completed)];
        let told = told(&over, &done, None);
        let expected = [("scheduled", 15), ("waited", 20), ("claim 1 completed", 50)];
        assert_eq!(told, expected.map(|(word, at)| (word.to_owned(), at)));
    }

    #[test]
    fn a_timeline_is_to_scale_and_short_parts_stay_visible() {
        assert_eq!(widths(&[1, 1]), [500, 500]);
        let drawn = widths(&[1, 3_600_000]);
        assert_eq!(drawn[0], LEAST);
        assert!(drawn.iter().sum::<u64>() <= WIDTH);
        assert!(widths(&[u64::MAX / 4; 2]).iter().sum::<u64>() <= WIDTH);
        assert!(widths(&[1_000; 2_001]).iter().sum::<u64>() <= WIDTH);
    }
}
