//! The overview: health, pipeline, statistics, and what needs attention.

mod stats;

use std::time::Duration;

use lineclear::read::{PipelineView, RunningView, StageView, UpcomingView};
use lineclear_model::Scope;
use lineclear_model::doctor::{self, Check, CheckName, Finding, HealthFacts};
use maud::{Markup, html};
use serde::Deserialize;

use super::components::{self, between, count, moment, since};
use super::{Page, Region, Tab, View, outboxes, samples, subscriptions};
use crate::problem::Problem;
use stats::Range;

/// Rows of running jobs and upcoming ticks.
const ROWS: u32 = 8;
const HOUR: Duration = Duration::from_secs(3_600);
/// Late jobs that the checks explain.
const EXPLAINED: u32 = 3;
const FAMILIES: u32 = 3;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverviewParams {
    #[serde(default)]
    range: Range,
}

pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let OverviewParams { range } = view.params()?;
    let store = &view.app.reading;
    let (pipeline, condition, running, upcoming) = tokio::try_join!(
        store.pipeline(),
        store.health_facts(EXPLAINED),
        store.running(ROWS),
        store.upcoming(HOUR, ROWS),
    )?;
    let stats = stats::read(store, pipeline.now, range).await?;
    let database = vec![store.condition_check().await];
    let mut checks =
        [database, doctor::nodes(&condition), doctor::work(&condition), vec![doctor::late(&condition)]]
            .concat();
    // Dead letters have a separate list, by error.
    checks.retain(|check| check.is_trouble() && check.check != CheckName::DeadLetters);
    let dead = pipeline.dead.count;
    let outboxes = [outboxes::attention(view).await, subscriptions::attention(view).await].concat();
    let title = if dead > 0 { format!("✕ {} dead", count(dead)) } else { "Overview".to_owned() };
    let mut regions = vec![
        Region::new("health", health(&condition, &checks, &pipeline, outboxes.len())),
        Region::new("pipeline", pipeline_strip(view, &pipeline, &condition)),
    ];
    let is_new =
        !condition.trouble.has_ticks && pipeline.is_empty() && stats.is_empty() && outboxes.is_empty();
    let none = || html! {};
    let (first, stats, attention, now) = if is_new {
        (first_steps(view, &condition), none(), none(), none())
    } else {
        let now = html! { div.pair { (running_now(view, &running)) (next_hour(view, &upcoming)) } (samples::hint(view).await?) };
        (none(), stats.cards(view, range), attention(view, &checks, dead, &outboxes).await?, now)
    };
    regions.extend([
        Region::new("first", first),
        Region::new("stats", stats),
        Region::new("attention", attention),
        Region::new("now", now),
    ]);
    Ok(Page { title, tab: Tab::Overview, regions, live: true })
}

fn health(condition: &HealthFacts, troubles: &[Check], pipeline: &PipelineView, outboxes: usize) -> Markup {
    let alive = condition.nodes.iter().filter(|node| node.live).count();
    let failed = alive == 0 || troubles.iter().any(|check| check.finding == Finding::Failure);
    let (class, glyph, word) =
        match (failed, troubles.is_empty() && pipeline.dead.count == 0 && outboxes == 0) {
            (true, _) => ("dead", "✕", "Not healthy"),
            (_, false) => ("retrying", "!", "Needs attention"),
            _ => ("completed", "✓", "Healthy"),
        };
    html! {
        h1.health {
            span class={ "badge " (class) } { span.glyph aria-hidden="true" { (glyph) } " " (word) }
            span.sentence {
                @match &condition.leader {
                    Some(leader) if leader.is_live(condition.now) => { strong { (leader.node) } " plans since " (moment(leader.since)) },
                    Some(leader) => { "no node plans: the last heartbeat of " strong { (leader.node) } " was " (moment(leader.renewed_at)) },
                    None => "no node has planned yet",
                }
                " · " (alive) @if alive == 1 { " node" } @else { " nodes" }
                @if condition.workers > 0 { ", " (count(condition.workers)) @if condition.workers == 1 { " remote worker" } @else { " remote workers" } }
                @if let Some(oldest) = condition.oldest_due_at { " · oldest waiting job " (between(oldest, condition.now)) }
            }
        }
    }
}

/// The stages of the pipeline: a stall is a stage that grows.
fn pipeline_strip(view: &View<'_>, pipeline: &PipelineView, condition: &HealthFacts) -> Markup {
    let stage = |name: &str, class: &str, stage: &StageView, q: &str| {
        html! {
            a.stage href=(view.link(&format!("/jobs?q={q}"))) {
                span.name { (name) }
                span class={ "much " @if stage.count > 0 { (class) } } { (count(stage.count)) }
                @if let Some(at) = stage.since.filter(|_| stage.count > 0) { span.age { (since(at)) } }
            }
        }
    };
    let slots = condition.slots();
    html! {
        nav.strip aria-label="Pipeline" {
            div.stage title="Manifests that are due and not planned yet" {
                span.name { "due" } span.much { (count(pipeline.due.count)) }
                @if let Some(at) = pipeline.due.since { span.age { (since(at)) } }
            }
            span.arrow aria-hidden="true" { "→" }
            (stage("queued", "queued", &StageView { since: condition.oldest_due_at, ..pipeline.queued }, "state:queued"))
            span.arrow aria-hidden="true" { "→" }
            (stage("ready", "queued", &pipeline.ready, "state:ready"))
            span.arrow aria-hidden="true" { "→" }
            a.stage href=(view.link("/jobs?q=state:running")) {
                span.name { "running" }
                span class={ "much " @if pipeline.running.count > 0 { "running" } } { (count(pipeline.running.count)) small { "/" (slots) } }
                @if let Some(at) = pipeline.running.since { span.age { (since(at)) } }
            }
            span.arrow aria-hidden="true" { "→" }
            (stage("retrying", "retrying", &pipeline.retrying, "state:retrying"))
            span.arrow aria-hidden="true" { "→" }
            a.stage href=(view.link("/dead-letters")) {
                span.name { "dead" } span class={ "much " @if pipeline.dead.count > 0 { "dead" } } { (count(pipeline.dead.count)) }
                @if let Some(at) = pipeline.dead.since { span.age { (since(at)) } }
            }
            span.aside {
                (stage("scheduled", "scheduled", &pipeline.scheduled, "state:scheduled"))
                (stage("held", "paused", &pipeline.held, "state:held"))
                (stage("parked", "paused", &pipeline.parked, "state:parked"))
            }
        }
    }
}

