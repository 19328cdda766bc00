//! What every store of locks must do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lineclear_lock::backend::{Extended, LockRequest};
use lineclear_lock::history::{Event, Observation, check};
use lineclear_lock::{Epoch, Exclusive, Holder, LockName, LockOptions, Locks, Moment, Released, TTL_MIN};

use crate::kit::{Place, SOON, TTL};

/// The tests that every store must pass. `Place` says how to open it, as another process would. Attributes of a store
/// are those of the module of its tests.
macro_rules! suite {
    ($($(#[$attribute:meta])* $module:ident => $place:expr;)+) => { $(
        $(#[$attribute])*
        mod $module {
            use crate::kit::Place;
            suite!(@each $place,
                one_holds_it_and_the_next_has_a_higher_epoch,
                a_holder_that_asks_again_is_busy_too,
                names_that_differ_in_a_byte_are_different_locks,
                a_dropped_lock_is_released_in_the_background,
                asking_without_waiting_for_the_answer_leaves_no_lock_behind,
                waiting_ends_with_the_lock_or_at_its_deadline,
                who_gives_up_waiting_leaves_the_line,
                a_held_lock_is_renewed_for_longer_than_it_lasts,
                a_program_that_blocks_its_runtime_keeps_its_lock,
                a_lock_outlives_the_runtime_that_took_it_and_is_released_after_it,
                a_lock_that_is_not_renewed_ends_by_itself,
                the_shortest_time_to_live_works,
                only_the_holder_s_token_renews_and_releases,
                a_release_undoes_a_take_whose_answer_never_came,
                who_holds_it_can_be_seen,
                exclusive_work_is_done_once_at_a_time,
                a_panic_in_exclusive_work_releases_the_lock,
                many_in_one_process_take_turns,
            );
        }
    )+ };
    (@each $place:expr, $($scenario:ident,)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let place: Place = $place;
            crate::suite::$scenario(&place).await;
        }
    )+ };
}

pub(crate) async fn one_holds_it_and_the_next_has_a_higher_epoch(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    let mut last = Epoch::new(0);
    for _ in 0..3 {
        let held = one.try_lock("report").await.unwrap().expect("it is free");
        assert!(held.epoch() > last, "{} after {last}", held.epoch());
        assert!(held.trusted_for() < TTL && !held.trusted_for().is_zero());
        assert!(other.try_lock("report").await.unwrap().is_none(), "it is busy");
        last = held.epoch();
        assert_eq!(held.release().await.unwrap(), Released::Clean);
        let held = other.try_lock("report").await.unwrap().expect("it is free again");
        assert!(held.epoch() > last);
        last = held.epoch();
        assert_eq!(held.release().await.unwrap(), Released::Clean);
    }
}

pub(crate) async fn the_shortest_time_to_live_works(place: &Place) {
    let Some(url) = &place.url else { return };
    let locks = Locks::open_with(url, LockOptions::with_ttl(TTL_MIN)).await.unwrap();
    let held = locks.acquire("report", SOON).await.unwrap().expect("it is free");
    tokio::time::sleep(TTL_MIN * 3 / 2).await;
    assert!(!held.trusted_for().is_zero(), "it is renewed");
    held.release().await.unwrap();
}

pub(crate) async fn a_holder_that_asks_again_is_busy_too(place: &Place) {
    let locks = place.locks().await;
    let held = locks.try_lock("report").await.unwrap().unwrap();
    assert!(locks.try_lock("report").await.unwrap().is_none());
    held.release().await.unwrap();
    // One release is enough, however often it asked.
    assert!(place.locks().await.try_lock("report").await.unwrap().is_some());
}

pub(crate) async fn names_that_differ_in_a_byte_are_different_locks(place: &Place) {
    let locks = place.locks().await;
    let long = |length: usize, end: char| "x".repeat(length - end.len_utf8()) + &end.to_string();
    let mut names = vec![
        "a".into(),
        "A".into(),
        "a ".into(),
        " a".into(),
        "ä".into(),
        "a\u{308}".into(),
        "ß".into(),
        "ss".into(),
    ];
    for length in [63, 64, 65, 128, 254, 255] {
        names.extend([long(length, 'y'), long(length, 'Y'), long(length, 'é')]);
    }
    names.extend(["%'\"\\;--$1?".into(), "🚂".into(), "scheduler:auto-refresh:lock".into()]);
    let mut held = Vec::new();
    for name in &names {
        held.push(locks.try_lock(name).await.unwrap().unwrap_or_else(|| panic!("{name} is free")));
    }
    let other = place.locks().await;
    for name in &names {
        assert!(other.try_lock(name).await.unwrap().is_none(), "{name} is busy");
    }
    assert!(other.try_lock(&long(256, 'y')).await.unwrap_err().to_string().contains("255"));
    for held in held {
        held.release().await.unwrap();
    }
}

