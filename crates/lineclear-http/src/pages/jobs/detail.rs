//! The page of one job.

use lineclear::read::JobDetail;
use lineclear::store::JobId;
use lineclear_model::explain::{Explanation, Gate};
use lineclear_model::{JobState, Scope};
use maud::{Markup, html};

use super::{executions, timeline};
use crate::api::json_types::id;
use crate::pages::components::{self, cli_hint, moment};
use crate::pages::{Page, Region, Tab, View};
use crate::problem::Problem;

/// Bytes of an input or output on the page; the rest is in the download.
const SHOWN_BYTES: usize = 64 * 1024;
/// The newest lines of the log.
const LINES: u32 = 500;

/// The job with this id.
pub(in crate::pages) async fn find(view: &View<'_>, text: &str) -> Result<JobDetail, Problem> {
    let found = view.app.reading.job(JobId(id(text, "job")?)).await?;
    found.ok_or_else(|| Problem::not_found(format_args!("job {text}; it may be past its retention time")))
}

pub(in crate::pages) async fn page(view: &View<'_>, text: &str) -> Result<Page, Problem> {
    let detail = find(view, text).await?;
    let (job, log) = (&detail.job, view.app.reading.last_log(detail.job.id, LINES).await?);
    let mut regions =
        vec![Region::new("head", head(view, &detail)), Region::new("timeline", timeline::card(&detail))];
    let explanation = if can_wait(job.state) { view.app.reading.explain_job(job.id).await? } else { None };
    regions.push(Region::new(
        "explain",
        html! { @if let Some(explanation) = &explanation { (explain(view, explanation)) } },
    ));
    regions.push(Region::new("executions", executions::list(view, &detail, &log)));
    regions.push(Region::new("payload", payload(view, &detail)));
    let title = format!("{} job {} · {}", components::glyph(job.state.as_str()), job.id, job.kind);
    Ok(Page { title, tab: Tab::Jobs, regions, live: true })
}

const fn can_wait(state: JobState) -> bool {
    !matches!(state, JobState::Running | JobState::Completed | JobState::Cancelled)
}

fn head(view: &View<'_>, detail: &JobDetail) -> Markup {
    let job = &detail.job;
    let fact = |name: &str, value: Markup| html! { div.fact { dt { (name) } dd { (value) } } };
    let find = |q: String, text: &str| html! { a href=(view.link(&format!("/jobs?q={}", components::escape_query(&q)))) { (text) } };
    let none = || html! { span.muted { "–" } };
    let holder = detail.holder.as_str();
    html! {
        div.bar {
            h1 { "Job " (job.id) }
            (components::state(job.state))
            @if view.can(Scope::Operate) { div.buttons {
                @if !matches!(job.state, JobState::Completed | JobState::Cancelled | JobState::Dead) {
                    a.button.danger href=(view.link(&format!("/jobs/{}/cancel", job.id))) { "Cancel" }
                }
                @if matches!(job.state, JobState::Retrying | JobState::Dead | JobState::Completed | JobState::Cancelled) {
                    a.button href=(view.link(&format!("/jobs/{}/retry", job.id))) { @if job.state == JobState::Dead { "Revive" } @else if job.state == JobState::Retrying { "Retry now" } @else { "Run again" } }
                }
                @if matches!(job.state, JobState::Dead | JobState::Completed | JobState::Cancelled) {
                    a.button href=(view.link(&format!("/jobs/{}/retry?edit=true", job.id))) { @if job.state == JobState::Dead { "Revive with edits" } @else { "Run again with edits" } }
                }
                a.button href=(view.link(&format!("/enqueue?like={}", job.id))) { "Enqueue a copy" }
            } }
        }
        dl.facts {
            (fact("kind", find(format!("kind:{}", job.kind), &job.kind)))
            (fact("manifest", job.manifest_key.as_ref().map_or_else(none, |key| find(format!("manifest:{key}"), key))))
            (fact("group", job.group.as_ref().map_or_else(none, |group| find(format!("group:{group}"), group))))
            (fact("origin", html! { (job.origin.as_str()) @if let Some(tick) = job.tick_at { " for " (moment(tick)) } }))
            (fact(holder, job.node_name.as_ref().map_or_else(none, |node| find(format!("node:{node}"), node))))
            @if let Some(id) = &detail.external_id { (fact("external id", html! { code { (id) } })) }
            (fact("accepted", moment(job.created_at)))
            // The due time of a dead job is the time of its death.
            @if job.state != JobState::Dead { (fact("due", moment(job.due_at))) }
            (fact("claims", html! { (job.claim_no) @if let Some(failures) = job.failures.filter(|failures| *failures > 0) { ", " (failures) " failed" } }))
            @if !job.tags.is_empty() { (fact("tags", html! { @for tag in &job.tags { (find(format!("tag:{tag}"), tag)) " " } })) }
            @if let Some(key) = &job.limit_key { (fact("limit key", html! { code { (key) } })) }
        }
        @if let Some(progress) = &job.progress {
            p { progress value=(format!("{:.3}", progress.fraction)) max="1" {} " " (format!("{:.0} %", progress.fraction * 100.0)) " " (progress.text) }
        }
        (cli_hint(&format!("lineclear job get {}", job.id)))
    }
}

