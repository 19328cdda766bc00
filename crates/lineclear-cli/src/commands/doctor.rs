//! `lineclear doctor`: looks at everything that may be wrong, and says what to do about it. Changes nothing.

mod here;

use std::process::ExitCode;

use clap::Args;
use lineclear_model::doctor::{Check, CheckName, Finding};
use serde_json::{Value, json};

use crate::api::{Api, At, Json};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::show::{Look, check};

const EXAMPLES: &str = "Examples:
  lineclear doctor
  lineclear doctor --db postgres://scheduler@db.internal/app
  lineclear doctor --server http://scheduler.internal:7171
  lineclear doctor --json | jq '.checks[] | select(.finding == \"failure\")'

Looks at the database that `serve` would take from here, unless told otherwise. Changes nothing. Ends with 10 if a check failed, with 0 if
there are warnings only. Every check: docs/doctor.md.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    at: At,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        let checks = runtime.block_on(self.checks())?;
        let healthy = checks.iter().all(|check| text(check, "finding") != Finding::Failure.as_str());
        if self.at.json {
            let report = Json::from(json!({"healthy": healthy}));
            print_json(&report.with("checks", &Json::list(checks.iter())))?;
        } else {
            print(&shown(&checks, &Look::here()))?;
        }
        Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(10) })
    }

    /// Those of this machine, and those of the database or the server that is asked.
    async fn checks(&self) -> Result<Vec<Json>, Failure> {
        let (mut checks, config) = here::checks(&self.at);
        let api = if self.at.asks_a_server() {
            self.at.api().await?
        } else {
            match self.at.as_it_is(config.as_ref()).await {
                Some(Ok(api)) => api,
                Some(Err(check)) => {
                    checks.push(check);
                    return Ok(values(checks));
                }
                // Nobody knows which database it would be.
                None => return Ok(values(checks)),
            }
        };
        if let Api::Server { .. } = &api {
            checks.push(here::clock(&api).await);
        }
        let answer = api.get("/doctor").await;
        api.finish().await;
        let theirs = answer?.entries("checks");
        Ok([values(checks), theirs].concat())
    }
}

fn values(checks: Vec<Check>) -> Vec<Json> {
    checks.into_iter().map(|check| Json::from(json!(check))).collect()
}

fn text<'a>(check: &'a Value, name: &str) -> &'a str {
    check.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn shown(checks: &[Json], look: &Look) -> String {
    if !look.is_terminal {
        let rows: String = checks.iter().map(|one| check::tabbed(one)).collect();
        return format!("FINDING\tGROUP\tCHECK\tSAYS\tTODO\tSQL\n{rows}");
    }
    let (mut shown, mut group) = (String::new(), "");
    for one in checks {
        if text(one, "group") != group {
            group = text(one, "group");
            let gap = if shown.is_empty() { "" } else { "\n" };
            shown.push_str(&format!("{gap}{}\n", crate::output::plain(group)));
        }
        shown.push_str(&check::check(one, look));
    }
    let count =
        |finding: Finding| checks.iter().filter(|check| text(check, "finding") == finding.as_str()).count();
    let sum = match (count(Finding::Failure), count(Finding::Warning)) {
        (0, 0) => "all is well".to_owned(),
        (failures, warnings) => format!("failures: {failures}, warnings: {warnings}"),
    };
    format!("{shown}\n{sum}\n")
}

/// A database that is not there.
pub(crate) fn missing(file: &std::path::Path, chosen: bool) -> Check {
    let says = format!("there is no file {}", file.display());
    match chosen {
        true => Check::failure(
            CheckName::Reachable,
            says,
            "is its name right? `lineclear serve` or `lineclear db migrate` makes one",
        ),
        // Before the first start.
        false => Check::warning(
            CheckName::Reachable,
            says,
            "`lineclear serve` makes one: nothing was started here yet",
        ),
    }
}
