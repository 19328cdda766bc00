//! The events of the demo, a line each: text or JSON.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Instant;

use serde::Serialize;

use super::cluster::NodeEvent;
use crate::output::print_json;

pub(super) struct EventLog {
    json: bool,
    colour: bool,
    begun: Instant,
    started: HashMap<String, Instant>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    completed: u64,
    failed: u64,
    dead: u64,
    killed: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    at_ms: u128,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    text: &'a str,
}

impl EventLog {
    pub(super) fn new(json: bool) -> EventLog {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        EventLog { json, colour, begun: Instant::now(), started: HashMap::new(), counts: Counts::default() }
    }

    pub(super) fn note(&mut self, text: &str) {
        self.print("note", None, None, text);
    }

    pub(super) fn node(&mut self, event: &str, node: &str, text: &str) {
        self.counts.killed += u64::from(event.ends_with("_killed"));
        self.print(event, Some(node), None, text);
    }

    pub(super) fn order(&mut self, number: i64) {
        self.print(
            "order_placed",
            None,
            None,
            &format!("order {number} placed, with its message in the outbox"),
        );
    }

    pub(super) fn job(&mut self, NodeEvent { node, event }: NodeEvent) {
        let job = Some((event.job.as_str(), event.kind.as_str()));
        let error = event.error.as_deref().unwrap_or_default();
        match event.what.as_str() {
            "started" => {
                if let Some(claim_no) = event.claim_no.filter(|&no| no > 1) {
                    self.print("started_again", Some(&node), job, &format!("runs again, claim {claim_no}"));
                }
                self.started.insert(event.job.clone(), Instant::now());
            }
            "completed" => {
                self.counts.completed += 1;
                let took = self.started.remove(&event.job).map_or(0, |at| at.elapsed().as_millis());
                self.print("completed", Some(&node), job, &format!("completed in {took} ms"));
            }
            "failed" => {
                self.counts.failed += 1;
                self.print("failed", Some(&node), job, &format!("failed, will be retried: {error}"));
            }
            "dead_letter" => {
                self.counts.dead += 1;
                self.print("dead_letter", Some(&node), job, &format!("became a dead letter: {error}"));
            }
            _ => {}
        }
    }

    pub(super) fn summary(&mut self) {
        let Counts { completed, failed, dead, killed } = self.counts;
        let text = format!(
            "jobs completed: {completed}, failed and retried: {failed}, dead letters: {dead}; nodes killed: {killed}"
        );
        self.print("summary", None, None, &text);
    }

    fn print(&mut self, event: &str, node: Option<&str>, job: Option<(&str, &str)>, text: &str) {
        let at = self.begun.elapsed();
        if self.json {
            let (job, kind) = (job.map(|(id, _)| id), job.map(|(_, kind)| kind));
            let _ = print_json(&Line { at_ms: at.as_millis(), event, node, job, kind, text });
            return;
        }
        let (mark, colour) = match event {
            "completed" => ("✓", "32"),
            "failed" => ("✕", "33"),
            "dead_letter" => ("†", "31"),
            "leader_killed" | "runner_killed" | "node_killed" => ("⚡", "31"),
            "leader" | "leader_changed" => ("★", "36"),
            "runner" | "runner_moved" => ("✉", "36"),
            "started_again" => ("↻", "33"),
            _ => ("·", "0"),
        };
        let mark = if self.colour { format!("\x1b[{colour}m{mark}\x1b[0m") } else { mark.to_owned() };
        let seconds = at.as_secs();
        let who = match (node, job) {
            (Some(node), Some((id, kind))) => format!("{node:8} {kind:13} job {id:<4} "),
            (Some(node), None) => format!("{node:8} "),
            _ => String::new(),
        };
        let _ =
            crate::output::print(&format!("{:02}:{:02}  {mark} {who}{text}\n", seconds / 60, seconds % 60));
    }
}
