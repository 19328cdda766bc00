//! Circuit breakers, one for each host: after some failures in a row a host is not called for a pause, then one call tries it.
//!
//! ```text
//! closed ──failures in a row──▶ open ──pause is over──▶ half-open ──the trial succeeds──▶ closed
//!                                ▲                          │
//!                                └── twice the pause ── the trial fails
//! ```
//!
//! A trial may be a job of many minutes. When it has been open for a pause, one more call tries the host, and so on: a host that has
//! recovered is found by the first short call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lineclear_model::Micros;
use reqwest::Url;

/// Most hosts that are remembered. Healthy hosts that never failed are not counted.
const HOSTS_MAX: usize = 1_024;

/// Most characters of the reason of a failure.
const WHY_CHARS_MAX: usize = 120;

/// When breakers open, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Failures in a row that open a breaker. Default: 5.
    pub failures: u32,
    /// The first pause; each failed trial doubles it. Default: 1 s.
    pub pause: Duration,
    /// The longest pause. Default: 1 min.
    pub pause_max: Duration,
}

impl Default for BreakerOptions {
    fn default() -> BreakerOptions {
        BreakerOptions { failures: 5, pause: Duration::from_secs(1), pause_max: Duration::from_secs(60) }
    }
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// The host is called.
    Closed,
    /// The host is not called.
    Open,
    /// One call tries the host; one more with each pause in which there is no answer.
    HalfOpen,
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half-open",
        })
    }
}

/// A host that failed at least once, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerStatus {
    /// `api.example.com`, with its port if that is not the scheme's own.
    pub host: String,
    /// Whether it is called.
    pub state: BreakerState,
    /// Its failures in a row.
    pub failures: u32,
    /// When it is tried again.
    pub retry_in: Option<Duration>,
    /// Since when it is not called freely, by this machine's clock.
    pub since: Option<Micros>,
    /// Why its last call failed.
    pub last_error: Option<String>,
}

impl BreakerStatus {
    /// The failures in words: `5 failures in a row since 2026-11-18T21:03:11Z; the last one: status 503`.
    pub(crate) fn failures_in_words(&self) -> String {
        let since = self.since.map(|at| format!(" since {at}")).unwrap_or_default();
        let last = self.last_error.as_ref().map(|why| format!("; the last one: {why}")).unwrap_or_default();
        format!("{} failures in a row{since}{last}", self.failures)
    }
}

/// The breakers of all hosts. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Breakers {
    options: BreakerOptions,
    hosts: Arc<Mutex<BTreeMap<String, Breaker>>>,
}

#[derive(Clone, Debug)]
struct Breaker {
    phase: Phase,
    failures: u32,
    /// The next pause.
    pause: Duration,
    /// How often it opened or closed: calls that began before do not count.
    epoch: u64,
    changed: Instant,
    /// Since when it is not closed.
    since: Option<Micros>,
    last_error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Open {
        until: Instant,
    },
    /// A call tries the host; another one may from this moment on.
    Trial {
        next: Instant,
    },
}

/// Whether a host may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is well.
    Freely,
    /// One call may try it.
    AsTrial,
    /// Not for so long.
    After(Duration),
}

impl Breaker {
    fn state(&self, now: Instant) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { until } if until > now => BreakerState::Open,
            Phase::Open { .. } | Phase::Trial { .. } => BreakerState::HalfOpen,
        }
    }

    fn admission(&self, now: Instant) -> Admission {
        match self.phase {
            Phase::Closed => Admission::Freely,
            Phase::Open { until: from } | Phase::Trial { next: from } if from > now => {
                Admission::After(from - now)
            }
            Phase::Open { .. } | Phase::Trial { .. } => Admission::AsTrial,
        }
    }
}

/// The name of a host among breakers.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

impl Breakers {
    /// Breakers with these options.
    pub fn new(options: BreakerOptions) -> Breakers {
        Breakers { options, hosts: Arc::default() }
    }

    /// Hosts that failed and have not recovered by their first success since, by name.
    pub fn list(&self) -> Vec<BreakerStatus> {
        let now = Instant::now();
        let hosts = self.hosts();
        hosts
            .iter()
            .filter(|(_, breaker)| breaker.failures > 0)
            .map(|(host, _)| status(&hosts, host, now))
            .collect()
    }

    /// The breaker of one host.
    pub fn status(&self, host: &str) -> BreakerStatus {
        status(&self.hosts(), host, Instant::now())
    }

    /// Allows a call, or says how long to wait. In a half-open breaker, the call is its trial.
    pub(crate) fn admit(&self, host: &str) -> Result<Permit, Duration> {
        self.admit_at(host, Instant::now())
    }

    /// Whether a call would be allowed now.
    pub(crate) fn admission(&self, host: &str) -> Admission {
        self.hosts().get(host).map_or(Admission::Freely, |breaker| breaker.admission(Instant::now()))
    }

    /// Breakers of other hosts, with the same options.
    pub(crate) fn separate(&self) -> Breakers {
        Breakers::new(self.options)
    }

