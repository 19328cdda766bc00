//! The executions of a job, newest first, with errors, steps and logs.

use lineclear::read::{ExecutionView, JobDetail, LastLines, PAGE_MAX};
use lineclear::store::LogLine;
use lineclear_model::JobState;
use maud::{Markup, html};

use crate::pages::View;
use crate::pages::components::{self, between, clock, moment, number};

pub(super) fn list(view: &View<'_>, detail: &JobDetail, log: &LastLines) -> Markup {
    let job = &detail.job;
    let last = detail.executions.last().map(|execution| execution.claim_no);
    html! {
        section.card {
            h2 { "Executions" }
            @if detail.executions.is_empty() && job.state != JobState::Running {
                p.muted { "No executions yet." }
            }
            @if job.state == JobState::Running {
                details.execution open data-key={ "claim-" (job.claim_no) } {
                    summary { span.badge.running { span.glyph aria-hidden="true" { "●" } " running" } " claim " (job.claim_no) @if let Some(node) = &job.node_name { " on " (node) } }
                    (steps(detail, job.claim_no)) (lines(&log.items, job.claim_no))
                }
            }
            @for execution in detail.executions.iter().rev() {
                details.execution open[Some(execution.claim_no) == last && job.state != JobState::Running] data-key={ "claim-" (execution.claim_no) } {
                    summary { (title(execution)) }
                    (error(view, execution)) (steps(detail, execution.claim_no)) (lines(&log.items, execution.claim_no))
                }
            }
            @if detail.executions.len() >= PAGE_MAX as usize { p.muted { "The newest " (number(detail.executions.len() as u64)) " executions." } }
            @if !log.is_all { p.muted { "The newest " (log.items.len()) " lines. All lines: " code { "lineclear job logs " (job.id) } } }
        }
    }
}

fn title(execution: &ExecutionView) -> Markup {
    let word = execution.outcome.as_str();
    html! {
        span class={ "badge " (word) } { span.glyph aria-hidden="true" { (components::glyph(word)) } " " (word) }
        " claim " (execution.claim_no)
        @if let Some(node) = &execution.node_name { " on " (node) }
        @if let Some(claimed) = execution.claimed_at { " · ran " (between(claimed, execution.finished_at)) }
        " · ended " (moment(execution.finished_at))
        @if let Some(error) = &execution.error_message { span.muted { " · " (components::first_line(error)) } }
    }
}

fn error(view: &View<'_>, execution: &ExecutionView) -> Markup {
    html! {
        @if let Some(message) = &execution.error_message {
            pre.wrong { @if let Some(kind) = &execution.error_type { (kind) ": " } (message) }
        }
        @if let Some(fingerprint) = &execution.fingerprint {
            p.muted { "fingerprint " code { (fingerprint) } " · " a href=(view.link(&format!("/dead-letters?fingerprint={}", components::escape_query(fingerprint)))) { "dead letters with the same error" } }
        }
    }
}

fn steps(detail: &JobDetail, claim: u32) -> Markup {
    let mut of = detail.steps.iter().filter(|step| step.claim_no == claim).peekable();
    html! {
        @if of.peek().is_some() {
            h3 { "Steps" }
            ul.plain { @for step in of { li {
                @if step.error.is_some() { span.badge.dead { "✕ " (step.name) } } @else { span.badge.completed { "✓ " (step.name) } }
                span.grow { (between(step.started_at, step.finished_at)) @if let Some(error) = &step.error { " " span.wrong { (components::first_line(error)) } } }
            } } }
        }
    }
}

fn lines(log: &[(u32, LogLine)], claim: u32) -> Markup {
    let mut of = log.iter().filter(|(of, _)| *of == claim).peekable();
    html! {
        @if of.peek().is_some() {
            h3 { "Log" }
            pre.log { @for (_, line) in of {
                span.line data-key={ "l" (claim) "-" (line.line_no) } { span.muted { (clock(line.logged_at).get(11..19).unwrap_or_default()) " " (line.level) " " } (line.message) "\n" }
            } }
        }
    }
}
