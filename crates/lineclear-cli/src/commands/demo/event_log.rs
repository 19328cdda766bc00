//! What happens, told line by line: for people, or as JSON.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Instant;

use serde::Serialize;

use super::cluster::Heard;
use crate::output::{print, print_json};

pub(super) struct Story {
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

impl Story {
    pub(super) fn new(json: bool) -> Story {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Story { json, colour, begun: Instant::now(), started: HashMap::new(), counts: Counts::default() }
    }

    pub(super) fn say(&mut self, text: &str) {
        self.tell("note", None, None, text);
    }

    pub(super) fn node(&mut self, event: &str, node: &str, text: &str) {
        self.counts.killed += u64::from(event.ends_with("_killed"));
        self.tell(event, Some(node), None, text);
    }

    pub(super) fn heard(&mut self, Heard { node, said }: Heard) {
        let job = Some((said.job.as_str(), said.kind.as_str()));
        let error = said.error.as_deref().unwrap_or_default();
        match said.what.as_str() {
            "started" => {
                if let Some(claim_no) = said.claim_no.filter(|&no| no > 1) {
                    self.tell("started_again", Some(&node), job, &format!("runs again, claim {claim_no}"));
                }
                self.started.insert(said.job.clone(), Instant::now());
            }
            "completed" => {
                self.counts.completed += 1;
                let took = self.started.remove(&said.job).map_or(0, |at| at.elapsed().as_millis());
                self.tell("completed", Some(&node), job, &format!("completed in {took} ms"));
            }
            "failed" => {
                self.counts.failed += 1;
                self.tell("failed", Some(&node), job, &format!("failed, and is tried again: {error}"));
            }
            "dead_letter" => {
                self.counts.dead += 1;
                self.tell("dead_letter", Some(&node), job, &format!("is a dead letter now: {error}"));
            }
            _ => {}
        }
    }

    pub(super) fn sum_up(&mut self) {
        let Counts { completed, failed, dead, killed } = self.counts;
        let text = format!(
            "jobs completed: {completed}, failed and tried again: {failed}, dead letters: {dead}; nodes killed: {killed}"
        );
        self.tell("summary", None, None, &text);
    }

    fn tell(&mut self, event: &str, node: Option<&str>, job: Option<(&str, &str)>, text: &str) {
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
            "leader_killed" | "node_killed" => ("⚡", "31"),
            "leader" | "leader_changed" => ("★", "36"),
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
        let _ = print(&format!("{:02}:{:02}  {mark} {who}{text}\n", seconds / 60, seconds % 60));
    }
}
