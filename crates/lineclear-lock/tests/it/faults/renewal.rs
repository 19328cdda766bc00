//! Renewal when the store misbehaves: a holder is told in time when it may have lost the lock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineclear_lock::backend::{Extended, Grant, LockFuture, LockRequest, LossSignal};
use lineclear_lock::{
    Backend, Epoch, Exclusive, Holding, InProcess, LockError, LockName, LockOptions, Locks, LostReason,
    Moment, Promises, Released, RunnerState, Singleton, Term,
};
use tokio_util::sync::CancellationToken;

use crate::kit::{SOON, TTL, quick};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Good,
    Failing,
    Silent,
    Panicking,
    /// Says that another holds it.
    Denying,
    /// Renews, but the answer to the first renewal is lost on the way.
    LosingOne,
    /// Renews, and answers when it is told to.
    Late,
    /// Nothing can be asked.
    Down,
}

/// A store whose renewals do what the test wants.
#[derive(Debug)]
struct Moody {
    inner: InProcess,
    mood: Mutex<Mood>,
    extended: AtomicU32,
    asked: AtomicU32,
    loss_signal: CancellationToken,
    confirm_within: Duration,
    /// For the late answers.
    answer: CancellationToken,
}

impl Moody {
    fn new(confirm_within: Duration) -> Arc<Moody> {
        Arc::new(Moody {
            inner: InProcess::new(),
            mood: Mutex::new(Mood::Good),
            extended: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            loss_signal: CancellationToken::new(),
            confirm_within,
            answer: CancellationToken::new(),
        })
    }

    fn feel(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }
}

impl Backend for Moody {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    fn open(&self) -> LockFuture<'_, ()> {
        self.inner.open()
    }

    fn acquire<'a>(&'a self, ask: &'a LockRequest) -> LockFuture<'a, Option<Grant>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if *self.mood.lock().unwrap() == Mood::Down {
            return Box::pin(async { Err(LockError::unavailable("on purpose")) });
        }
        Box::pin(async {
            let loss_signal = LossSignal::new(self.loss_signal.clone(), self.confirm_within);
            Ok(self.inner.acquire(ask).await?.map(|taken| Grant { loss_signal, ..taken }))
        })
    }

    fn extend<'a>(&'a self, ask: &'a LockRequest, epoch: Epoch) -> LockFuture<'a, Extended> {
        self.extended.fetch_add(1, Ordering::SeqCst);
        let mood = *self.mood.lock().unwrap();
        Box::pin(async move {
            match mood {
                Mood::Good => self.inner.extend(ask, epoch).await,
                Mood::Failing | Mood::Down => Err(LockError::unavailable("on purpose")),
                Mood::Silent => std::future::pending().await,
                // Without the panic hook: on a busy machine its backtrace takes longer than the lock lasts.
                Mood::Panicking => std::panic::resume_unwind(Box::new("on purpose")),
                Mood::Denying => Ok(Extended::No),
                Mood::LosingOne => {
                    self.inner.extend(ask, epoch).await?;
                    self.feel(Mood::Good);
                    Err(LockError::unavailable("on purpose"))
                }
                Mood::Late => {
                    self.inner.extend(ask, epoch).await?;
                    self.answer.cancelled().await;
                    Ok(Extended::Yes(LossSignal::new(self.loss_signal.clone(), self.confirm_within)))
                }
            }
        })
    }

    fn release<'a>(&'a self, ask: &'a LockRequest, epoch: Option<Epoch>) -> LockFuture<'a, Released> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if *self.mood.lock().unwrap() == Mood::Down {
            return Box::pin(async { Err(LockError::unavailable("on purpose")) });
        }
        self.inner.release(ask, epoch)
    }

    fn read<'a>(&'a self, name: &'a LockName) -> LockFuture<'a, Option<Holding>> {
        self.inner.read(name)
    }
}