async fn attention(
    view: &View<'_>,
    troubles: &[Check],
    dead: u64,
    outboxes: &[Markup],
) -> Result<Markup, Problem> {
    let families = if dead > 0 {
        view.app.reading.dead_families(&Default::default(), FAMILIES).await?.items
    } else {
        Vec::new()
    };
    Ok(html! {
        section.card.attention {
            h2 { "Needs attention" }
            @if families.is_empty() && troubles.is_empty() && outboxes.is_empty() {
                p.muted { "Nothing. There are no dead letters, and all checks pass." }
            }
            ul.plain {
                @for family in &families {
                    li {
                        span.badge.dead { span.glyph aria-hidden="true" { "✕" } " " (count(family.count)) " dead" }
                        span.grow { strong { (family.kind) } " " (components::first_line(family.last_error.as_deref().unwrap_or(family.reason.as_str()))) }
                        a.button href=(view.link(&format!("/dead-letters?kind={}&reason={}&fingerprint={}", components::escape_query(&family.kind), family.reason, components::escape_query(family.fingerprint.as_deref().unwrap_or_default())))) { "Open" }
                    }
                }
                @for outbox in outboxes { (outbox) }
                @for check in troubles {
                    li {
                        @if check.finding == Finding::Failure { span.badge.dead { "✕ " (check.check.as_str()) } }
                        @else { span.badge.retrying { "! " (check.check.as_str()) } }
                        span.grow { (check.message) @if let Some(remedy) = &check.remedy { span.muted { " " (remedy) } } }
                    }
                }
            }
        }
    })
}

fn running_now(view: &View<'_>, running: &[RunningView]) -> Markup {
    html! {
        section.card {
            h2 { "Running now" }
            @if running.is_empty() { p.muted { "No job is running." } @if view.can(Scope::Operate) { p { a.button href=(view.link("/enqueue")) { "Enqueue a job" } } } }
            @else {
                table {
                    thead { tr { th scope="col" { "Job" } th scope="col" { "Kind" } th scope="col" { "Node" } th scope="col" { "Duration" } } }
                    tbody {
                        @for job in running {
                            tr data-key=(job.id) {
                                td { a href=(view.link(&format!("/jobs/{}", job.id))) { (job.id) } }
                                td.grow {
                                    (job.manifest.as_deref().unwrap_or(&job.kind))
                                    @if let Some(progress) = &job.progress {
                                        " " progress value=(format!("{:.3}", progress.fraction)) max="1" title=(progress.text) {}
                                    }
                                    @if job.cancelling { " " span.badge.cancelled { "cancelling" } }
                                }
                                td.whole { (job.node.as_deref().unwrap_or("–")) }
                                td.number { (since(job.claimed_at)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn next_hour(view: &View<'_>, upcoming: &[UpcomingView]) -> Markup {
    html! {
        section.card {
            h2 { "Next 60 minutes" }
            @if upcoming.is_empty() { p.muted { "No manifest is due within the next hour. To add one:" } (components::cli_hint("lineclear manifest apply -f orders.toml")) }
            @else {
                table {
                    thead { tr { th scope="col" { "Manifest" } th scope="col" { "Group" } th scope="col" { "Due" } } }
                    tbody {
                        @for manifest in upcoming {
                            tr data-key=(manifest.key) {
                                td.grow { a href=(view.link(&format!("/jobs?q=manifest:{}", components::escape_query(manifest.key.as_str())))) { (manifest.key) } }
                                td { (manifest.group.as_deref().unwrap_or("–")) }
                                td.number { (moment(manifest.next_due_at)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// First steps on an empty database.
fn first_steps(view: &View<'_>, condition: &HealthFacts) -> Markup {
    let alive: Vec<&str> =
        condition.nodes.iter().filter(|node| node.live).map(|node| node.name.as_str()).collect();
    html! {
        section.card.first {
            h2 { "First steps" }
            ol {
                li.done[!alive.is_empty()] {
                    @if alive.is_empty() { "Start a node" (components::cli_hint("lineclear serve")) }
                    @else { "✓ A node is alive: " (alive.join(", ")) }
                }
                li {
                    "Enqueue a job of any kind, with any JSON. It waits until a node runs its kind."
                    (components::cli_hint("lineclear job enqueue hello --input '{\"name\": \"you\"}'"))
                    @if view.can(Scope::Operate) { a.button href=(view.link("/enqueue")) { "Enqueue a job" } }
                }
                li {
                    "Or apply a file of manifests, which says what runs when."
                    (components::cli_hint("lineclear manifest apply -f orders.toml"))
                    @if view.can(Scope::Admin) { a.button.primary href=(view.link("/samples")) { "Load sample manifests" } }
                }
                li { "Watch it run: this page updates by itself." }
            }
        }
    }
}
