//! `lineclear lock show` and `lineclear lock explain`: one lock, as its store and the registry see it.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use lineclear_lock::{Explanation, LockName};

use super::place::{Place, failure, never_held, usage};
use super::report::{LockReport, long, moment, times};
use super::sentences::sentences;
use crate::failure::Failure;
use crate::output::{plain, print, print_json, table};

const EXAMPLES: &str = "\
Examples:
  lineclear lock show nightly-backup
  lineclear lock explain nightly-backup --store postgres://app@db.internal/app
  lineclear lock explain nightly-backup --json";

/// What `explain` and `show` are asked.
#[derive(Args)]
struct Asked {
    /// The lock's name
    name: String,
    #[command(flatten)]
    place: Place,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

impl Asked {
    async fn known(&self) -> Result<Explanation, Failure> {
        let name = LockName::new(&self.name).map_err(usage)?;
        let locks = self.place.look_for(name.as_str()).await?;
        let mut known = locks.explain(name.as_str()).await.map_err(failure)?;
        if let Some(registry) = locks.registry().filter(|_| known.engine.is_none() && known.lease.is_none()) {
            // It may be recorded here and held elsewhere: what a node of the scheduler does, say.
            known.lease = registry.lease(name.as_str()).await.map_err(failure)?.into_iter().next();
        }
        if known.engine.is_none() && known.lease.is_none() && known.history.is_empty() {
            return Err(never_held(name.as_str()));
        }
        Ok(known)
    }
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    #[command(flatten)]
    asked: Asked,
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explain {
    #[command(flatten)]
    asked: Asked,
}

impl Show {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let known = self.asked.known().await?;
        match self.asked.json {
            true => print_json(&LockReport::from(&known))?,
            false => print(&facts(&known))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Explain {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let known = self.asked.known().await?;
        let says = sentences(&known, SystemTime::now());
        match self.asked.json {
            true => print_json(&LockReport::from(&known).saying(says))?,
            false => print(&says.iter().map(|line| plain(line) + "\n").collect::<String>())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One fact for each line.
fn facts(known: &Explanation) -> String {
    let mut rows = vec![("lock", known.name.clone()), ("store", known.promises.backend.to_owned())];
    if let Some(seen) = &known.engine {
        let held = seen.holding.ends_in;
        rows.push((
            if held.is_some() { "held by" } else { "free; last held by" },
            seen.holding.holder.clone(),
        ));
        rows.push(("number", seen.holding.epoch.to_string()));
        if let Some(left) = held.filter(|left| *left != Duration::MAX) {
            rows.push(("ends unless renewed", format!("in {}", long(left))));
        }
        if let Some(alive) = seen.alive.filter(|_| held.is_some()) {
            rows.push(("connection", if alive { "the server sees it" } else { "gone" }.to_owned()));
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
        rows.push(("taken", moment(lease.acquired_at) + &in_a_row));
        rows.extend(lease.released_at.map(|at| ("released", moment(at))));
        rows.push((
            "last heard of",
            format!("{} ({} ago)", moment(lease.renewed_at), long(lease.renewed_ago)),
        ));
        rows.push(("found busy", times(lease.contended)));
    }
    table(&rows.into_iter().map(|(what, is)| vec![what.to_owned(), is]).collect::<Vec<_>>())
}
