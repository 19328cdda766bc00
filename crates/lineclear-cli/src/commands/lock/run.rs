//! `lineclear lock run`: runs a command while holding a lock.

mod child;
mod signals;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lineclear_lock::{
    Holding, Lease, LockError, LockGuard, LockName, LockOptions, Locks, LostReason, RegistryOptions, Released,
};
use lineclear_model::duration;
use lineclear_tls::with_causes;
use rustix::process::Signal;
use tokio::time::timeout;

use super::target::{CHECK_STORE, LockTarget, usage};
use crate::config::parse_duration;
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::process::{self, Guard};
use child::LockedChild;
use signals::Signals;

/// Exit codes of `lock run`, from `sysexits.h`; everything else is the command's own.
const STORE_DOWN: u8 = 69;
const LOST: u8 = 70;
const BUSY: u8 = 75;

/// Default of `--wait`.
const WAIT: Duration = Duration::from_secs(30);
/// Default of `--grace`, if the lock lasts long enough.
const GRACE: Duration = Duration::from_secs(5);

/// How long to try to release a lost lock.
const RELEASE_LOST: Duration = Duration::from_millis(500);

/// How long to wait until the release is recorded.
const RECORD_TIMEOUT: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Exit codes:
  the command's own, or 128 plus the signal that killed it
  2    invalid usage; the command was not run
  69   the store is unavailable; the command was not run
  70   the lock was lost while the command ran; the command was ended
  75   the lock is busy; the command was not run (0 with --on-busy skip)
  126  the command cannot be run
  127  the command does not exist

Examples:
  lineclear lock run nightly-backup -- backup.sh --all
  lineclear lock run report --store postgres://app@db.internal/app --on-busy skip -- make report
  lineclear lock run deploy --store redis://cache.internal/0 --wait 5m -- ./deploy.sh
  * * * * * lineclear lock run sync --store /var/lib/sync.db --on-busy skip -- sync   (in a crontab)";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    target: LockTarget,
    /// How long the lock lasts if this process is killed or frozen, or the store is down; at least 1s
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    ttl: Duration,
    /// If the lock is busy: exit with 0, wait, or exit with 75 [default: fail, or wait if --wait is given]
    #[arg(long, value_name = "skip|wait|fail", hide_possible_values = true)]
    on_busy: Option<OnBusy>,
    /// How long to wait for a busy lock [default: 30s]
    #[arg(long, value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Time between TERM and KILL when the lock is lost; at most a fifth of --ttl [default: 5s, or a tenth of --ttl]
    #[arg(long, value_parser = parse_duration)]
    grace: Option<Duration>,
    /// The command and its arguments. LINECLEAR_LOCK holds the name of the lock, LINECLEAR_FENCE a number that grows with every
    /// holder
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
        let (on_busy, timeout_busy) = self.busy_policy()?;
        let (options, grace) = self.times()?;
        let name = LockName::new(&self.name).map_err(usage)?;
        let backend = self.target.backend(&options)?;
        let registry = self.target.registry(RegistryOptions::default())?;
        if let Some(program) = self.command.first() {
            process::check(program)?;
        }
        let mut signals = Signals::listen()?;
        let mut locks = None;
        let acquiring = async {
            let opened = match registry {
                Some(registry) => Locks::with_registry(backend, options, registry).await?,
                None => Locks::new(backend, options).await?,
            };
            acquire(locks.insert(opened.of_kind("command")), &name, timeout_busy).await
        };
        let acquired = tokio::select! {
            biased;
            signal = signals.next() => {
                // A lock that was granted at this moment is released.
                if let Some(locks) = locks {
                    locks.flush().await;
                }
                return Ok(ExitCode::from(128 + u8::try_from(signal.as_raw()).unwrap_or(0)));
            }
            acquired = acquiring => acquired.map_err(store_failure)?,
        };
        match acquired {
            Acquired::Held(held) => {
                let ended = self.run_locked(held, signals, grace).await;
                if let Some(registry) = locks.as_ref().and_then(Locks::registry) {
                    // The record is informative: its failure does not change the exit code.
                    let recorded = async { registry.flush().await.and(registry.sweep().await) };
                    timeout(RECORD_TIMEOUT, recorded).await.ok();
                }
                ended
            }
            Acquired::Busy(_) if on_busy == OnBusy::Skip => Ok(ExitCode::SUCCESS),
            Acquired::Busy(holding) => Err(busy(&name, holding, timeout_busy)),
        }
    }

    /// What to do if the lock is busy, and how long to wait.
    fn busy_policy(&self) -> Result<(OnBusy, Duration), Failure> {
        match (self.on_busy, self.wait) {
            (Some(OnBusy::Wait), wait) => Ok((OnBusy::Wait, wait.unwrap_or(WAIT))),
            (None, Some(wait)) => Ok((OnBusy::Wait, wait)),
            (on_busy, None) => Ok((on_busy.unwrap_or(OnBusy::Fail), Duration::ZERO)),
            (Some(_), Some(_)) => Err(Failure::usage("--wait requires --on-busy wait")),
        }
    }

    /// The times of the lock, and the grace period.
    fn times(&self) -> Result<(LockOptions, Duration), Failure> {
        let usual = LockOptions::with_ttl(self.ttl);
        usual.check().map_err(usage)?;
        let grace = self.grace.unwrap_or_else(|| GRACE.min(self.ttl / 10));
        if grace > self.ttl / 5 {
            let (grace, most) = (duration::format(grace), duration::format(self.ttl / 5));
            let why = format!("--grace: {grace} is too long: at most a fifth of --ttl, {most}");
            return Err(
                Failure::usage(why).hint("the command must end before another process can get the lock")
            );
        }
        // Trust ends early enough for the command to end before another process can get the lock.
        Ok((LockOptions { margin: usual.margin + grace, ..usual }, grace))
    }

    /// Runs the command, then releases the lock.
    async fn run_locked(
        &self,
        held: LockGuard,
        signals: Signals,
        grace: Duration,
    ) -> Result<ExitCode, Failure> {
        let lease = held.lease();
        let ran = self.supervise(&lease, signals, grace).await;
        let released = match lease.lost_reason() {
            None => held.release().await,
            // It may still be held, but releasing it must not delay the exit.
            Some(_) => timeout(RELEASE_LOST, held.release()).await.unwrap_or(Ok(Released::NotHeld)),
        };
        let ended = ran?;
        let lost = match (lease.lost_reason(), released) {
            (Some(why), _) => Some(in_words(why)),
            (None, Ok(Released::NotHeld)) => Some("it was broken before the command ended".to_owned()),
            (None, Ok(Released::Clean)) => None,
            (None, Err(error)) => {
                let ttl = duration::format(self.ttl);
                print_stderr(&format!(
                    "lineclear: the lock was not released and expires within {ttl}: {error}\n"
                ));
                None
            }
        };
        match lost {
            None => Ok(ExitCode::from(ended)),
            Some(why) => Err(Failure::coded(LOST, format!("lock {:?} was lost: {why}", self.name))),
        }
    }

    /// Starts the command, forwards signals to it, and waits for its end. Ends it when the lock is lost.
    async fn supervise(&self, lease: &Lease, mut signals: Signals, grace: Duration) -> Result<u8, Failure> {
        let mut guard = Guard::start("`lock run`")?;
        let variables =
            [("LINECLEAR_LOCK", self.name.clone()), ("LINECLEAR_FENCE", lease.epoch().to_string())];
        let mut child = LockedChild::start(&self.command, variables).await?;
        if let Err(failure) = guard.ready().await {
            child.signal(Signal::KILL);
            return Err(failure);
        }
        // The guard knows of the command before it begins, so there is no moment without a guard.
        guard.tell(child.group(), lease.trusted_until().plus(grace)).await;
        let mut guard = Some(guard);
        // Otherwise the lock is lost, and the process ends before it executes the command.
        if !lease.trusted_for().is_zero() {
            child.release();
        }
        let every = (self.ttl / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
        let mut tick = tokio::time::interval(every);
        let status = loop {
            tokio::select! {
                biased;
                status = child.wait() => break status,
                () = lease.lost().cancelled() => {
                    let why = lease.lost_reason().map(in_words).unwrap_or_default();
                    print_stderr(&format!("lineclear: lock {:?} is lost ({why}); ending the command\n", self.name));
                    break child.terminate(grace).await;
                }
                signal = signals.next() => child.signal(signal),
                () = guard_ended(&mut guard) => {
                    guard = None;
                    print_stderr("lineclear: the guard was killed; if this process is killed too, its command keeps running\n");
                }
                _ = tick.tick() => {
                    if let Some(guard) = &mut guard {
                        guard.tell(child.group(), lease.trusted_until().plus(grace)).await;
                    }
                    if child.continue_if_stopped() {
                        print_stderr("lineclear: a command that holds a lock cannot be suspended\n");
                    }
                }
            }
        };
        if let Some(guard) = guard {
            guard.dismiss().await;
        }
        status.map(process::exit_code)
    }
}

