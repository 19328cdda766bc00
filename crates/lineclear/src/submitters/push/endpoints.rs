//! The workers of a push submitter: which one gets the next job.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Url;

use crate::outbound::client::SILENCE_MIN;
use crate::outbound::{Admission, BreakerState, BreakerStatus, Breakers, Permit, host_of};

pub(super) struct Endpoints {
    all: Vec<Endpoint>,
    /// Of hosts. Others who call them share these.
    breakers: Breakers,
    /// Of URLs that take no jobs although their host is well, as with 404. These are this submitter's alone.
    url_breakers: Breakers,
    /// Where the round begins next.
    next: AtomicUsize,
}

#[derive(Clone)]
struct Endpoint {
    url: Url,
    host: String,
    /// The host and the path: the name among breakers, for people. Queries may have secrets in them.
    name: String,
    open_calls: Arc<AtomicU32>,
}

impl Endpoints {
    pub(super) fn new(urls: Vec<Url>, breakers: Breakers) -> Endpoints {
        let endpoint = |url: Url| {
            let host = host_of(&url);
            Endpoint { name: format!("{host}{}", url.path()), host, url, open_calls: Arc::default() }
        };
        let url_breakers = breakers.separate();
        let all = urls.into_iter().map(endpoint).collect();
        Endpoints { all, breakers, url_breakers, next: AtomicUsize::new(0) }
    }

    pub(super) fn with_breakers(&self, breakers: Breakers) -> Endpoints {
        let url_breakers = breakers.separate();
        Endpoints { all: self.all.clone(), breakers, url_breakers, next: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// For people: without queries, which may have secrets in them.
    pub(super) fn shown(&self) -> String {
        let shown = |endpoint: &Endpoint| {
            let mut url = endpoint.url.clone();
            url.set_query(None);
            url.set_fragment(None);
            url.to_string()
        };
        self.all.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    /// The breaker of each host, or of its URL if only that is suspended.
    pub(super) fn statuses(&self) -> Vec<BreakerStatus> {
        let status = |endpoint: &Endpoint| {
            let of_host = self.breakers.status(&endpoint.host);
            match of_host.state {
                BreakerState::Closed => self.url_breakers.status(&endpoint.name),
                _ => of_host,
            }
        };
        self.all.iter().map(status).collect()
    }

    fn admission(&self, endpoint: &Endpoint) -> Admission {
        use Admission::{After, AsTrial, Freely};
        match (self.breakers.admission(&endpoint.host), self.url_breakers.admission(&endpoint.name)) {
            (After(one), After(other)) => After(one.max(other)),
            (After(wait), _) | (_, After(wait)) => After(wait),
            (AsTrial, _) | (_, AsTrial) => AsTrial,
            (Freely, Freely) => Freely,
        }
    }

    /// Calls that may be open: all while a worker is well; one more for each worker that is to be tried; none while all are
    /// suspended.
    pub(super) fn capacity(&self, max: u32) -> u32 {
        let admissions: Vec<Admission> = self.all.iter().map(|endpoint| self.admission(endpoint)).collect();
        if admissions.contains(&Admission::Freely) {
            return max;
        }
        let trials = admissions.iter().filter(|admission| **admission == Admission::AsTrial).count();
        if trials == 0 {
            return 0;
        }
        let open: u32 = self.all.iter().map(|endpoint| endpoint.open_calls.load(Ordering::Relaxed)).sum();
        open.saturating_add(u32::try_from(trials).unwrap_or(u32::MAX)).min(max)
    }

    /// Both breakers allow a call, or say how long to wait.
    fn admit(&self, endpoint: &Endpoint) -> Result<Permits, Duration> {
        let of_host = self.breakers.admit(&endpoint.host)?;
        Ok(Permits { of_url: self.url_breakers.admit(&endpoint.name)?, of_host })
    }

    /// Begins a call to a worker that was not tried yet: one that is to be tried after a pause, or the one with the fewest open
    /// calls, in turn. `Err`: how long none can be called.
    pub(super) fn open_call(&self, tried: &[usize], deadline: Instant) -> Result<OpenCall, Duration> {
        let begin = self.next.fetch_add(1, Ordering::Relaxed);
        let mut order: Vec<usize> =
            (0..self.all.len()).map(|n| (begin % self.all.len() + n) % self.all.len()).collect();
        order.retain(|n| !tried.contains(n));
        order.sort_by_cached_key(|n| {
            let endpoint = &self.all[*n];
            (self.admission(endpoint) != Admission::AsTrial, endpoint.open_calls.load(Ordering::Relaxed))
        });
        let mut wait = Duration::MAX;
        for n in order {
            let endpoint = &self.all[n];
            match self.admit(endpoint) {
                Ok(permits) => {
                    endpoint.open_calls.fetch_add(1, Ordering::Relaxed);
                    return Ok(OpenCall {
                        n,
                        endpoint: endpoint.clone(),
                        permits: Some(permits),
                        begun_at: Instant::now(),
                        deadline,
                    });
                }
                Err(left) => wait = wait.min(left),
            }
        }
        Err(wait)
    }
}

struct Permits {
    of_host: Permit,
    of_url: Permit,
}

/// A call to a worker. Dropped without a verdict, it says nothing about the worker, unless its time was over.
pub(super) struct OpenCall {
    n: usize,
    endpoint: Endpoint,
    permits: Option<Permits>,
    begun_at: Instant,
    deadline: Instant,
}

impl OpenCall {
    pub(super) fn endpoint(&self) -> usize {
        self.n
    }

    pub(super) fn url(&self) -> Url {
        self.endpoint.url.clone()
    }

    pub(super) fn success(mut self) {
        if let Some(permits) = self.permits.take() {
            permits.of_host.success();
            permits.of_url.success();
        }
    }

    /// The host is well, but this URL takes no jobs.
    pub(super) fn wrong_url(mut self, wait: Option<Duration>, why: &str) {
        if let Some(permits) = self.permits.take() {
            permits.of_host.success();
            permits.of_url.because(why).failure(wait);
        }
    }

    /// The host did not answer, or cannot serve calls for now. This says nothing about the URL.
    pub(super) fn failure(mut self, wait: Option<Duration>, why: &str) {
        if let Some(permits) = self.permits.take() {
            permits.of_host.because(why).failure(wait);
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.endpoint.open_calls.fetch_sub(1, Ordering::Relaxed);
        if Instant::now() >= self.deadline
            && self.begun_at.elapsed() >= SILENCE_MIN
            && let Some(permits) = self.permits.take()
        {
            permits.of_host.because("no answer in time").failure(None);
        }
    }
}
