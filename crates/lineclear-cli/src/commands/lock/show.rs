//! `lineclear lock show`: one lock, as its store and the registry see it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lineclear_lock::{Explanation, LockName};

use super::report::{LockReport, format_duration, moment, times};
use super::target::{LockTarget, failure, never_held, usage};
use crate::failure::Failure;
use crate::output::{aligned_rows, print, print_json};

const EXAMPLES: &str = "\
Examples:
  lineclear lock show nightly-backup
  lineclear lock show nightly-backup --store postgres://app@db.internal/app --json";

/// Arguments of `show` and `explain`.
#[derive(Args)]
pub(super) struct LockArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    target: LockTarget,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl LockArgs {
    /// Reads the lock from its store and from the registry.
    pub(super) async fn read(&self) -> Result<Explanation, Failure> {
        let name = LockName::new(&self.name).map_err(usage)?;
        let locks = self.target.open_for(name.as_str()).await?;
        let mut known = locks.explain(name.as_str()).await.map_err(failure)?;
        if let Some(registry) =
            locks.registry().filter(|_| known.inspection.is_none() && known.lease.is_none())
        {
            // It may be recorded here and held elsewhere, such as the roles of scheduler nodes.
            known.lease = registry.lease(name.as_str()).await.map_err(failure)?.into_iter().next();
        }
        if known.inspection.is_none() && known.lease.is_none() && known.history.is_empty() {
            return Err(never_held(name.as_str()));
        }
        Ok(known)
    }
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    #[command(flatten)]
    args: LockArgs,
}

impl Show {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let known = self.args.read().await?;
        match self.args.json {
            true => print_json(&LockReport::from(&known))?,
            false => print(&facts(&known))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One fact per line.
fn facts(known: &Explanation) -> String {
    let mut rows = vec![("lock", known.name.clone()), ("store", known.promises.backend.to_owned())];
    if let Some(seen) = &known.inspection {
        let held = seen.holding.ends_in;
        rows.push((
            if held.is_some() { "held by" } else { "free; last held by" },
            seen.holding.holder.clone(),
        ));
        rows.push(("number", seen.holding.epoch.to_string()));
        if let Some(left) = held.filter(|left| *left != Duration::MAX) {
            rows.push(("expires unless renewed", format!("in {}", format_duration(left))));
        }
        if let Some(alive) = seen.alive.filter(|_| held.is_some()) {
            rows.push(("connection", if alive { "open" } else { "closed" }.to_owned()));
        }
    }
    if let Some(lease) = &known.lease {
        rows.push(("state", lease.state.to_string()));
        rows.push(("node", lease.node.clone()));
        rows.push(("kind", lease.kind.clone().unwrap_or_else(|| "-".to_owned())));
        rows.push(("since", moment(lease.since)));
        let in_a_row = match lease.holds {
            0 | 1 => String::new(),
            holds => format!(", {holds} times in a row"),
        };
        rows.push(("acquired", moment(lease.acquired_at) + &in_a_row));
        rows.extend(lease.released_at.map(|at| ("released", moment(at))));
        rows.push((
            "renewed",
            format!("{} ({} ago)", moment(lease.renewed_at), format_duration(lease.renewed_ago)),
        ));
        rows.push(("contended", times(lease.contended)));
    }
    aligned_rows(&rows.into_iter().map(|(what, is)| vec![what.to_owned(), is]).collect::<Vec<_>>())
}
