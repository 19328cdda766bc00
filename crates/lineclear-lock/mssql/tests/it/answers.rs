//! What `sp_getapplock` and the server may answer, and what we make of it.

use std::time::Duration;

use lineclear_lock::{LockError, Locks};

use crate::kit::quick;
use crate::server::{Say, Server};

async fn opened() -> (Server, Locks) {
    let server = Server::start().await;
    let locks = Locks::open_with(&server.url(), quick()).await.unwrap();
    (server, locks)
}

#[tokio::test]
async fn granted_at_once_and_granted_after_a_wait_are_both_granted() {
    let (server, locks) = opened().await;
    let held = locks.try_lock("report").await.unwrap().expect("0 is a grant");
    assert_eq!(held.epoch().get(), 1);
    held.release().await.unwrap();
    server.say("lock_acquire", Say::Got(1));
    assert_eq!(locks.try_lock("report").await.unwrap().expect("1 is a grant").epoch().get(), 2);
}

#[tokio::test]
async fn a_timeout_is_busy_and_no_error() {
    let (server, locks) = opened().await;
    server.say("lock_acquire", Say::Got(-1));
    assert!(locks.try_lock("report").await.unwrap().is_none());
    // Who waits asks again.
    server.say("lock_acquire", Say::Got(-1));
    assert!(locks.acquire("report", Duration::from_secs(5)).await.unwrap().is_some());
}

#[tokio::test]
async fn cancelled_and_deadlocked_are_neither_busy_nor_granted() {
    let (server, locks) = opened().await;
    for say in [Say::Got(-2), Say::Got(-3), Say::Error(1205, 13), Say::Error(1222, 16), Say::Error(596, 21)] {
        server.say("lock_acquire", say);
        let error = locks.try_lock("report").await.unwrap_err();
        assert!(error.is_unavailable(), "{say:?}: {error}");
        locks.flush().await;
        assert_eq!(server.state().locks.len(), 0, "{say:?} leaves nothing behind");
        // Who waits asks again.
        server.say("lock_acquire", say);
        let held = locks.acquire("report", Duration::from_secs(5)).await.unwrap().expect("it is free");
        held.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_bad_call_and_a_missing_permission_are_failures_that_are_not_tried_again() {
    let (server, locks) = opened().await;
    for say in [Say::Got(-999), Say::Error(229, 14), Say::Error(208, 16)] {
        server.say("lock_acquire", say);
        let error = locks.acquire("report", Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(error, LockError::Failed { .. }), "{say:?}: {error}");
    }
    assert!(locks.try_lock("report").await.unwrap().is_some(), "and they leave nothing behind");
}

#[tokio::test]
async fn names_are_hashed_so_that_none_is_cut_off_or_folded() {
    let (server, locks) = opened().await;
    let (long, other) = ("x".repeat(254) + "y", "x".repeat(254) + "Y");
    let mut held = Vec::new();
    for name in ["report", "REPORT", "Report ", &long, &other] {
        held.push(locks.try_lock(name).await.unwrap().expect("it is another lock"));
    }
    {
        let state = server.state();
        assert_eq!(state.locks.len(), 5);
        for name in state.locks.keys() {
            assert!(name.starts_with("lineclear.") && name.len() == 58, "{name}");
        }
    }
    let error = locks.try_lock(&"x".repeat(256)).await.unwrap_err();
    assert!(error.to_string().starts_with("refused by lock_name: "), "{error}");
}

#[tokio::test]
async fn a_session_is_never_granted_its_own_lock_again() {
    let (server, locks) = opened().await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    // The server would say yes.
    assert!(locks.try_lock("report").await.unwrap().is_none());
    assert!(server.state().locks.values().all(|(_, times)| *times == 1));
    held.release().await.unwrap();
    assert_eq!(server.state().locks.len(), 0, "one release is enough");
}

#[tokio::test]
async fn a_lock_that_the_server_does_not_know_any_more_is_lost() {
    let (server, locks) = opened().await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    server.state().locks.clear();
    tokio::time::timeout(Duration::from_secs(10), held.lost().cancelled()).await.unwrap();
    assert_eq!(held.lost_reason(), Some(lineclear_lock::LostReason::TakenOver));
    assert_eq!(held.release().await.unwrap(), lineclear_lock::Released::NotHeld);
}

#[tokio::test]
async fn stores_that_are_not_built_in_are_named_by_their_feature() {
    for (url, feature) in [("mysql://a@b/c", "feature mysql"), ("redis://a", "feature redis")] {
        let error = Locks::open(url).await.unwrap_err().to_string();
        assert!(error.starts_with("refused by lock_url: ") && error.contains(feature), "{error}");
    }
}