    fn admit_at(&self, host: &str, now: Instant) -> Result<Permit, Duration> {
        let mut hosts = self.hosts();
        let permit = |epoch, is_trial| Permit {
            breakers: self.clone(),
            host: host.to_owned(),
            epoch,
            is_trial,
            is_over: false,
            why: None,
        };
        let Some(breaker) = hosts.get_mut(host) else { return Ok(permit(0, false)) };
        match breaker.admission(now) {
            Admission::Freely => Ok(permit(breaker.epoch, false)),
            Admission::AsTrial => {
                breaker.phase = Phase::Trial { next: now + breaker.pause };
                Ok(permit(breaker.epoch, true))
            }
            Admission::After(wait) => Err(wait),
        }
    }

    fn success(&self, host: &str, epoch: u64, now: Instant) {
        let mut hosts = self.hosts();
        let Some(breaker) = hosts.get_mut(host).filter(|breaker| breaker.epoch == epoch) else { return };
        if breaker.phase != Phase::Closed {
            // Outside of the job's span: authors of jobs read its log.
            tracing::info!(parent: None, host, "the host answers again; its jobs go on");
            *breaker = Breaker { epoch: breaker.epoch + 1, ..self.closed(now) };
        } else if breaker.epoch == 0 {
            hosts.remove(host);
        } else {
            breaker.failures = 0;
        }
    }

    fn failure(&self, host: &str, epoch: u64, wait: Option<Duration>, why: Option<String>, now: Instant) {
        let mut hosts = self.hosts();
        if !hosts.contains_key(host) && hosts.len() >= HOSTS_MAX {
            make_room(&mut hosts);
        }
        let breaker = hosts.entry(host.to_owned()).or_insert_with(|| self.closed(now));
        if breaker.epoch != epoch {
            return;
        }
        breaker.failures = breaker.failures.saturating_add(1);
        breaker.last_error = why;
        breaker.changed = now;
        let is_trial = matches!(breaker.phase, Phase::Trial { .. });
        if !is_trial && breaker.failures < self.options.failures {
            return;
        }
        let max = self.options.pause_max;
        let pause = breaker.pause.max(wait.unwrap_or_default()).min(max);
        if !is_trial {
            let (failures, seconds) = (breaker.failures, pause.as_secs_f64());
            breaker.since = Some(this_second());
            tracing::warn!(parent: None, host, failures, seconds, "the host does not answer as it should; its jobs wait");
        }
        breaker.phase = Phase::Open { until: now + pause };
        breaker.pause = pause.saturating_mul(2).min(max);
        breaker.epoch += 1;
    }

    /// A call ended without a verdict.
    fn release(&self, host: &str, epoch: u64, now: Instant) {
        let mut hosts = self.hosts();
        if let Some(breaker) = hosts.get_mut(host).filter(|breaker| breaker.epoch == epoch)
            && matches!(breaker.phase, Phase::Trial { .. })
        {
            breaker.phase = Phase::Open { until: now };
        }
    }

    fn closed(&self, now: Instant) -> Breaker {
        Breaker {
            phase: Phase::Closed,
            failures: 0,
            pause: self.options.pause,
            epoch: 0,
            changed: now,
            since: None,
            last_error: None,
        }
    }

    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, Breaker>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of this machine, without the fraction of its second.
fn this_second() -> Micros {
    let now = Micros::from(jiff::Timestamp::now());
    now.offset(-now.get().rem_euclid(1_000_000))
}

/// Forgets the host that is closed, or else the one that failed longest ago.
fn make_room(hosts: &mut BTreeMap<String, Breaker>) {
    let rank = |breaker: &Breaker| (breaker.phase != Phase::Closed, breaker.failures > 0, breaker.changed);
    let oldest = hosts.iter().min_by_key(|(_, breaker)| rank(breaker)).map(|(host, _)| host.clone());
    if let Some(host) = oldest {
        hosts.remove(&host);
    }
}

fn status(hosts: &BTreeMap<String, Breaker>, host: &str, now: Instant) -> BreakerStatus {
    let breaker = hosts.get(host);
    BreakerStatus {
        host: host.to_owned(),
        state: breaker.map_or(BreakerState::Closed, |breaker| breaker.state(now)),
        failures: breaker.map_or(0, |breaker| breaker.failures),
        retry_in: breaker.and_then(|breaker| match breaker.phase {
            Phase::Open { until } => {
                Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
            }
            _ => None,
        }),
        since: breaker.and_then(|breaker| breaker.since),
        last_error: breaker.and_then(|breaker| breaker.last_error.clone()),
    }
}

/// A call that may be made. Dropped without a verdict, as when its job is cancelled, it says nothing about the host.
#[derive(Debug)]
pub(crate) struct Permit {
    breakers: Breakers,
    host: String,
    epoch: u64,
    is_trial: bool,
    is_over: bool,
    why: Option<String>,
}

impl Permit {
    /// Notes why the call fails, for people.
    pub(crate) fn because(mut self, why: &str) -> Permit {
        self.why = Some(why.chars().filter(|c| !c.is_control()).take(WHY_CHARS_MAX).collect());
        self
    }

    /// The host answered.
    pub(crate) fn success(mut self) {
        self.is_over = true;
        self.breakers.success(&self.host, self.epoch, Instant::now());
    }

    /// The host did not answer, or asks callers to wait.
    pub(crate) fn failure(mut self, wait: Option<Duration>) {
        self.is_over = true;
        self.breakers.failure(&self.host, self.epoch, wait, self.why.take(), Instant::now());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_trial && !self.is_over {
            self.breakers.release(&self.host, self.epoch, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
