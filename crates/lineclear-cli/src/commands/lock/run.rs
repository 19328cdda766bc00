//! `lineclear lock run`: a command that nobody else runs at the same time.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lineclear_lock::{
    Held, Holding, LockError, LockName, LockOptions, Locks, Lost, RegistryOptions, Released, Right,
};
use lineclear_model::duration;
use rustix::process::Signal;
use tokio::time::timeout;

use super::length;
use super::place::{Place, REACHABLE, in_full, usage};
use super::process::Process;
use super::signals::Signals;
use crate::failure::{Failure, say};
use crate::process::{self, Guard};

/// Exit codes of `lock run`, from `sysexits.h`; everything else is the command's own.
const STORE_DOWN: u8 = 69;
const LOST: u8 = 70;
const BUSY: u8 = 75;

/// How long a busy lock is waited for unless `--wait` says otherwise.
const WAIT: Duration = Duration::from_secs(30);
/// How long a command has to end unless `--grace` says otherwise, and the lock lasts long enough.
const GRACE: Duration = Duration::from_secs(5);

/// How long to try to give a lost lock back.
const RELEASE_LOST: Duration = Duration::from_millis(500);

/// How long to wait until it is recorded that the lock was released.
const RECORD_WITHIN: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Exit codes:
  the command's own, or 128 and the signal that ended it
  2    wrong usage; nothing was run
  69   the store cannot be used; nothing was run
  70   the lock was lost while the command ran; the command was ended
  75   the lock is busy; nothing was run (0 with --on-busy skip)
  126  the command cannot be run
  127  there is no such command

Examples:
  lineclear lock run nightly-backup -- backup.sh --all
  lineclear lock run report --store postgres://app@db.internal/app --on-busy skip -- make report
  lineclear lock run deploy --store redis://cache.internal/0 --wait 5m -- ./deploy.sh
  * * * * * lineclear lock run sync --store /var/lib/sync.db --on-busy skip -- sync   (in a crontab)";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The lock's name; who names the same lock of the same store takes turns
    name: String,
    #[command(flatten)]
    place: Place,
    /// How long the lock outlives this process if it is killed or frozen, or the store away; at least 1s
    #[arg(long, default_value = "10m", value_parser = length)]
    ttl: Duration,
    /// What to do when another holds the lock: end quietly with 0, wait, or end with 75 [default: fail, or wait if --wait is given]
    #[arg(long, value_name = "skip|wait|fail", hide_possible_values = true)]
    on_busy: Option<OnBusy>,
    /// How long to wait for a busy lock [default: 30s]
    #[arg(long, value_parser = length)]
    wait: Option<Duration>,
    /// How long the command has to end after TERM, before KILL, when the lock is lost; at most a fifth of --ttl [default: 5s, or a
    /// tenth of --ttl]
    #[arg(long, value_parser = length)]
    grace: Option<Duration>,
    /// The command and its arguments. It finds the lock's name in LINECLEAR_LOCK, and in LINECLEAR_FENCE a number that grows with
    /// every holder
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnBusy {
    Skip,
    Wait,
    Fail,
}