fn explain(view: &View<'_>, explanation: &Explanation) -> Markup {
    html! {
        section.card {
            h2 { "Why is it not running?" }
            p { strong { (explanation.verdict) } }
            // A gate that only repeats the verdict is left out, unless it links to jobs.
            (gates(view, explanation.gates.iter().filter(|gate| gate.open.is_some() && (gate.why != explanation.verdict || gate.blockers.iter().any(|way| way.what == "job")))))
            details { summary { "Gates that do not apply" } (gates(view, explanation.gates.iter().filter(|gate| gate.open.is_none()))) }
        }
    }
}

fn gates<'a>(view: &View<'_>, gates: impl Iterator<Item = &'a Gate>) -> Markup {
    html! {
        ul.plain.gates { @for gate in gates { li {
            @match gate.open {
                Some(true) => span.badge.completed { span.glyph aria-hidden="true" { "✓" } " " (gate.name.as_str()) },
                Some(false) => span.badge.dead { span.glyph aria-hidden="true" { "✕" } " " (gate.name.as_str()) },
                None => span.badge { span.glyph aria-hidden="true" { "·" } " " (gate.name.as_str()) },
            }
            span.grow {
                (gate.why)
                @for way in &gate.blockers {
                    " " @if way.what == "job" { a href=(view.link(&format!("/jobs/{}", way.id))) { "job " (way.id) } }
                    @else { (way.what.replace('_', " ")) " " (way.id) }
                    @if let Some(node) = &way.node { " on " (node) }
                }
            }
        } } }
    }
}

/// The input and output, with masked secrets.
fn payload(view: &View<'_>, detail: &JobDetail) -> Markup {
    let output = detail.executions.iter().rev().find_map(|execution| execution.output.as_deref());
    let card = |name: &str, text: Option<&str>| {
        let masked = text.and_then(|text| detail.secrets.mask(text));
        html! {
            section.card {
                h2 { (name) }
                @match masked {
                    Some(text) => { (json(&text)) @if text.len() > SHOWN_BYTES { p { a href=(view.link(&format!("/api/v1/jobs/{}/{}", detail.job.id, name.to_lowercase()))) { "Download all " (components::number(text.len() as u64)) " bytes" } } } },
                    None => p.muted { "No " (name.to_lowercase()) "." },
                }
            }
        }
    };
    html! { div.pair { (card("Input", detail.input.as_deref())) (card("Output", output)) } }
}

pub(in crate::pages) fn json(text: &str) -> Markup {
    let cut = &text[..text.floor_char_boundary(SHOWN_BYTES)];
    // Indented as text: a parser would change large numbers.
    let pretty =
        serde_json::from_str::<&serde_json::value::RawValue>(cut).ok().map(|raw| indented(raw.get()));
    html! { pre.json { (pretty.as_deref().unwrap_or(cut)) } }
}

/// Adds line breaks and indentation.
fn indented(text: &str) -> String {
    let (mut out, mut depth, mut quoted, mut escaped) =
        (String::with_capacity(text.len() * 2), 0, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if quoted {
            out.push(c);
            (quoted, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                while rest.peek().is_some_and(|c| c.is_ascii_whitespace()) {
                    rest.next();
                }
                if rest.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    out.extend(rest.next());
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => {
                quoted = c == '"';
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn json_keeps_every_character_that_means_something() {
        let text = r#"{"a": [1, 12345678901234567890.10, {}], "b":"x: {\"y\", [","c":[ ]}"#;
        let pretty = indented(text);
        let strip = |text: &str| {
            serde_json::from_str::<serde_json::Value>(text).unwrap();
            text.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>()
        };
        assert_eq!(strip(&pretty), strip(text));
        assert_eq!(indented(r#"{"a":[1,2],"b":{}}"#), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
    }
}
