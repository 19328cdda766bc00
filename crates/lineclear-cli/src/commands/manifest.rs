//! `lineclear manifest`: standing orders.

mod apply;
mod backfill;
mod diff;
mod files;
mod import;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use lineclear_model::Name;
use serde_json::{Value, json};

use super::ask::{
    All, Much, asking_about, collected, explained, only, say_made, say_or_json, show_one, show_rows,
};
use super::sure::Sure;
use crate::api::{Api, At, Json, query};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::show::{Cell, Column};

const EXAMPLES: &str = "Examples:
  lineclear manifest list
  lineclear manifest diff -f jobs.toml
  lineclear manifest apply -f jobs.toml
  crontab -l | lineclear manifest import --crontab - --out jobs.toml
  lineclear manifest run nightly
  lineclear manifest explain nightly
  lineclear manifest pause nightly";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Lists manifests.
    #[command(after_help = "Examples:\n  lineclear manifest list\n  lineclear manifest list --all --json")]
    List(All),
    /// Shows one manifest.
    #[command(
        after_help = "Examples:\n  lineclear manifest get nightly\n  lineclear manifest get nightly --json"
    )]
    Get(One),
    /// Makes manifests and groups as files say: says what that changes, and changes it.
    Apply(apply::Apply),
    /// Shows what files would change, field by field.
    Diff(diff::Diff),
    /// Makes a manifest file of a crontab.
    Import(import::Import),
    /// Removes a manifest: no new ticks. What it made stays in the history.
    #[command(
        after_help = "Examples:\n  lineclear manifest delete nightly\n  lineclear manifest delete nightly --yes"
    )]
    Delete(Delete),
    /// Makes a job of a manifest now.
    #[command(after_help = "Examples:\n  lineclear manifest run nightly")]
    Run(One),
    /// Pauses a manifest: no new ticks, and its waiting jobs step aside.
    #[command(after_help = "Examples:\n  lineclear manifest pause nightly")]
    Pause(One),
    /// Resumes a manifest. Ticks that fell into the pause are skipped.
    #[command(after_help = "Examples:\n  lineclear manifest resume nightly")]
    Resume(One),
    /// Shows when a manifest is due next.
    #[command(
        after_help = "Examples:\n  lineclear manifest next nightly\n  lineclear manifest next nightly -n 20"
    )]
    Next(Next),
    /// Says why a manifest makes no job now, gate by gate.
    #[command(after_help = "Examples:\n  lineclear manifest explain nightly")]
    Explain(One),
    /// Lists the jobs of a manifest, the newest first.
    #[command(
        after_help = "Examples:\n  lineclear manifest history nightly\n  lineclear manifest history nightly --limit 5\n  lineclear manifest history nightly -q 'state:failed since:7d'"
    )]
    History(History),
    /// Makes jobs of ticks in the past that did not run.
    Backfill(backfill::Backfill),
}

/// One manifest.
#[derive(Args)]
pub(crate) struct One {
    /// The manifest's key
    key: String,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    sure: Sure,
}

#[derive(Args)]
pub(crate) struct Next {
    #[command(flatten)]
    one: One,
    /// How many
    #[arg(short, value_name = "N", default_value_t = 5)]
    n: u32,
}

#[derive(Args)]
pub(crate) struct History {
    #[command(flatten)]
    one: One,
    /// Which of them, such as 'state:failed since:24h': the words of docs/search.md
    #[arg(short, long = "query", value_name = "QUERY")]
    query: Option<String>,
    #[command(flatten)]
    much: Much,
}

fn of(view: &Json, path: &str) -> Cell {
    Cell::text(view.pointer(path))
}

/// A schedule, in as few words as it has.
fn schedule(view: &Json) -> Cell {
    let Some(schedule) = view.pointer("/manifest/schedule").and_then(Value::as_object) else {
        return Cell::Nothing;
    };
    let words = ["cron", "every", "once", "after", "on_demand", "tz"].iter().filter_map(|name| {
        let value = schedule.get(*name)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(match *name {
            "cron" | "tz" => text,
            "on_demand" => "on demand".to_owned(),
            name => format!("{name} {text}"),
        })
    });
    Cell::Text(words.collect::<Vec<_>>().join(" "))
}

fn state(view: &Json) -> Cell {
    let word = match (
        view.get("held").and_then(Value::as_bool),
        view.pointer("/manifest/enabled").and_then(Value::as_bool),
    ) {
        _ if view.get("unreadable").is_some_and(|why| !why.is_null()) => "unreadable",
        (_, Some(false)) => "paused",
        (Some(true), _) => "held",
        _ => "enabled",
    };
    Cell::State(word.to_owned())
}

