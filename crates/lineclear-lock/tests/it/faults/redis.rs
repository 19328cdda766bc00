//! A Redis that stops, forgets or falls silent, and a holder that freezes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lineclear_lock::{Exclusive, LockOptions, Locks, LostReason, Moment};
use lineclear_testkit::{PrivateRedis, Program, Proxy};

use crate::kit::{Place, SOON, TTL, quick};
use crate::many::contend::example;

#[tokio::test]
async fn a_frozen_holder_is_followed_and_its_late_write_is_refused_by_the_epoch() {
    let place = Place::redis();
    let file = tempfile::NamedTempFile::new().unwrap();
    let effects = file.path().to_str().unwrap();
    let (url, ttl) = (place.url.as_deref().unwrap(), TTL.as_millis().to_string());
    let holder = || Program::at(example("holder")).args([url, "report", &ttl, effects]).start().unwrap();
    let mut frozen = holder();
    frozen.wait_for_line("write done", SOON).await.unwrap();
    frozen.pause().await.unwrap();
    let next = holder();
    next.wait_for_line("write done", SOON).await.unwrap();
    frozen.resume().unwrap();
    frozen.wait_for_line("lost, trusted for 0ns", SOON).await.unwrap();
    frozen.wait_for_line("late write refused", SOON).await.unwrap();
    assert!(next.stdout().iter().all(|line| !line.starts_with("lost")), "{:?}", next.stdout());
}

#[tokio::test]
async fn while_redis_is_down_no_lock_is_granted_and_a_held_lock_is_lost_in_time() {
    let mut server = PrivateRedis::start(&[]).await.unwrap();
    let locks = Locks::open_with(&server.url(), quick()).await.unwrap();
    let ran = AtomicU32::new(0);
    let cycle = async || {
        let work = async |_| {
            ran.fetch_add(1, Ordering::SeqCst);
        };
        locks.run_exclusive("cycle", Duration::ZERO, work).await
    };
    assert_eq!(cycle().await.unwrap(), Exclusive::Done(()));
    let held = locks.try_lock("report").await.unwrap().unwrap();
    let stopped = Moment::now();
    server.stop();
    for _ in 0..3 {
        let error = cycle().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1, "an error is never taken for a grant");
    let cancelled = held.guard(std::future::pending::<()>()).await;
    assert_eq!(cancelled, Err(LostReason::TrustExpired));
    // It may have been renewed just before the stop; a little more for a busy machine.
    assert!(stopped.plus(TTL + TTL / 4).remaining() > Duration::ZERO, "before it could be another's");
    drop(held);
    server.start_again().await.unwrap();
    assert_eq!(cycle().await.unwrap(), Exclusive::Done(()), "the next cycle, without help");
}

