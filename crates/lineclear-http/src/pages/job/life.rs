//! A job's life, drawn to scale: how long it waited, ran, and waited again.

use lineclear::store::views::{ExecutionView, JobView};
use lineclear_model::{JobState, Micros};
use maud::{Markup, html};

use crate::pages::part::{between, clock, length};

const WIDTH: u64 = 1_000;
/// What is short is still seen.
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

pub(super) fn line(job: &JobView, executions: &[ExecutionView]) -> Markup {
    let parts = parts(job, executions);
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
            h2 { "Life" }
            @if parts.is_empty() { p.muted { "It has just been accepted." } }
            @else {
                svg.life role="img" aria-label={ "From its acceptance: " (length(all)) } viewBox={ "0 0 " (WIDTH) " 24" } preserveAspectRatio="none" {
                    @for ((part, width), start) in parts.iter().zip(&widths).zip(&starts) {
                        rect class=(part.class) x=(start) y="0" width=(width.saturating_sub(1).max(1)) height="24" { title { (part.word) ", " (between(part.from, part.to)) } }
                    }
                }
                ol.legend { @for part in &parts { li { span class={ "key " (part.class) } {} (part.word) " " strong { (between(part.from, part.to)) } span.muted { " from " (clock(part.from)) } } } }
            }
        }
    }
}

fn parts(job: &JobView, executions: &[ExecutionView]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = job.created_at;
    let mut add = |class, word: String, to: Micros, at: &mut Micros| {
        if to > *at {
            parts.push(Part { class, word, from: *at, to });
            *at = to;
        }
    };
    // A job that was tried again or died has another due time than at first: then only that it waited is known.
    let is_first = executions.len() < 2 && !matches!(job.state, JobState::Retrying | JobState::Dead);
    if is_first {
        let claimed = executions.first().and_then(|execution| execution.claimed_at).or(job.finished_at);
        add("f-scheduled", "scheduled".to_owned(), job.due_at.min(claimed.unwrap_or(job.due_at)), &mut at);
    }
    for (place, execution) in executions.iter().enumerate() {
        let claimed = execution.claimed_at.unwrap_or(execution.finished_at);
        // Of a job that was tried very often, only the last claims are known here.
        let wait = match place {
            0 if execution.claim_no > 1 => "earlier claims",
            0 => "waited",
            _ => "waited for the next try",
        };
        add("f-queued", wait.to_owned(), claimed, &mut at);
        let class = match execution.outcome.as_str() {
            "completed" => "f-completed",
            "cancelled" | "released" | "snoozed" => "f-cancelled",
            _ => "f-dead",
        };
        add(
            class,
            format!("claim {} {}", execution.claim_no, execution.outcome.as_str()),
            execution.finished_at,
            &mut at,
        );
    }
    if let Some(dead) = job.finished_at.filter(|_| job.state == JobState::Dead) {
        add("f-queued", "until it died".to_owned(), dead, &mut at);
    }
    parts
}

/// In proportion, but none too small to be seen.
fn widths(lengths: &[u64]) -> Vec<u64> {
    let count = lengths.len() as u64;
    // Of very many there is no room for that: the newest must not be drawn beyond the edge.
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

    #[test]
    fn a_life_is_to_scale_and_nothing_vanishes() {
        assert_eq!(widths(&[1, 1]), [500, 500]);
        let drawn = widths(&[1, 3_600_000]);
        assert_eq!(drawn[0], LEAST);
        assert!(drawn.iter().sum::<u64>() <= WIDTH);
        assert!(widths(&[u64::MAX / 4; 2]).iter().sum::<u64>() <= WIDTH);
        assert!(widths(&[1_000; 2_001]).iter().sum::<u64>() <= WIDTH);
    }
}