#[tokio::test]
async fn a_lock_that_cannot_be_renewed_is_lost_before_it_ends() {
    let moods = [
        (Mood::Failing, LostReason::TrustExpired),
        (Mood::Silent, LostReason::TrustExpired),
        (Mood::Panicking, LostReason::RenewalStopped),
        (Mood::Denying, LostReason::TakenOver),
    ];
    for (mood, why) in moods {
        let store = Moody::new(Duration::MAX);
        let locks = Locks::new(store.clone(), quick()).await.unwrap();
        let held = locks.try_lock("report").await.unwrap().unwrap();
        store.feel(mood);
        assert_eq!(held.guard(std::future::pending::<()>()).await, Err(why), "{mood:?}");
        let left = locks.read("report").await.unwrap().unwrap().ends_in;
        assert!(left.is_some(), "{mood:?}: the lock has not ended yet");
        assert!(held.trusted_for().is_zero());
        assert_eq!(held.release().await.unwrap(), Released::Clean, "{mood:?}: it can still be given back");
    }
}

#[tokio::test]
async fn an_alarm_is_answered_in_time_or_the_lock_is_lost() {
    let store = Moody::new(Duration::from_millis(300));
    let locks = Locks::new(store.clone(), quick()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    store.loss_signal.cancel();
    while store.extended.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(held.lost_reason(), None, "it was answered");
    held.release().await.unwrap();

    // The loss is signalled from the beginning, and the store does not answer.
    store.feel(Mood::Failing);
    let rung = Moment::now();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    held.lost().cancelled().await;
    assert_eq!(held.lost_reason(), Some(LostReason::ConnectionLost));
    assert!(!rung.plus(TTL).remaining().is_zero(), "long before its time was over");
}

#[tokio::test]
async fn renewal_ends_with_the_lock() {
    let store = Moody::new(Duration::MAX);
    let locks = Locks::new(store.clone(), quick()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    while store.extended.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    held.release().await.unwrap();
    let then = store.extended.load(Ordering::SeqCst);
    tokio::time::sleep(TTL).await;
    assert_eq!(store.extended.load(Ordering::SeqCst), then);
}

#[tokio::test]
async fn exclusive_work_that_loses_its_lock_is_told_and_then_dropped() {
    let store = Moody::new(Duration::MAX);
    let options = lineclear_lock::LockOptions { stop_timeout: Duration::from_millis(50), ..quick() };
    let locks = Locks::new(store.clone(), options).await.unwrap();
    store.feel(Mood::Denying);
    let heeds = locks.run_exclusive("report", SOON, |lease| async move {
        lease.lost().cancelled().await;
        "ended"
    });
    let lost = Exclusive::Lost { reason: LostReason::TakenOver, output: Some("ended") };
    assert_eq!(heeds.await.unwrap(), lost);
    let deaf = locks.run_exclusive("report", SOON, |_| std::future::pending::<&str>());
    assert_eq!(deaf.await.unwrap(), Exclusive::Lost { reason: LostReason::TakenOver, output: None });
}

/// Notes when it is dropped.
struct Dropped(tokio::sync::mpsc::UnboundedSender<Moment>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(Moment::now()).ok();
    }
}

#[tokio::test]
async fn the_work_of_a_singleton_is_told_before_its_trust_ends_and_dropped_before_its_lock_does() {
    for mood in [Mood::Failing, Mood::Silent, Mood::Denying] {
        let store = Moody::new(Duration::MAX);
        let margin = Duration::from_millis(900);
        let options = LockOptions { margin, stop_timeout: SOON * 10, ..quick() };
        let locks = Locks::new(store.clone(), options).await.unwrap();
        let (told, mut is_told) = tokio::sync::mpsc::unbounded_channel();
        let (dropped, mut is_dropped) = tokio::sync::mpsc::unbounded_channel();
        let work = move |term: Term| {
            let (told, dropped) = (told.clone(), Dropped(dropped.clone()));
            async move {
                let _dropped = dropped;
                term.ending().cancelled().await;
                told.send((term.trusted_for(), term.trusted_until())).ok();
                // It does not stop by itself.
                std::future::pending::<Result<(), String>>().await
            }
        };
        let (singleton, stop) = (Singleton::new(&locks, "mirror"), CancellationToken::new());
        let running = tokio::spawn({
            let (singleton, stop) = (singleton.clone(), stop.clone());
            async move { singleton.run(&stop, work).await }
        });
        let mut status = singleton.status();
        status.wait_for(|status| status.state == RunnerState::Running).await.unwrap();
        store.feel(mood);
        let dropped = tokio::time::timeout(SOON, is_dropped.recv()).await;
        let dropped = dropped.unwrap_or_else(|_| panic!("{mood:?}: it was not dropped")).unwrap();
        if mood != Mood::Denying {
            let (trusted_for, trusted_until) = is_told.recv().await.unwrap();
            assert!(!trusted_for.is_zero(), "{mood:?}: it was told too late");
            assert!(dropped < trusted_until.plus(margin), "{mood:?}: another node may have the lock");
        }
        stop.cancel();
        running.abort();
    }
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_costs_nothing_if_the_next_succeeds() {
    let store = Moody::new(Duration::MAX);
    let locks = Locks::new(store.clone(), quick()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    store.feel(Mood::LosingOne);
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(*store.mood.lock().unwrap(), Mood::Good, "one was lost");
    assert_eq!(held.lost_reason(), None);
    assert!(!held.trusted_for().is_zero());
    assert_eq!(held.release().await.unwrap(), Released::Clean);
}

#[tokio::test]
async fn a_lock_that_is_lost_is_not_trusted_again_when_a_late_answer_says_that_it_is_ours() {
    let store = Moody::new(Duration::MAX);
    let options = lineclear_lock::LockOptions { request_timeout: TTL, ..quick() };
    let locks = Locks::new(store.clone(), options).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    store.feel(Mood::Failing);
    tokio::time::sleep(TTL / 2).await;
    store.feel(Mood::Late);
    let confirm = held.confirm();
    let late = async {
        held.lost().cancelled().await;
        store.answer.cancel();
    };
    let (confirmed, ()) = tokio::join!(confirm, late);
    assert_eq!(confirmed.unwrap(), Err(LostReason::TrustExpired));
    assert_eq!(held.trusted_for(), Duration::ZERO, "it is not renewed any more");
}

#[tokio::test]
async fn an_answer_from_before_the_alarm_does_not_still_it() {
    let store = Moody::new(Duration::from_millis(300));
    let locks = Locks::new(store.clone(), quick()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    store.feel(Mood::Late);
    let alarmed = async {
        // The question is on its way; the connection ends, and the next renewals fail.
        while store.extended.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        store.feel(Mood::Failing);
        store.loss_signal.cancel();
        tokio::time::sleep(Duration::from_millis(50)).await;
        store.answer.cancel();
        tokio::time::timeout(TTL / 2, held.lost().cancelled()).await.expect("within the time to answer");
    };
    drop(tokio::join!(held.confirm(), alarmed));
    assert_eq!(held.lost_reason(), Some(LostReason::ConnectionLost));
}

#[tokio::test]
async fn a_store_that_is_down_is_asked_less_and_less_often_and_found_again_when_it_is_back() {
    let store = Moody::new(Duration::MAX);
    let locks = Locks::new(store.clone(), quick()).await.unwrap();
    store.feel(Mood::Down);
    let waiting = tokio::spawn(async move { locks.acquire("report", SOON).await });
    // Each question may have been granted unheard, and is taken back; that must not become a storm.
    let time = Duration::from_secs(4);
    tokio::time::sleep(time).await;
    let asked = store.asked.load(Ordering::SeqCst);
    println!("{asked} questions in {time:?}");
    assert!(asked < 100, "{asked} questions in {time:?}");
    store.feel(Mood::Good);
    let back = Moment::now();
    assert!(waiting.await.unwrap().unwrap().is_some());
    assert!(!back.plus(TTL * 2).remaining().is_zero(), "soon");
}