const COLUMNS: &[Column] = &[
    Column { head: "KEY", of: |view| of(view, "/key") },
    Column { head: "STATE", of: state },
    Column { head: "KIND", of: |view| of(view, "/manifest/kind") },
    Column { head: "SCHEDULE", of: schedule },
    Column { head: "NEXT", of: |view| Cell::time(view.get("next_due_at")) },
    Column { head: "SUCCEEDED", of: |view| Cell::time(view.get("last_success_at")) },
    Column { head: "GROUP", of: |view| of(view, "/manifest/group") },
];

const DETAILS: &[Column] = &[
    Column { head: "key", of: |view| of(view, "/key") },
    Column { head: "state", of: state },
    Column { head: "unreadable", of: |view| of(view, "/unreadable") },
    Column { head: "kind", of: |view| of(view, "/manifest/kind") },
    Column { head: "schedule", of: schedule },
    Column { head: "next", of: |view| Cell::time(view.get("next_due_at")) },
    Column { head: "succeeded", of: |view| Cell::time(view.get("last_success_at")) },
    Column { head: "group", of: |view| of(view, "/manifest/group") },
    Column { head: "route", of: |view| of(view, "/manifest/route") },
    Column { head: "retries", of: |view| of(view, "/manifest/retries") },
    Column { head: "timeout", of: |view| of(view, "/manifest/timeout") },
    Column { head: "overlap", of: |view| of(view, "/manifest/overlap") },
    Column { head: "owner", of: |view| of(view, "/manifest/owner") },
    Column {
        head: "input",
        of: |view| Cell::written(view.field("manifest").and_then(|it| it.field("input"))),
    },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(all) => {
                all.show("manifests", COLUMNS, "no manifests; `lineclear manifest apply -f FILE` makes them")
            }
            Command::Get(one) => one.ask(async |api, at, path| show_one(at, &api.get(path).await?, DETAILS)),
            Command::Apply(apply) => apply.run(),
            Command::Diff(diff) => diff.run(),
            Command::Import(import) => import.run(),
            Command::Delete(Delete { one, sure }) => {
                let key = one.key.clone();
                one.ask(async |api, at, path| {
                    sure.of_one(&format!("manifest {key} and its waiting jobs are removed"))?;
                    let answer = api.ask("DELETE", path, None).await?;
                    say_or_json(at, &answer, &format!("{key} removed"))
                })
            }
            Command::Run(one) => one.ask(async |api, at, path| {
                let made = api.post(&format!("{path}/run"), json!({})).await?;
                say_made(at, &made)
            }),
            Command::Pause(one) => one.switch("pause", "paused"),
            Command::Resume(one) => one.switch("resume", "resumed"),
            Command::Next(next) => {
                let n = next.n.to_string();
                next.one.ask(async |api, at, path| {
                    let answer = api.get(&format!("{path}/next{}", query(&[("n", Some(n))]))).await?;
                    if at.json {
                        print_json(&answer)?;
                        return Ok(ExitCode::SUCCESS);
                    }
                    let lists = answer.as_object().into_iter().flat_map(|all| all.values());
                    for tick in lists.filter_map(Value::as_array).flatten() {
                        let text =
                            tick.as_str().or_else(|| tick.as_object()?.values().find_map(Value::as_str));
                        print(&format!("{}\n", text.unwrap_or_default()))?;
                    }
                    if let Some(through) = answer.get("excluded_through").and_then(Value::as_str) {
                        let why = "lineclear manifest explain says why";
                        crate::failure::say(&format!(
                            "every later tick up to {through} is excluded; {why}\n"
                        ));
                    }
                    Ok(ExitCode::SUCCESS)
                })
            }
            Command::Explain(one) => {
                one.ask(async |api, at, path| explained(at, &api.get(&format!("{path}/explain")).await?))
            }
            Command::History(history) => {
                let key = history.one.key.clone();
                history.one.ask(async |api, at, path| {
                    if Name::new(&key).is_err() {
                        // Nothing can be named so, and it would be more than one word of a query.
                        api.get(path).await?;
                    }
                    let asked = [(
                        "q",
                        Some(
                            format!("manifest:{key} {}", history.query.unwrap_or_default())
                                .trim_end()
                                .to_owned(),
                        ),
                    )];
                    let (jobs, more) = collected(api, ("jobs", &asked), &history.much).await?;
                    // A manifest that was removed has jobs; one that never was has none.
                    if only(&jobs).is_empty() {
                        api.get(path).await?;
                    }
                    show_rows(at, &jobs, more, super::job::COLUMNS, "no jobs of it yet")
                })
            }
            Command::Backfill(backfill) => backfill.run(),
        }
    }
}

impl One {
    fn ask(
        self,
        what: impl AsyncFnOnce(&Api, &At, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        asking_about(&self.at, ("manifests", Some("key")), &self.key, what)
    }

    fn switch(self, verb: &'static str, done: &'static str) -> Result<ExitCode, Failure> {
        let key = self.key.clone();
        self.ask(async |api, at, path| {
            let answer = api.post(&format!("{path}/{verb}"), Value::Null).await?;
            say_or_json(at, &answer, &format!("{key} {done}"))
        })
    }
}