pub(crate) async fn a_dropped_lock_is_released_in_the_background(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    let held = one.try_lock("report").await.unwrap().unwrap();
    let epoch = held.epoch();
    drop(held);
    one.flush().await;
    let next = other.try_lock("report").await.unwrap().expect("released, not ended by itself");
    assert!(next.epoch() > epoch);
}

pub(crate) async fn asking_without_waiting_for_the_answer_leaves_no_lock_behind(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    for millis in [0, 0, 0, 1, 1, 2, 5] {
        drop(tokio::time::timeout(Duration::from_millis(millis), one.acquire("report", SOON)).await);
        let held = other.acquire("report", TTL / 2).await.unwrap();
        held.expect("free long before it would have ended by itself").release().await.unwrap();
    }
}

pub(crate) async fn who_gives_up_waiting_leaves_the_line(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    let held = one.try_lock("report").await.unwrap().unwrap();
    for _ in 0..3 {
        drop(tokio::time::timeout(Duration::from_millis(30), other.acquire("report", SOON)).await);
    }
    // Those three would have asked for much longer; it is not behind them.
    let epoch = held.epoch();
    held.release().await.unwrap();
    let next = other.acquire("report", TTL).await.unwrap().unwrap();
    // One of them may have been granted it at the moment it gave up, and have let it go again: not more than one.
    assert!((1..=2).contains(&(next.epoch().get() - epoch.get())), "{} after {}", next.epoch(), epoch);
}

pub(crate) async fn waiting_ends_with_the_lock_or_at_its_deadline(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    let held = one.try_lock("report").await.unwrap().unwrap();
    let begun = Moment::now();
    assert!(other.acquire("report", Duration::from_millis(300)).await.unwrap().is_none());
    let waited = begun.plus(Duration::from_millis(300));
    assert!(waited.remaining().is_zero(), "it did not give up early");
    let waiting = tokio::spawn(async move { other.acquire("report", SOON).await });
    tokio::task::yield_now().await;
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_some());
}

pub(crate) async fn a_held_lock_is_renewed_for_longer_than_it_lasts(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    let held = one.try_lock("report").await.unwrap().unwrap();
    assert!(other.acquire("report", TTL * 2).await.unwrap().is_none(), "busy for twice its time to live");
    assert_eq!(held.lost_reason(), None);
    assert!(!held.trusted_for().is_zero());
    assert_eq!(held.confirm().await.unwrap(), Ok(()));
    assert_eq!(held.release().await.unwrap(), Released::Clean);
}

pub(crate) async fn a_program_that_blocks_its_runtime_keeps_its_lock(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    std::thread::scope(|scope| {
        // A runtime of one thread, which is blocked.
        let blocked = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let held = one.try_lock("report").await.unwrap().unwrap();
                std::thread::sleep(TTL * 2);
                assert_eq!(held.lost_reason(), None);
                assert!(!held.trusted_for().is_zero());
                held
            })
        });
        let held = blocked.join().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        scope.spawn(move || {
            assert!(runtime.block_on(other.try_lock("report")).unwrap().is_none(), "it is still busy");
            drop(held);
        });
    });
}

pub(crate) async fn a_lock_outlives_the_runtime_that_took_it_and_is_released_after_it(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let held = runtime.block_on(one.try_lock("report")).unwrap().unwrap();
            runtime.shutdown_background();
            drop(held);
        });
    });
    one.flush().await;
    assert!(other.try_lock("report").await.unwrap().is_some());
}

/// A request for a lock that is not renewed.
fn bare(name: &str) -> LockRequest {
    let (name, holder) = (LockName::new(name).unwrap(), Arc::new(Holder::this()));
    LockRequest { name, token: uuid::Uuid::new_v4(), ttl: TTL, kind: None, holder }
}

pub(crate) async fn a_lock_that_is_not_renewed_ends_by_itself(place: &Place) {
    let frozen = place.backend();
    frozen.open().await.unwrap();
    if !frozen.promises().frozen_holder_ends {
        return;
    }
    let ask = bare("report");
    let begun = Moment::now();
    let taken = frozen.acquire(&ask).await.unwrap().unwrap();
    let locks = place.locks().await;
    let held = locks.acquire("report", SOON).await.unwrap().expect("it ends by itself");
    assert!(begun.plus(TTL).remaining().is_zero(), "not before its time");
    assert!(held.epoch() > taken.epoch);
    assert!(matches!(frozen.extend(&ask, taken.epoch).await.unwrap(), Extended::No));
    assert_eq!(frozen.release(&ask, Some(taken.epoch)).await.unwrap(), Released::NotHeld);
    assert_eq!(held.confirm().await.unwrap(), Ok(()), "what the old holder did changed nothing");
}

