//! `lineclear manifest`: manifests and their files.

mod apply;
mod backfill;
mod diff;
mod files;
mod import;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use lineclear_model::Name;
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget, Json, query_string};
use crate::api_command::{
    ListArgs, PageArgs, fetch_pages, items, print_answer, print_enqueued, print_explanation, print_one,
    print_rows, with_resource,
};
use crate::args::Confirm;
use crate::display::{Cell, Column};
use crate::failure::Failure;
use crate::output::{print, print_json};

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
    /// List manifests.
    #[command(after_help = "Examples:\n  lineclear manifest list\n  lineclear manifest list --all --json")]
    List(ListArgs),
    /// Show one manifest.
    #[command(
        after_help = "Examples:\n  lineclear manifest get nightly\n  lineclear manifest get nightly --json"
    )]
    Get(One),
    /// Apply manifest files: create, change and remove manifests and groups.
    Apply(apply::Apply),
    /// Show what `apply` would change, field by field.
    Diff(diff::Diff),
    /// Convert a crontab to a manifest file.
    Import(import::Import),
    /// Delete a manifest and its waiting jobs; its history stays.
    #[command(
        after_help = "Examples:\n  lineclear manifest delete nightly\n  lineclear manifest delete nightly --yes"
    )]
    Delete(Delete),
    /// Enqueue a job of a manifest now.
    #[command(after_help = "Examples:\n  lineclear manifest run nightly")]
    Run(One),
    /// Pause a manifest: no new ticks, and its waiting jobs do not run.
    #[command(after_help = "Examples:\n  lineclear manifest pause nightly")]
    Pause(One),
    /// Resume a manifest; ticks during the pause are skipped.
    #[command(after_help = "Examples:\n  lineclear manifest resume nightly")]
    Resume(One),
    /// Show the next ticks of a manifest.
    #[command(
        after_help = "Examples:\n  lineclear manifest next nightly\n  lineclear manifest next nightly -n 20"
    )]
    Next(Next),
    /// Explain why a manifest enqueues no job now, gate by gate.
    #[command(after_help = "Examples:\n  lineclear manifest explain nightly")]
    Explain(One),
    /// List the jobs of a manifest, newest first.
    #[command(
        after_help = "Examples:\n  lineclear manifest history nightly\n  lineclear manifest history nightly --limit 5\n  lineclear manifest history nightly -q 'state:failed since:7d'"
    )]
    History(History),
    /// Enqueue jobs of past ticks that did not run.
    Backfill(backfill::Backfill),
}

/// One manifest.
#[derive(Args)]
pub(crate) struct One {
    /// Key of the manifest
    key: String,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Args)]
pub(crate) struct Next {
    #[command(flatten)]
    one: One,
    /// Number of ticks
    #[arg(short, value_name = "N", default_value_t = 5)]
    n: u32,
}

#[derive(Args)]
pub(crate) struct History {
    #[command(flatten)]
    one: One,
    /// Filter, such as 'state:failed since:24h', see docs/search.md
    #[arg(short, long = "query", value_name = "QUERY")]
    query: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

fn of(view: &Json, path: &str) -> Cell {
    Cell::text(view.pointer(path))
}

/// A schedule in short form.
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
        of: |view| Cell::raw_json(view.field("manifest").and_then(|it| it.field("input"))),
    },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(list) => list.run(
                "manifests",
                COLUMNS,
                "no manifests; `lineclear manifest apply -f FILE` creates them",
            ),
            Command::Get(one) => {
                one.with(async |api, target, path| print_one(target, &api.get(path).await?, DETAILS))
            }
            Command::Apply(apply) => apply.run(),
            Command::Diff(diff) => diff.run(),
            Command::Import(import) => import.run(),
            Command::Delete(Delete { one, confirm }) => {
                let key = one.key.clone();
                one.with(async |api, target, path| {
                    confirm.for_one(&format!("this deletes manifest {key} and its waiting jobs"))?;
                    let answer = api.request("DELETE", path, None).await?;
                    print_answer(target, &answer, &format!("{key} deleted"))
                })
            }
            Command::Run(one) => one.with(async |api, target, path| {
                let made = api.post(&format!("{path}/run"), json!({})).await?;
                print_enqueued(target, &made)
            }),
            Command::Pause(one) => one.post_action("pause", "paused"),
            Command::Resume(one) => one.post_action("resume", "resumed"),
            Command::Next(next) => {
                let n = next.n.to_string();
                next.one.with(async |api, target, path| {
                    let answer = api.get(&format!("{path}/next{}", query_string(&[("n", Some(n))]))).await?;
                    if target.json {
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
                        crate::output::print_stderr(&format!(
                            "every later tick up to {through} is excluded; see lineclear manifest explain\n"
                        ));
                    }
                    Ok(ExitCode::SUCCESS)
                })
            }
            Command::Explain(one) => one.with(async |api, target, path| {
                print_explanation(target, &api.get(&format!("{path}/explain")).await?)
            }),
            Command::History(history) => {
                let key = history.one.key.clone();
                history.one.with(async |api, target, path| {
                    if Name::new(&key).is_err() {
                        // An invalid key could be several filters of the query; the server refuses it.
                        api.get(path).await?;
                    }
                    let query = [(
                        "q",
                        Some(
                            format!("manifest:{key} {}", history.query.unwrap_or_default())
                                .trim_end()
                                .to_owned(),
                        ),
                    )];
                    let (jobs, has_more) = fetch_pages(api, ("jobs", &query), &history.page).await?;
                    // A deleted manifest has jobs; one that never existed has none.
                    if items(&jobs).is_empty() {
                        api.get(path).await?;
                    }
                    print_rows(target, &jobs, has_more, super::job::COLUMNS, "no jobs of this manifest")
                })
            }
            Command::Backfill(backfill) => backfill.run(),
        }
    }
}

impl One {
    fn with(
        self,
        run: impl AsyncFnOnce(&ApiClient, &ApiTarget, &str) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        with_resource(&self.target, ("manifests", Some("key")), &self.key, run)
    }

    fn post_action(self, verb: &'static str, done: &'static str) -> Result<ExitCode, Failure> {
        let key = self.key.clone();
        self.with(async |api, target, path| {
            let answer = api.post(&format!("{path}/{verb}"), Value::Null).await?;
            print_answer(target, &answer, &format!("{key} {done}"))
        })
    }
}
