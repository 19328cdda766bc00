//! `lineclear doctor`: checks everything that may be wrong, and says what to do about it. Changes nothing.

mod local_checks;

use std::process::ExitCode;

use clap::Args;
use lineclear_model::doctor::{Check, CheckName, Finding};
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget, Json};
use crate::display::{OutputStyle, doctor_check};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::runtime::block_on;

const EXAMPLES: &str = "Examples:
  lineclear doctor
  lineclear doctor --db postgres://scheduler@db.internal/app
  lineclear doctor --server https://scheduler.internal
  lineclear doctor --json | jq '.checks[] | select(.finding == \"failure\")'

Checks the database that `serve` would use here, unless --db or --server is given. Changes nothing. Exits with 10 if a check failed,
with 0 if there are only warnings. docs/doctor.md describes every check.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    target: ApiTarget,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let checks = block_on(self.checks())?;
        let healthy = checks.iter().all(|check| text(check, "finding") != Finding::Failure.as_str());
        if self.target.json {
            let report = Json::from(json!({"healthy": healthy}));
            print_json(&report.with("checks", &Json::list(checks.iter())))?;
        } else {
            print(&render(&checks, &OutputStyle::detect()))?;
        }
        Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(10) })
    }

    /// The checks of this machine, then those of the database or the server.
    async fn checks(&self) -> Result<Vec<Json>, Failure> {
        let (mut checks, config) = local_checks::checks(&self.target);
        let api = if self.target.is_server() {
            self.target.open().await?
        } else {
            match self.target.open_for_doctor(config.as_ref()).await {
                Some(Ok(api)) => api,
                Some(Err(check)) => {
                    checks.push(check);
                    return Ok(values(checks));
                }
                // The settings cannot be read, so the database is unknown.
                None => return Ok(values(checks)),
            }
        };
        if let ApiClient::Server { .. } = &api {
            checks.push(local_checks::clock(&api).await);
        }
        let response = api.get("/doctor").await;
        api.finish().await;
        let theirs = response?.entries("checks");
        Ok([values(checks), theirs].concat())
    }
}

fn values(checks: Vec<Check>) -> Vec<Json> {
    checks.into_iter().map(|check| Json::from(json!(check))).collect()
}

fn text<'a>(check: &'a Value, name: &str) -> &'a str {
    check.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn render(checks: &[Json], style: &OutputStyle) -> String {
    if !style.is_terminal {
        let rows: String = checks.iter().map(|check| doctor_check::render_tsv(check)).collect();
        return format!("FINDING\tGROUP\tCHECK\tSAYS\tTODO\tSQL\n{rows}");
    }
    let (mut shown, mut group) = (String::new(), "");
    for one in checks {
        if text(one, "group") != group {
            group = text(one, "group");
            let gap = if shown.is_empty() { "" } else { "\n" };
            shown.push_str(&format!("{gap}{}\n", crate::output::sanitize(group)));
        }
        shown.push_str(&doctor_check::render(one, style));
    }
    let count =
        |finding: Finding| checks.iter().filter(|check| text(check, "finding") == finding.as_str()).count();
    let sum = match (count(Finding::Failure), count(Finding::Warning)) {
        (0, 0) => "all checks passed".to_owned(),
        (failures, warnings) => format!("failures: {failures}, warnings: {warnings}"),
    };
    format!("{shown}\n{sum}\n")
}

/// The check of a database file that does not exist.
pub(crate) fn missing_file(file: &std::path::Path, is_named: bool) -> Check {
    let message = format!("file {} does not exist", file.display());
    match is_named {
        true => Check::failure(
            CheckName::Reachable,
            message,
            "check the name; `lineclear serve` or `lineclear db migrate` creates the file",
        ),
        // Before the first start.
        false => Check::warning(
            CheckName::Reachable,
            message,
            "`lineclear serve` creates it; nothing was started here yet",
        ),
    }
}
