//! `lineclear lock break`: takes a lock away from its holder.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use lineclear_lock::{Inspection, LockEventKind, LockName, Locks};
use serde::Serialize;

use super::target::{LockTarget, failure, never_held, usage};
use crate::failure::Failure;
use crate::os_user::os_user;
use crate::output::print_stderr;
use crate::output::{print, print_json, sanitize};

/// Number of latest events that are searched for the break.
const EVENTS_READ: u32 = 20;

const EXAMPLES: &str = "\
Use it for a holder that is frozen or unreachable. The holder learns of it when it next renews the lock, within seconds, and may continue \
until then; a command under `lock run` is ended. Its fenced transactions are refused at once.

Examples:
  lineclear lock explain nightly-backup
  lineclear lock break nightly-backup --note 'machine b7 hangs since 3:00' --yes";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Break {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    target: LockTarget,
    /// Reason, recorded in the history of the lock
    #[arg(long, value_name = "REASON")]
    note: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct Broken<'a> {
    name: &'a str,
    holder: &'a str,
    epoch: i64,
    by_whom: &'a str,
    note: &'a str,
    recorded: bool,
}

impl Break {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let name = LockName::new(&self.name).map_err(usage)?;
        let note = self.note.trim();
        if note.is_empty() {
            return Err(Failure::usage(
                "--note must not be empty: it is recorded in the history of the lock",
            ));
        }
        if !self.yes && !std::io::stdin().is_terminal() {
            return Err(Failure::usage(
                "standard input is not a terminal, so this cannot be confirmed; add --yes to break the lock without confirmation",
            ));
        }
        let locks = self.target.open_for(name.as_str()).await?;
        let seen = locks.inspect(name.as_str()).await.map_err(failure)?;
        let Some(seen) = seen else { return Err(not_a_lock(&locks, &name).await?) };
        let holder = &seen.holding.holder;
        if seen.holding.ends_in.is_none() {
            let why = format!("lock {:?} is free; {holder} held it last", name.as_str());
            return Err(Failure::coded(5, why));
        }
        if !self.yes && !is_confirmed(&name, &seen)? {
            return Err(Failure::failed("not confirmed; nothing was changed"));
        }
        let by_whom = by_whom(&locks);
        if !locks.break_lock(name.as_str(), &seen, &by_whom, Some(note)).await.map_err(failure)? {
            let why = format!("the holder of lock {:?} has changed; nothing was done", name.as_str());
            return Err(Failure::coded(5, why).hint("run `lineclear lock explain` again"));
        }
        let recorded = is_recorded(&locks, &name, &seen).await;
        if !recorded {
            print_stderr(
                "lineclear: the break was not recorded; name a database with --registry to keep a history\n",
            );
        }
        match self.json {
            true => {
                let epoch = seen.holding.epoch.get();
                print_json(&Broken {
                    name: name.as_str(),
                    holder,
                    epoch,
                    by_whom: &by_whom,
                    note,
                    recorded,
                })?;
            }
            false => print(&format!(
                "lock {:?} of {}, holder number {}, is broken and free\n",
                name.as_str(),
                sanitize(holder),
                seen.holding.epoch
            ))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The failure for a lock that its store does not know. Roles of scheduler nodes are recorded like locks, and are none.
async fn not_a_lock(locks: &Locks, name: &LockName) -> Result<Failure, Failure> {
    let leases = match locks.registry() {
        Some(registry) => registry.lease(name.as_str()).await.map_err(failure)?,
        None => Vec::new(),
    };
    Ok(match leases.first() {
        None => never_held(name.as_str()),
        Some(lease) => {
            let why = format!(
                "{:?} is recorded, but this store has no such lock; it cannot be broken here",
                name.as_str()
            );
            Failure::coded(5, why).hint(format!("stop the node: {}", lease.node))
        }
    })
}

/// Asks for confirmation: the name of the lock must be typed.
fn is_confirmed(name: &LockName, seen: &Inspection) -> Result<bool, Failure> {
    print_stderr(&format!(
        "Lock {:?} is held by {}, holder number {}.\nIt may continue until it learns that the lock is broken. To break it, type the lock's name: ",
        name.as_str(),
        seen.holding.holder,
        seen.holding.epoch
    ));
    let mut typed = String::new();
    let read = std::io::stdin().lock().read_line(&mut typed);
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(typed.trim_end_matches(['\n', '\r']) == name.as_str())
}

/// Who broke the lock, for the history.
fn by_whom(locks: &Locks) -> String {
    format!("{}@{}", os_user(), locks.holder().machine)
}

/// Whether the history has the break. A lock is broken even if that cannot be recorded.
async fn is_recorded(locks: &Locks, name: &LockName, seen: &Inspection) -> bool {
    let Some(registry) = locks.registry() else { return false };
    let events = registry.history(Some(name.as_str()), None, EVENTS_READ).await.unwrap_or_default();
    events.iter().any(|event| event.what == LockEventKind::Broken && event.epoch == seen.holding.epoch)
}
