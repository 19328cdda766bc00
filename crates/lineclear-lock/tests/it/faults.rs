//! Holders that die or freeze, connections that end or fall silent, a server that restarts.

#[cfg(feature = "redis")]
mod redis;
mod registry;
mod renewal;

use std::time::Duration;

use lineclear_lock::{LockGuard, LockOptions, Locks, LostReason, Moment};
use lineclear_testkit::servers::postgres::PrivatePostgres;
use lineclear_testkit::{Child, Program, Proxy};

use crate::kit::{Place, SOON, TTL, quick};
use crate::many::contend::example;
use crate::stores::postgres::connect;

/// A process that holds `report`.
async fn holder(place: &Place, ttl: Duration) -> Child {
    holder_with(place, ttl, None).await
}

/// The same, and it may be recorded, with this heartbeat.
pub(crate) async fn holder_with(place: &Place, ttl: Duration, record: Option<Duration>) -> Child {
    let url = place.url.as_deref().unwrap();
    match url.strip_prefix("sqlite:") {
        Some(path) => {
            let file = rusqlite::Connection::open(path).unwrap();
            file.execute_batch("create table effect (epoch integer not null)").unwrap();
        }
        None => {
            connect(place).await.batch_execute("create table effect (epoch bigint not null)").await.unwrap()
        }
    }
    let ttl = ttl.as_millis().to_string();
    let mut program = Program::at(example("holder")).args([url, "report", &ttl]);
    if let Some(beat) = record {
        program = program.env("RECORD", beat.as_millis().to_string());
    }
    let child = program.start().unwrap();
    child.wait_for_line("write done", SOON).await.unwrap();
    child
}

/// Spawns a task that waits for the lock.
fn wait(locks: &Locks) -> tokio::task::JoinHandle<(LockGuard, Moment)> {
    let locks = locks.clone();
    tokio::spawn(async move {
        let held = locks.acquire("report", SOON * 2).await.unwrap().expect("it comes free");
        (held, Moment::now())
    })
}

fn between(from: Moment, to: Moment) -> Duration {
    Duration::from_micros(to.micros().saturating_sub(from.micros()))
}