pub(crate) async fn only_the_holder_s_token_renews_and_releases(place: &Place) {
    let (ours, theirs) = (place.backend(), place.backend());
    ours.open().await.unwrap();
    theirs.open().await.unwrap();
    let (ask, foreign) = (bare("report"), bare("report"));
    let epoch = ours.acquire(&ask).await.unwrap().unwrap().epoch;
    assert!(matches!(theirs.extend(&foreign, epoch).await.unwrap(), Extended::No));
    assert_eq!(theirs.release(&foreign, Some(epoch)).await.unwrap(), Released::NotHeld);
    assert!(theirs.acquire(&foreign).await.unwrap().is_none(), "it is still held");
    assert!(matches!(ours.extend(&ask, epoch).await.unwrap(), Extended::Yes(_)));
    assert_eq!(ours.release(&ask, Some(epoch)).await.unwrap(), Released::Clean);
    assert_eq!(ours.release(&ask, Some(epoch)).await.unwrap(), Released::NotHeld, "twice is no error");
    assert!(
        matches!(ours.extend(&ask, epoch).await.unwrap(), Extended::No),
        "nothing renews what was released"
    );
}

pub(crate) async fn a_release_undoes_a_take_whose_answer_never_came(place: &Place) {
    let (ours, theirs) = (place.backend(), place.backend());
    ours.open().await.unwrap();
    theirs.open().await.unwrap();
    let ask = bare("report");
    ours.acquire(&ask).await.unwrap().unwrap();
    ours.release(&ask, None).await.unwrap();
    assert!(theirs.acquire(&bare("report")).await.unwrap().is_some());
    // One that never went through leaves nothing.
    assert_eq!(ours.release(&bare("never"), None).await.unwrap(), Released::NotHeld);
}

pub(crate) async fn who_holds_it_can_be_seen(place: &Place) {
    let (one, other) = (place.locks().await.of_kind("outbox"), place.locks().await);
    assert_eq!(other.read("report").await.unwrap(), None);
    let held = one.try_lock("report").await.unwrap().unwrap();
    let seen = other.read("report").await.unwrap().unwrap();
    assert_eq!((seen.epoch, seen.holder), (held.epoch(), one.holder().to_string()));
    assert_eq!(seen.kind.as_deref(), Some("outbox"));
    assert!(seen.ends_in.is_some());
    let epoch = held.epoch();
    held.release().await.unwrap();
    let seen = other.read("report").await.unwrap().unwrap();
    assert_eq!((seen.epoch, seen.ends_in), (epoch, None), "the epoch stays");
}

pub(crate) async fn exclusive_work_is_done_once_at_a_time(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    let done = one
        .run_exclusive("report", Duration::ZERO, async |lease| {
            let busy = other.run_exclusive("report", Duration::ZERO, async |_| "two at once").await.unwrap();
            assert_eq!(busy, Exclusive::Busy);
            lease.epoch()
        })
        .await
        .unwrap();
    let Exclusive::Done(epoch) = done else { panic!("{done:?}") };
    let next = other.run_exclusive("report", Duration::ZERO, async |lease| lease.epoch()).await.unwrap();
    assert!(matches!(next, Exclusive::Done(next) if next > epoch), "{next:?} after {epoch}");
}

pub(crate) async fn a_panic_in_exclusive_work_releases_the_lock(place: &Place) {
    let (one, other) = (place.locks().await, place.locks().await);
    let panicking = one.clone();
    let work = async move {
        panicking.run_exclusive("report", SOON, async |_| panic!("on purpose")).await.map(drop)
    };
    assert!(tokio::spawn(work).await.unwrap_err().is_panic());
    one.flush().await;
    assert!(other.try_lock("report").await.unwrap().is_some());
}

pub(crate) async fn many_in_one_process_take_turns(place: &Place) {
    let (ttl, inside) = (Duration::from_secs(2), Arc::new(AtomicU32::new(0)));
    let mut all = Vec::new();
    for no in 0..3 {
        let locks: Locks = place.locks().await;
        for part in 0..5 {
            let (locks, inside, contender) = (locks.clone(), inside.clone(), format!("{no}.{part}"));
            let until = Moment::now().plus(ttl);
            all.push(tokio::spawn(async move {
                let mut events = Vec::new();
                let mut say = |observation| {
                    let (contender, lock) = (contender.clone(), "report".to_owned());
                    events.push(Event { contender, lock, observation, at: Moment::now() });
                };
                while let Some(held) = locks.acquire("report", until.remaining()).await.unwrap() {
                    say(Observation::Held(held.epoch()));
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "no other holder is inside");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    say(Observation::Ended(held.epoch()));
                    held.release().await.unwrap();
                    if until.remaining().is_zero() {
                        break;
                    }
                }
                events
            }));
        }
    }
    let mut events = Vec::new();
    for one in all {
        events.extend(one.await.unwrap());
    }
    assert!(events.len() > 20, "only {} events", events.len());
    assert_eq!(check(events, SOON), []);
}
