//! The times of the scheduler lock, shortened: ten minutes are two seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lineclear_lock::redis::auto_refresh;
use lineclear_lock::{LockOptions, Locks, Moment, Released};
use lineclear_testkit::{PrivateRedis, Program};
use redis::AsyncCommands;

use crate::kit::{Place, SOON};
use crate::many::contend::example;
use crate::stores::redis::{calls, client};

/// A three-hundredth of ten minutes.
const TTL: Duration = Duration::from_secs(2);

/// A three-hundredth of every time.
fn shortened() -> LockOptions {
    let LockOptions { ttl, renewal_interval, soft_limit, .. } = auto_refresh();
    let short = LockOptions::with_ttl(ttl / 300);
    assert_eq!(short.ttl, TTL);
    LockOptions {
        renewal_interval: renewal_interval / 300,
        soft_limit: soft_limit.map(|limit| limit / 300),
        ..short
    }
}

/// Waits by the clock, as the job of a timeline does.
async fn work_until(begun: Moment, minutes: u32) {
    tokio::time::sleep(begun.plus(Duration::from_millis(200) * minutes).remaining()).await;
}

#[tokio::test]
async fn a_usual_job_is_renewed_once_and_nothing_renews_after_it() {
    let server = PrivateRedis::start(&[]).await.unwrap();
    let locks = Locks::open_with(&server.url(), shortened()).await.unwrap();
    let mut redis = client(&server.url()).await;
    let begun = Moment::now();
    let held = locks.try_lock("job").await.unwrap().unwrap();
    work_until(begun, 4).await;
    assert!(calls(&mut redis, "pexpire").await >= 1, "renewed at minute 3");
    assert!(!held.overdue().is_cancelled());
    assert_eq!(held.release().await.unwrap(), Released::Clean);
    let renewed = calls(&mut redis, "pexpire").await;
    work_until(Moment::now(), 8).await;
    assert_eq!(calls(&mut redis, "pexpire").await, renewed, "nothing renews between jobs");
}

#[tokio::test]
async fn a_long_job_is_renewed_and_overdue_and_goes_on() {
    let counted = count_overdue();
    let place = Place::redis();
    let url = place.url.as_deref().unwrap();
    let locks = Locks::open_with(url, shortened()).await.unwrap();
    let other = place.locks().await;
    let begun = Moment::now();
    let held = locks.try_lock("job").await.unwrap().unwrap();
    let overdue = async {
        held.overdue().cancelled().await;
        assert!(begun.plus(Duration::from_secs(1)).remaining().is_zero(), "not before minute 5");
        assert_eq!(held.lost_reason(), None);
    };
    tokio::time::timeout(SOON, overdue).await.unwrap();
    assert_eq!(counted.load(Ordering::SeqCst), 1);
    // Longer than the lock would have lasted without renewal.
    work_until(begun, 13).await;
    assert!(other.try_lock("job").await.unwrap().is_none());
    assert_eq!(held.guard(async { "done" }).await, Ok("done"));
    assert_eq!(held.release().await.unwrap(), Released::Clean);
}

#[tokio::test]
async fn a_crashed_holder_is_followed_when_its_lock_ends() {
    let place = Place::redis();
    let url = place.url.as_deref().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let ttl = TTL.as_millis().to_string();
    let program = Program::at(example("holder")).args([url, "job", &ttl, file.path().to_str().unwrap()]);
    let mut child = program.start().unwrap();
    child.wait_for_line("write done", SOON).await.unwrap();
    let locks = place.locks().await;
    let before = locks.read("job").await.unwrap().unwrap();
    child.kill().unwrap();
    let key = format!("{}job", url.split_once("prefix=").unwrap().1);
    let left: u64 = client(url).await.pttl(key).await.unwrap();
    let killed = Moment::now();
    let held = locks.acquire("job", SOON).await.unwrap().expect("without an operator");
    let ended = killed.plus(Duration::from_millis(left));
    assert!(ended.remaining() < Duration::from_millis(5), "not before its time: {:?}", ended.remaining());
    assert!(ended.plus(TTL).remaining() > Duration::ZERO, "and soon after it");
    assert!(held.epoch() > before.epoch);
}

/// Counts what the locks of this process report as overdue.
fn count_overdue() -> Arc<AtomicU64> {
    let counted = Arc::new(AtomicU64::new(0));
    metrics::set_global_recorder(Overdue(counted.clone())).unwrap();
    counted
}

struct Overdue(Arc<AtomicU64>);

impl metrics::Recorder for Overdue {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        match key.name() {
            "lineclear_lock_overdue_total" => metrics::Counter::from_arc(self.0.clone()),
            _ => metrics::Counter::noop(),
        }
    }
    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
    }
    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}
