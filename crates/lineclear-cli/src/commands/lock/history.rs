//! `lineclear lock history`: what the registry recorded about a lock.

use std::process::ExitCode;

use clap::Args;
use lineclear_lock::{LockEvent, LockEventKind, LockName};

use super::report::{EventReport, moment, short_holder};
use super::target::{LockTarget, failure, never_held, registry_of, usage};
use crate::failure::Failure;
use crate::output::{aligned_rows, print, print_json};

const EXAMPLES: &str = "\
Examples:
  lineclear lock history nightly-backup
  lineclear lock history nightly-backup -n 100 --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct History {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    target: LockTarget,
    /// Maximum number of events, newest first
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl History {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let name = LockName::new(&self.name).map_err(usage)?;
        let locks = self.target.open_for(name.as_str()).await?;
        let registry = registry_of(&locks, "they have no history")?;
        let events = registry.history(Some(name.as_str()), None, self.limit).await.map_err(failure)?;
        if events.is_empty() && locks.read(name.as_str()).await.map_err(failure)?.is_none() {
            return Err(never_held(name.as_str()));
        }
        match self.json {
            true => print_json(&events.iter().map(EventReport::from).collect::<Vec<_>>())?,
            false if events.is_empty() => print("no events are recorded\n")?,
            false => print(&aligned_rows(
                &events.iter().map(|e| vec![moment(e.at), describe(e)]).collect::<Vec<_>>(),
            ))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// An event as a sentence without a full stop.
pub(super) fn describe(event: &LockEvent) -> String {
    let (holder, number) = (short_holder(&event.holder), event.epoch);
    let why = event.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    match (event.what, &event.before) {
        (LockEventKind::Taken, Some(before)) => {
            format!("{holder} acquired it as holder number {number}, after {}", short_holder(before))
        }
        (LockEventKind::Taken, None) => format!("{holder} acquired it as holder number {number}"),
        (LockEventKind::Lost, _) => format!("{holder}, number {number}, lost it{why}"),
        (LockEventKind::Vanished, _) => {
            format!("{holder}, number {number}, disappeared without releasing it{why}")
        }
        (LockEventKind::Broken, _) => {
            let user = event.by_whom.as_deref().unwrap_or("a user");
            format!("{user} broke it; {holder}, number {number}, had held it{why}")
        }
    }
}