/// The result of an acquisition.
enum Acquired {
    Held(LockGuard),
    Busy(Option<Holding>),
}

async fn acquire(locks: &Locks, name: &LockName, wait: Duration) -> Result<Acquired, LockError> {
    Ok(match locks.acquire(name.as_str(), wait).await? {
        Some(held) => Acquired::Held(held),
        // The holder is only for the message.
        None => Acquired::Busy(locks.read(name.as_str()).await.ok().flatten()),
    })
}

async fn guard_ended(guard: &mut Option<Guard>) {
    match guard {
        Some(guard) => guard.wait().await,
        None => std::future::pending().await,
    }
}

/// Why the lock was lost.
fn in_words(why: LostReason) -> String {
    match why {
        LostReason::TakenOver => "another holder has it, or it was broken".to_owned(),
        why => why.to_string(),
    }
}

fn busy(name: &LockName, holding: Option<Holding>, waited: Duration) -> Failure {
    let waited =
        if waited.is_zero() { String::new() } else { format!(" after {}", duration::format(waited)) };
    let message = format!("lock {:?} is busy{waited}", name.as_str());
    let holder = holding.and_then(|holding| {
        let left = duration::format(Duration::from_secs(holding.ends_in?.as_secs().max(1)));
        Some(format!("; its holder is {}, and unless renewed it expires in {left}", holding.holder))
    });
    Failure::coded(BUSY, message + &holder.unwrap_or_default())
}

/// The store failed, so the command is not run.
fn store_failure(error: LockError) -> Failure {
    if matches!(&error, LockError::Refused { rule, .. } if rule == "lock_name") {
        return usage(error);
    }
    let failure = Failure::coded(STORE_DOWN, format!("{}; the command was not run", with_causes(&error)));
    if error.is_unavailable() { failure.hint(CHECK_STORE) } else { failure }
}
