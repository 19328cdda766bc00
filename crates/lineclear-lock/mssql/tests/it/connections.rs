//! Connections that end, fall silent, are refused, or lead elsewhere.

use std::time::{Duration, Instant};

use lineclear_lock::{LockError, Locks, LostReason};

use crate::kit::{SOON, TTL, patient, quick};
use crate::server::{Say, Server};

#[tokio::test]
async fn a_dropped_connection_loses_all_its_locks_at_once_and_the_next_holder_has_a_higher_epoch() {
    let server = Server::start().await;
    let locks = Locks::open_with(&server.url(), patient()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    let other = locks.try_lock("other").await.unwrap().unwrap();
    // Questions come and go before, and are not taken for the end.
    held.confirm().await.unwrap().unwrap();
    let begun = Instant::now();
    server.kill_all();
    for held in [&held, &other] {
        tokio::time::timeout(SOON, held.lost().cancelled()).await.unwrap();
        assert_eq!(held.lost_reason(), Some(LostReason::ConnectionLost));
        assert!(held.trusted_for().is_zero());
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "not by renewal: {:?}", begun.elapsed());
    let next = locks.try_lock("report").await.unwrap().expect("free at once, over a new connection");
    assert!(next.epoch() > held.epoch());
}

#[tokio::test]
async fn all_locks_of_a_process_share_one_connection_which_ends_with_them() {
    let server = Server::start().await;
    let locks = Locks::open_with(&server.url(), quick()).await.unwrap();
    let mut held = Vec::new();
    for no in 0..100 {
        held.push(locks.try_lock(&format!("report-{no}")).await.unwrap().unwrap());
    }
    assert_eq!(server.connections(), 1, "those of the start have ended");
    drop((held, locks));
    let until = Instant::now() + SOON;
    while server.connections() > 0 || !server.state().locks.is_empty() {
        assert!(Instant::now() < until, "it is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_connection_that_ends_in_the_middle_of_a_question_is_neither_busy_nor_granted() {
    let server = Server::start().await;
    let locks = Locks::open_with(&server.url(), quick()).await.unwrap();
    server.say("lock_acquire", Say::Goodbye);
    assert!(locks.try_lock("report").await.unwrap_err().is_unavailable());
    assert!(locks.try_lock("report").await.unwrap().is_some(), "the next question has a new connection");
}

#[tokio::test]
async fn a_server_that_falls_silent_is_not_busy_and_its_lock_is_lost_in_time() {
    let server = Server::start().await;
    let locks = Locks::open_with(&server.url(), quick()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    let begun = Instant::now();
    for _ in 0..20 {
        server.say("lock_extend", Say::Nothing);
    }
    tokio::time::timeout(SOON, held.lost().cancelled()).await.unwrap();
    assert!(begun.elapsed() < TTL, "before its time was over: {:?}", begun.elapsed());
    server.state().script.clear();
    server.say("lock_acquire", Say::Nothing);
    let error = locks.try_lock("report").await.unwrap_err();
    assert!(error.is_unavailable(), "silence is not busy: {error}");
    // The silent connection is given up, and with it what it may have been granted.
    assert!(locks.acquire("report", SOON).await.unwrap().is_some());
}

#[tokio::test]
async fn a_refused_login_is_a_failure_and_a_busy_server_is_not() {
    let server = Server::start().await;
    for (number, class) in [(18456, 14), (4060, 11)] {
        server.state().login = Some(Say::Error(number, class));
        let error = Locks::open_with(&server.url(), quick()).await.unwrap_err();
        assert!(matches!(error, LockError::Failed { .. }), "{error}");
        assert!(error.to_string().contains(&format!("error {number}")), "{error}");
    }
    for say in [Say::Error(40613, 17), Say::Error(17809, 20), Say::Goodbye, Say::Nothing] {
        server.state().login = Some(say);
        let url = server.url();
        let opened = tokio::time::timeout(Duration::from_secs(15), Locks::open_with(&url, quick()));
        let error = opened.await.expect("silence has an end").unwrap_err();
        assert!(error.is_unavailable(), "{say:?}: {error}");
    }
    let gone = server.url();
    drop(server);
    assert!(Locks::open_with(&gone, quick()).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_gateway_is_followed_to_the_server() {
    let (server, gateway) = (Server::start().await, Server::start().await);
    gateway.state().route = Some(server.port);
    let locks = Locks::open_with(&gateway.url(), quick()).await.unwrap();
    let _held = locks.try_lock("report").await.unwrap().unwrap();
    assert_eq!(server.state().locks.len(), 1);
}

#[tokio::test]
async fn what_cannot_keep_locks_is_refused_at_the_start() {
    let server = Server::start().await;
    server.state().pretends = true;
    let error = Locks::open_with(&server.url(), quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("refused by session_locks: "), "{error}");
    server.state().pretends = false;
    server.state().read_only = true;
    let error = Locks::open_with(&server.url(), quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("refused by read_only: "), "{error}");
}

#[tokio::test]
async fn many_that_open_at_once_make_the_table_once() {
    let server = Server::start().await;
    let opening: Vec<_> = (0..8)
        .map(|_| server.url())
        .map(|url| tokio::spawn(async move { Locks::open_with(&url, quick()).await }))
        .collect();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
    // One who must not make tables, and finds none.
    let bare = Server::start().await;
    bare.say("lock_schema", Say::Error(262, 14));
    assert!(matches!(Locks::open_with(&bare.url(), quick()).await, Err(LockError::Failed { .. })));
}
