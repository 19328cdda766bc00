//! `lineclear lock break`: takes a lock away from its holder.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use lineclear_lock::{Inspection, LockName, Locks, What};
use serde::Serialize;

use super::place::{Place, failure, never_held, usage};
use crate::cmd::person::person;
use crate::failure::{Failure, say};
use crate::output::{plain, print, print_json};

/// How many of the last events are looked through for our own.
const LOOK_BACK: u32 = 20;

const EXAMPLES: &str = "\
Its holder is not asked. It hears of it when it next renews the lock, in some seconds, and may go on working until then; a command \
under `lock run` is ended. Its fenced transactions are refused at once. It is meant for a holder that is frozen or cannot be reached.

Examples:
  lineclear lock explain nightly-backup
  lineclear lock break nightly-backup --note 'machine b7 hangs since 3:00' --yes";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Break {
    /// The lock's name
    name: String,
    #[command(flatten)]
    place: Place,
    /// Why; it is recorded in the lock's history
    #[arg(long, value_name = "WHY")]
    note: String,
    /// Does not ask first
    #[arg(short, long)]
    yes: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// What programs get.
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
            return Err(Failure::usage("--note: say why; it is recorded in the lock's history"));
        }
        if !self.yes && !std::io::stdin().is_terminal() {
            return Err(Failure::usage("nobody is there to be asked; add --yes if you are sure"));
        }
        let locks = self.place.look_for(name.as_str()).await?;
        let seen = locks.inspect(name.as_str()).await.map_err(failure)?;
        let Some(seen) = seen else { return Err(not_there(&locks, &name).await?) };
        let holder = &seen.holding.holder;
        if seen.holding.ends_in.is_none() {
            let why = format!("nobody holds lock {:?}; {holder} held it last", name.as_str());
            return Err(Failure::coded(5, why));
        }
        if !self.yes && !is_sure(&name, &seen)? {
            return Err(Failure::failed("nothing was changed"));
        }
        let by_whom = by_whom(&locks);
        if !locks.end_hold(name.as_str(), &seen, &by_whom, Some(note)).await.map_err(failure)? {
            let why = format!("lock {:?} is not held as it was any more; nothing was changed", name.as_str());
            return Err(Failure::coded(5, why).hint("look again with `lineclear lock explain`"));
        }
        let recorded = is_recorded(&locks, &name, &seen).await;
        if !recorded {
            say("lineclear: it could not be recorded; name a database with --registry to have a history\n");
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
                "lock {:?} was taken away from {}, holder number {}; it is free\n",
                name.as_str(),
                plain(holder),
                seen.holding.epoch
            ))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Its store does not know it. What a node of the scheduler does is recorded like a lock, and is none.
async fn not_there(locks: &Locks, name: &LockName) -> Result<Failure, Failure> {
    let leases = match locks.registry() {
        Some(registry) => registry.lease(name.as_str()).await.map_err(failure)?,
        None => Vec::new(),
    };
    Ok(match leases.first() {
        None => never_held(name.as_str()),
        Some(lease) => {
            let why = format!(
                "{:?} is not held by a lock of this store, so that it cannot be broken",
                name.as_str()
            );
            Failure::coded(5, why).hint(format!("stop the node: {}", lease.node))
        }
    })
}

/// Asks a person, who must type the lock's name.
fn is_sure(name: &LockName, seen: &Inspection) -> Result<bool, Failure> {
    say(&format!(
        "Lock {:?} is held by {}, holder number {}.\nIt may go on working until it hears that the lock is gone. To take it away, type the lock's name: ",
        name.as_str(),
        seen.holding.holder,
        seen.holding.epoch
    ));
    let mut typed = String::new();
    let read = std::io::stdin().lock().read_line(&mut typed);
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(typed.trim_end_matches(['\n', '\r']) == name.as_str())
}

/// Who does it, for the record.
fn by_whom(locks: &Locks) -> String {
    format!("{}@{}", person(), locks.holder().machine)
}

/// Whether the history has it: that it could not be written is no reason not to have done it.
async fn is_recorded(locks: &Locks, name: &LockName, seen: &Inspection) -> bool {
    let Some(registry) = locks.registry() else { return false };
    let events = registry.history(Some(name.as_str()), None, LOOK_BACK).await.unwrap_or_default();
    events.iter().any(|event| event.what == What::Broken && event.epoch == seen.holding.epoch)
}