impl Run {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let (on_busy, within) = self.patience()?;
        let (options, grace) = self.times()?;
        let name = LockName::new(&self.name).map_err(usage)?;
        let backend = self.place.backend(&options)?;
        let registry = self.place.registry(RegistryOptions::default())?;
        if let Some(program) = self.command.first() {
            process::check(program)?;
        }
        let mut signals = Signals::listen()?;
        let mut locks = None;
        let asked = async {
            let opened = match registry {
                Some(registry) => Locks::recorded(backend, options, registry).await?,
                None => Locks::new(backend, options).await?,
            };
            ask(locks.insert(opened.of_kind("command")), &name, within).await
        };
        let asked = tokio::select! {
            biased;
            signal = signals.next() => {
                // A lock that was granted at this moment is given back.
                if let Some(locks) = locks {
                    locks.settled().await;
                }
                return Ok(ExitCode::from(128 + u8::try_from(signal.as_raw()).unwrap_or(0)));
            }
            asked = asked => asked.map_err(store)?,
        };
        match asked {
            Asked::Held(held) => {
                let ended = self.guarded(held, signals, grace).await;
                if let Some(registry) = locks.as_ref().and_then(Locks::registry) {
                    // It is for people to see: neither its failure nor its time is the command's.
                    let recorded = async { registry.written().await.and(registry.sweep().await) };
                    timeout(RECORD_WITHIN, recorded).await.ok();
                }
                ended
            }
            Asked::Busy(_) if on_busy == OnBusy::Skip => Ok(ExitCode::SUCCESS),
            Asked::Busy(holding) => Err(busy(&name, holding, within)),
        }
    }

    /// What to do when it is busy, and how long to wait for it.
    fn patience(&self) -> Result<(OnBusy, Duration), Failure> {
        match (self.on_busy, self.wait) {
            (Some(OnBusy::Wait), wait) => Ok((OnBusy::Wait, wait.unwrap_or(WAIT))),
            (None, Some(wait)) => Ok((OnBusy::Wait, wait)),
            (on_busy, None) => Ok((on_busy.unwrap_or(OnBusy::Fail), Duration::ZERO)),
            (Some(_), Some(_)) => Err(Failure::usage("--wait goes with --on-busy wait only")),
        }
    }

    /// The times of the lock, and the time of grace.
    fn times(&self) -> Result<(LockOptions, Duration), Failure> {
        let usual = LockOptions::with_ttl(self.ttl);
        usual.check().map_err(usage)?;
        let grace = self.grace.unwrap_or_else(|| GRACE.min(self.ttl / 10));
        if grace > self.ttl / 5 {
            let (grace, most) = (duration::format(grace), duration::format(self.ttl / 5));
            let why = format!("--grace: {grace} is too long: at most a fifth of --ttl, {most}");
            return Err(
                Failure::usage(why).hint("the command must have ended before another can have the lock")
            );
        }
        // Trust ends so early that the command is over when the lock can be another's.
        Ok((LockOptions { margin: usual.margin + grace, ..usual }, grace))
    }

    /// Runs the command under the lock.
    async fn guarded(&self, held: Held, signals: Signals, grace: Duration) -> Result<ExitCode, Failure> {
        let right = held.right();
        let ran = self.watched(&right, signals, grace).await;
        let released = match right.lost_why() {
            None => held.release().await,
            // It may still be ours to give back, but nobody should have to wait for that.
            Some(_) => timeout(RELEASE_LOST, held.release()).await.unwrap_or(Ok(Released::NotHeld)),
        };
        let ended = ran?;
        let lost = match (right.lost_why(), released) {
            (Some(why), _) => Some(in_words(why)),
            (None, Ok(Released::NotHeld)) => {
                Some("it was taken away before the command had ended".to_owned())
            }
            (None, Ok(Released::Clean)) => None,
            (None, Err(error)) => {
                let ttl = duration::format(self.ttl);
                say(&format!(
                    "lineclear: the lock was not released, and ends by itself within {ttl}: {error}\n"
                ));
                None
            }
        };
        match lost {
            None => Ok(ExitCode::from(ended)),
            Some(why) => Err(Failure::coded(LOST, format!("lock {:?} was lost: {why}", self.name))),
        }
    }

    /// Starts the command, passes signals on to it, and waits until it has ended. When the lock is lost, it ends it.
    async fn watched(&self, right: &Right, mut signals: Signals, grace: Duration) -> Result<u8, Failure> {
        let mut guard = Guard::start("`lock run`")?;
        let variables =
            [("LINECLEAR_LOCK", self.name.clone()), ("LINECLEAR_FENCE", right.epoch().to_string())];
        let mut process = Process::make(&self.command, variables).await?;
        if let Err(failure) = guard.ready().await {
            process.signal(Signal::KILL);
            return Err(failure);
        }
        // The guard knows of the command before it begins: there is no moment at which nobody would end it.
        guard.tell(process.group(), right.trusted_until().plus(grace)).await;
        let mut guard = Some(guard);
        // Otherwise it is lost, and the process is ended before it has become the command.
        if !right.trusted_for().is_zero() {
            process.let_go();
        }
        let every = (self.ttl / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
        let mut tick = tokio::time::interval(every);
        let status = loop {
            tokio::select! {
                biased;
                status = process.ended() => break status,
                () = right.lost().cancelled() => {
                    let why = right.lost_why().map(in_words).unwrap_or_default();
                    say(&format!("lineclear: lock {:?} is lost ({why}); ending the command\n", self.name));
                    break process.end(grace).await;
                }
                signal = signals.next() => process.signal(signal),
                () = guard_ended(&mut guard) => {
                    guard = None;
                    say("lineclear: the guard was killed; if this process is killed too, its command goes on\n");
                }
                _ = tick.tick() => {
                    if let Some(guard) = &mut guard {
                        guard.tell(process.group(), right.trusted_until().plus(grace)).await;
                    }
                    if process.unstop() {
                        say("lineclear: a command that holds a lock cannot be suspended\n");
                    }
                }
            }
        };
        if let Some(guard) = guard {
            guard.dismiss().await;
        }
        status.map(process::code)
    }
}

/// What became of asking.
enum Asked {
    Held(Held),
    Busy(Option<Holding>),
}

async fn ask(locks: &Locks, name: &LockName, within: Duration) -> Result<Asked, LockError> {
    Ok(match locks.acquire(name.as_str(), within).await? {
        Some(held) => Asked::Held(held),
        // Who holds it is good to know, and no more.
        None => Asked::Busy(locks.look(name.as_str()).await.ok().flatten()),
    })
}

async fn guard_ended(guard: &mut Option<Guard>) {
    match guard {
        Some(guard) => guard.ended().await,
        None => std::future::pending().await,
    }
}

/// Why it was lost.
fn in_words(why: Lost) -> String {
    match why {
        Lost::TakenOver => "another has it, or somebody took it away".to_owned(),
        why => why.to_string(),
    }
}

/// Another holds it.
fn busy(name: &LockName, holding: Option<Holding>, waited: Duration) -> Failure {
    let waited =
        if waited.is_zero() { String::new() } else { format!(" after {}", duration::format(waited)) };
    let message = format!("lock {:?} is busy{waited}", name.as_str());
    let holder = holding.and_then(|holding| {
        let left = duration::format(Duration::from_secs(holding.ends_in?.as_secs().max(1)));
        Some(format!("; its holder is {} and, unless it renews it, the lock ends in {left}", holding.holder))
    });
    Failure::coded(BUSY, message + &holder.unwrap_or_default())
}

/// The store cannot be asked, or cannot do what it is asked: then nothing is run.
fn store(error: LockError) -> Failure {
    if matches!(&error, LockError::Refused { rule, .. } if rule == "lock_name") {
        return usage(error);
    }
    let failure = Failure::coded(STORE_DOWN, format!("{}; the command was not run", in_full(&error)));
    if error.is_unavailable() { failure.hint(REACHABLE) } else { failure }
}