async fn a_killed_holder_is_followed_in_less_than_a_second(options: &str) {
    let place = Place::postgres(options).await;
    // Its time to live is long: only its death can free the lock.
    let mut child = holder(&place, Duration::from_secs(30)).await;
    let locks = place.locks().await;
    assert!(locks.try_lock("report").await.unwrap().is_none());
    let waiting = wait(&locks);
    let killed = Moment::now();
    child.kill().unwrap();
    let (next, at) = waiting.await.unwrap();
    let took = between(killed, at);
    println!("followed after {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(next.epoch().get(), 2);
}

#[tokio::test]
async fn a_killed_holder_of_a_postgres_lease_is_followed_in_less_than_a_second() {
    a_killed_holder_is_followed_in_less_than_a_second("lock=lease").await;
}

#[tokio::test]
async fn a_killed_holder_of_a_session_lock_is_followed_in_less_than_a_second() {
    a_killed_holder_is_followed_in_less_than_a_second("lock=session").await;
}

#[tokio::test]
async fn a_killed_holder_in_a_sqlite_file_is_followed_when_its_lock_ends() {
    let place = Place::sqlite();
    let mut child = holder(&place, TTL).await;
    let waiting = wait(&place.locks().await);
    child.kill().unwrap();
    assert_eq!(waiting.await.unwrap().0.epoch().get(), 2);
}

/// Frozen for longer than its lock lasts, then awake: it hears of the loss, and its late write is refused.
async fn a_frozen_holder_is_followed_and_its_late_write_is_refused(place: &Place) {
    let mut child = holder(place, TTL).await;
    let locks = place.locks().await;
    child.pause().await.unwrap();
    let (next, _) = wait(&locks).await.unwrap();
    assert_eq!(next.epoch().get(), 2);
    child.resume().unwrap();
    child.wait_for_line("lost, trusted for 0ns", SOON).await.unwrap();
    child.wait_for_line("late write refused", SOON).await.unwrap();
    assert_eq!(next.confirm().await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_frozen_holder_of_a_postgres_lease_is_followed_and_its_late_write_is_refused() {
    a_frozen_holder_is_followed_and_its_late_write_is_refused(&Place::postgres("lock=lease").await).await;
}

#[tokio::test]
async fn a_frozen_holder_in_a_sqlite_file_is_followed_and_its_late_write_is_refused() {
    a_frozen_holder_is_followed_and_its_late_write_is_refused(&Place::sqlite()).await;
}

#[tokio::test]
async fn a_frozen_holder_of_a_session_lock_keeps_it_until_its_session_is_ended() {
    let place = Place::postgres("lock=session").await;
    let mut child = holder(&place, TTL).await;
    let locks = place.locks().await;
    child.pause().await.unwrap();
    assert!(locks.acquire("report", TTL * 2).await.unwrap().is_none(), "a frozen holder is not dead");
    let waiting = wait(&locks);
    end_sessions(&place, "like 'lineclear-lock%' and state_change < now() - interval '2 s'").await;
    let (next, _) = waiting.await.unwrap();
    assert_eq!(next.epoch().get(), 2);
    child.resume().unwrap();
    child.wait_for_line("lost, trusted for 0ns", SOON).await.unwrap();
    child.wait_for_line("late write refused", SOON).await.unwrap();
}

/// Ends those of our connections whose application name is such.
async fn end_sessions(place: &Place, which: &str) {
    let end = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where datname = current_database() and pid <> pg_backend_pid() and application_name {which}"
    );
    let ended = connect(place).await.query(&end, &[]).await.unwrap();
    assert!(!ended.is_empty(), "there was something to end");
}

#[tokio::test]
async fn a_lease_outlives_the_end_of_its_connections() {
    let place = Place::postgres("lock=lease&application_name=one").await;
    let locks = place.locks().await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    let other =
        Locks::open_with(&place.url.clone().unwrap().replace("=one", "=other"), quick()).await.unwrap();
    let waiting = tokio::spawn(async move { other.acquire("report", TTL).await });
    end_sessions(&place, "= 'one'").await;
    assert!(waiting.await.unwrap().unwrap().is_none(), "its holder lives and has said so");
    assert_eq!(held.lost_reason(), None);
    assert_eq!(held.confirm().await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_session_lock_is_lost_at_once_with_its_connection() {
    let place = Place::postgres("lock=session&application_name=one").await;
    let locks = place.locks().await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    end_sessions(&place, "= 'one'").await;
    tokio::time::timeout(SOON, held.lost().cancelled()).await.unwrap();
    assert_eq!(held.lost_reason(), Some(LostReason::ConnectionLost));
    let next = locks.acquire("report", SOON).await.unwrap().unwrap();
    assert!(next.epoch() > held.epoch());
}

#[tokio::test]
async fn locks_survive_or_are_lost_when_postgres_restarts_but_are_never_another_s_too() {
    for options in ["lock=lease", "lock=session"] {
        let mut server = PrivatePostgres::start(&[]).await.unwrap();
        let place = Place::at(format!("{}?{options}", server.url()), ());
        let (one, other) = (place.locks().await, place.locks().await);
        let held = one.try_lock("report").await.unwrap().unwrap();
        let waiting = wait(&other);
        server.stop();
        server.start_again().await.unwrap();
        if options == "lock=session" {
            tokio::time::timeout(SOON, held.lost().cancelled()).await.unwrap();
        }
        // A lease that its holder could answer for in time is still held: then it must be given back.
        tokio::time::sleep(TTL).await;
        if held.lost_reason().is_none() {
            assert!(!waiting.is_finished(), "{options}: two holders");
            drop(held);
        }
        let (next, _) = waiting.await.unwrap();
        assert!(next.epoch().get() > 1, "{options}: epochs survive");
    }
}

async fn a_silent_network_ends_trust_before_the_lock_ends(options: &str) {
    let place = Place::postgres(options).await;
    let proxy = Proxy::to_url(place.url.as_deref().unwrap()).await.unwrap();
    let far = proxy.url_for(place.url.as_deref().unwrap());
    let (one, other) = (Locks::open_with(&far, quick()).await.unwrap(), place.locks().await);
    let held = one.try_lock("report").await.unwrap().unwrap();
    proxy.silence();
    let waiting = wait(&other);
    let lost = tokio::spawn(held.lost().clone().cancelled_owned());
    tokio::time::timeout(SOON, lost).await.unwrap().unwrap();
    let lost_at = Moment::now();
    // The server cannot know that a session is dead while the proxy keeps its side open.
    if options == "lock=session" {
        assert!(!waiting.is_finished());
        proxy.heal();
    }
    let (next, at) = waiting.await.unwrap();
    assert!(lost_at < at, "the old holder heard of it first");
    assert!(next.epoch() > held.epoch());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_network_ends_trust_in_a_lease_before_it_ends() {
    a_silent_network_ends_trust_before_the_lock_ends("lock=lease").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_network_ends_trust_in_a_session_lock() {
    a_silent_network_ends_trust_before_the_lock_ends("lock=session").await;
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_is_an_error_and_not_busy() {
    let place = Place::postgres("lock=lease").await;
    let proxy = Proxy::to_url(place.url.as_deref().unwrap()).await.unwrap();
    let locks = Locks::open_with(&proxy.url_for(place.url.as_deref().unwrap()), quick()).await.unwrap();
    proxy.cut().await;
    assert!(locks.try_lock("report").await.unwrap_err().is_unavailable());
    proxy.heal();
    assert!(locks.acquire("report", SOON).await.unwrap().is_some());
}

#[tokio::test]
async fn what_is_asked_while_the_store_is_silent_is_undone_when_it_speaks_again() {
    let place = Place::postgres("lock=lease").await;
    let proxy = Proxy::to_url(place.url.as_deref().unwrap()).await.unwrap();
    let options = LockOptions { release_timeout: SOON, ..quick() };
    let locks = Locks::open_with(&proxy.url_for(place.url.as_deref().unwrap()), options).await.unwrap();
    // So that the connections are there.
    locks.try_lock("other").await.unwrap().unwrap().release().await.unwrap();
    proxy.silence();
    assert!(locks.try_lock("report").await.unwrap_err().is_unavailable());
    proxy.heal();
    locks.flush().await;
    assert!(place.locks().await.acquire("report", TTL * 2).await.unwrap().is_some());
}

#[tokio::test]
async fn a_release_has_a_deadline_of_its_own_and_says_that_it_does_not_know() {
    for options in ["lock=lease", "lock=session"] {
        let place = Place::postgres(options).await;
        let proxy = Proxy::to_url(place.url.as_deref().unwrap()).await.unwrap();
        let times = LockOptions {
            release_timeout: Duration::from_millis(500),
            ..LockOptions::with_ttl(Duration::from_secs(60))
        };
        let locks = Locks::open_with(&proxy.url_for(place.url.as_deref().unwrap()), times).await.unwrap();
        let held = locks.try_lock("report").await.unwrap().unwrap();
        proxy.silence();
        let asked = Moment::now();
        let error = held.release().await.unwrap_err();
        assert!(error.is_unavailable(), "{options}: {error}");
        let took = between(asked, Moment::now());
        assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(3), "{options}: {took:?}");
        proxy.heal();
    }
}