#[tokio::test]
async fn a_restart_that_forgets_is_noticed_and_epochs_do_not_begin_anew() {
    let mut server = PrivateRedis::start(&[]).await.unwrap();
    let options = LockOptions {
        retry_interval: Duration::from_millis(20),
        ..LockOptions::with_ttl(Duration::from_secs(8))
    };
    let locks = Locks::open_with(&server.url(), options.clone()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    server.stop();
    server.start_again().await.unwrap();
    // The lock is forgotten: another gets it while the first still trusts its own, which only a fence can tell apart.
    let other = Locks::open_with(&server.url(), options).await.unwrap();
    let next = other.acquire("report", SOON).await.unwrap().unwrap();
    assert!(next.epoch() > held.epoch(), "{} after {}", next.epoch(), held.epoch());
    tokio::time::timeout(SOON, held.lost().cancelled()).await.unwrap();
    assert_eq!(held.lost_reason(), Some(LostReason::TakenOver));
    assert_eq!(next.confirm().await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_restart_with_an_append_only_file_keeps_lock_and_epoch() {
    let mut server = PrivateRedis::start(&["--appendonly", "yes", "--appendfsync", "always"]).await.unwrap();
    let options = LockOptions {
        retry_interval: Duration::from_millis(20),
        ..LockOptions::with_ttl(Duration::from_secs(20))
    };
    let locks = Locks::open_with(&server.url(), options.clone()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    server.stop();
    server.start_again().await.unwrap();
    let other = Locks::open_with(&server.url(), options).await.unwrap();
    assert!(other.try_lock("report").await.unwrap().is_none(), "it is still held");
    assert_eq!(other.read("report").await.unwrap().unwrap().epoch, held.epoch());
    assert_eq!(held.confirm().await.unwrap(), Ok(()));
    let epoch = held.epoch();
    held.release().await.unwrap();
    assert!(other.try_lock("report").await.unwrap().unwrap().epoch() > epoch);
}

#[tokio::test]
async fn a_network_that_falls_silent_cancels_the_work_before_another_can_begin() {
    let place = Place::redis();
    let direct = place.url.clone().unwrap();
    let proxy = Proxy::to_url(&direct).await.unwrap();
    let locks = Locks::open_with(&proxy.url_for(&direct), quick()).await.unwrap();
    let other = place.locks().await;
    let work = async |lease: lineclear_lock::Lease| {
        proxy.silence();
        lease.lost().cancelled().await;
        Moment::now()
    };
    let waiting = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let held = other.acquire("report", SOON).await.unwrap().unwrap();
        (held, Moment::now())
    });
    let done = locks.run_exclusive("report", Duration::ZERO, work).await.unwrap();
    let Exclusive::Lost { reason: LostReason::TrustExpired, output: Some(lost_at) } = done else {
        panic!("{done:?}")
    };
    let (next, taken_at) = waiting.await.unwrap();
    assert!(lost_at < taken_at, "lost before it was another's");
    proxy.heal();
    // What was held back arrives now, and changes nothing.
    assert!(locks.try_lock("report").await.unwrap().is_none());
    assert_eq!(next.confirm().await.unwrap(), Ok(()));
}

/// Waiters do not ask again within the time of the test: only the message of a release can wake them.
fn sluggish() -> LockOptions {
    LockOptions { retry_interval: Duration::from_secs(60), ..LockOptions::with_ttl(Duration::from_secs(30)) }
}

/// How many clients of this Redis listen for releases.
async fn listeners(url: &str) -> u32 {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd("PUBSUB").arg("NUMPAT").query_async(&mut connection).await.unwrap()
}

#[tokio::test]
async fn a_release_wakes_a_waiter_at_once_and_a_free_lock_has_no_listeners() {
    let server = PrivateRedis::start(&[]).await.unwrap();
    let one = Locks::open_with(&server.url(), sluggish()).await.unwrap();
    let other = Locks::open_with(&server.url(), sluggish()).await.unwrap();
    let held = one.acquire("report", SOON).await.unwrap().unwrap();
    assert_eq!(listeners(&server.url()).await, 0);
    let waiting = tokio::spawn(async move {
        let held = other.acquire("report", SOON).await.unwrap();
        (held, Moment::now())
    });
    while listeners(&server.url()).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Others' releases are not its own.
    one.try_lock("report-2").await.unwrap().unwrap().release().await.unwrap();
    let released = Moment::now();
    held.release().await.unwrap();
    let (next, taken_at) = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert!(next.is_some());
    let within = Duration::from_micros(taken_at.micros() - released.micros());
    println!("after {within:?}");
    assert!(within < Duration::from_secs(2), "{within:?}");
}

#[tokio::test]
async fn who_must_not_publish_can_release() {
    let server = PrivateRedis::start(&[]).await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut user = redis::cmd("ACL");
    user.arg(&["SETUSER", "quiet", "on", ">secret", "~*", "+@all", "resetchannels"]);
    user.exec_async(&mut connection).await.unwrap();
    let url = server.url().replacen("redis://", "redis://quiet:secret@", 1);
    let locks = Locks::open_with(&url, quick()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    assert_eq!(held.release().await.unwrap(), lineclear_lock::Released::Clean);
    // And who must not listen can wait.
    let held = locks.try_lock("report").await.unwrap().unwrap();
    assert!(locks.acquire("report", Duration::from_millis(300)).await.unwrap().is_none());
    held.release().await.unwrap();
}
