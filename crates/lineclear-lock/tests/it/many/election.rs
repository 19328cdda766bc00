//! One leader among many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use lineclear_lock::{Election, LockOptions, Locks};
use tokio_util::sync::CancellationToken;

use crate::kit::{Place, SOON, quick};

struct Candidate {
    election: Election,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

/// Leads until it is told to end, and counts the leaders.
fn stand(locks: &Locks, leaders: &Arc<AtomicU32>) -> Candidate {
    run(locks.election("lead"), leaders)
}

fn run(election: Election, leaders: &Arc<AtomicU32>) -> Candidate {
    run_counted(election, leaders, &Arc::default())
}

/// Counts the terms, too.
fn run_counted(election: Election, leaders: &Arc<AtomicU32>, terms: &Arc<AtomicU32>) -> Candidate {
    let stop = CancellationToken::new();
    let (candidate, stopping) = (election.clone(), stop.clone());
    let (leaders, terms) = (leaders.clone(), terms.clone());
    let running = tokio::spawn(async move {
        let lead = |term: lineclear_lock::Term| {
            let leaders = leaders.clone();
            terms.fetch_add(1, Ordering::SeqCst);
            async move {
                assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "no other candidate leads");
                term.ending().cancelled().await;
                // Its work needs a moment to end.
                tokio::time::sleep(Duration::from_millis(50)).await;
                leaders.fetch_sub(1, Ordering::SeqCst);
            }
        };
        candidate.run(&stopping, lead).await.unwrap();
    });
    Candidate { election, stop, running }
}

async fn leads(candidate: &Candidate) -> bool {
    candidate.election.leading().borrow().is_some()
}

async fn leader(candidates: &[Candidate]) -> usize {
    tokio::time::timeout(SOON, async {
        loop {
            for (no, candidate) in candidates.iter().enumerate() {
                if leads(candidate).await {
                    return no;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("a candidate leads")
}

async fn one_leads_hands_over_and_is_followed(place: &Place) {
    let leaders = Arc::new(AtomicU32::new(0));
    let mut candidates = Vec::new();
    for _ in 0..3 {
        candidates.push(stand(&place.locks().await, &leaders));
    }
    let first = leader(&candidates).await;
    let mut changes = candidates[first].election.leading();
    let epoch = (*changes.borrow_and_update()).unwrap();
    candidates[first].election.resign();
    tokio::time::timeout(SOON, changes.wait_for(Option::is_none)).await.unwrap().unwrap();
    let second = leader(&candidates).await;
    assert_ne!(first, second, "who resigns stands back");
    let higher = (*candidates[second].election.leading().borrow()).unwrap();
    assert!(higher > epoch);
    // A leader that stops is followed, too.
    candidates[second].stop.cancel();
    (&mut candidates[second].running).await.unwrap();
    let third = leader(&candidates).await;
    assert_ne!(second, third);
    for candidate in candidates {
        candidate.stop.cancel();
        if !candidate.running.is_finished() {
            candidate.running.await.unwrap();
        }
    }
    assert_eq!(leaders.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_hands_over_and_is_followed_in_process() {
    one_leads_hands_over_and_is_followed(&Place::in_process()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_hands_over_and_is_followed_on_postgres() {
    one_leads_hands_over_and_is_followed(&Place::postgres("lock=lease").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_work_panics_stands_again() {
    let place = Place::in_process();
    let (election, stop) = (place.locks().await.election("lead"), CancellationToken::new());
    let terms = AtomicU32::new(0);
    let lead = |_term| {
        let term = terms.fetch_add(1, Ordering::SeqCst);
        let stop = stop.clone();
        async move {
            assert!(term > 0, "on purpose");
            stop.cancel();
        }
    };
    tokio::time::timeout(SOON, election.run(&stop, lead)).await.unwrap().unwrap();
    assert_eq!(terms.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_candidate_stands_again_while_its_old_work_still_runs() {
    let place = Place::in_process();
    let options = LockOptions { stop_timeout: Duration::from_millis(50), ..quick() };
    let locks = Locks::new(place.backend(), options).await.unwrap();
    let (election, stop) = (locks.election("lead"), CancellationToken::new());
    let (terms, blocked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(true)));
    let running = tokio::spawn({
        let (election, stop, terms, blocked) =
            (election.clone(), stop.clone(), terms.clone(), blocked.clone());
        async move {
            let lead = |_term| {
                let (terms, blocked) = (terms.clone(), blocked.clone());
                async move {
                    terms.fetch_add(1, Ordering::SeqCst);
                    // It blocks its thread: neither a word nor an abort can end it.
                    while blocked.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            };
            election.run(&stop, lead).await.unwrap();
        }
    });
    tokio::time::timeout(SOON, election.leading().wait_for(Option::is_some)).await.unwrap().unwrap();
    election.resign();
    // Its lock is not given back: it ends by itself, and another may lead.
    let other = place.locks().await.acquire("lead", SOON).await.unwrap().unwrap();
    other.release().await.unwrap();
    assert_eq!(terms.load(Ordering::SeqCst), 1, "the lock is free, but the old work still runs");
    assert!(election.leading().borrow().is_some());
    blocked.store(false, Ordering::SeqCst);
    tokio::time::timeout(SOON, async {
        while terms.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it stands again when the old work is over");
    stop.cancel();
    running.await.unwrap();
}

/// Each of three leaders resigns in favour of a named candidate, which leads next, and no other candidate begins to work.
async fn the_lead_goes_to_the_successor_that_was_named(place: &Place) {
    const NAMES: [&str; 3] = ["ada", "ben", "eva"];
    let (leaders, terms) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut candidates = Vec::new();
    for name in NAMES {
        let election = place.locks().await.election("lead").as_candidate(name);
        candidates.push(run_counted(election, &leaders, &terms));
    }
    let mut now = leader(&candidates).await;
    for round in 1..=8 {
        let next = (now + 1 + round % 2) % 3;
        candidates[now].election.resign_to(NAMES[next]);
        let mut leading = candidates[next].election.leading();
        tokio::time::timeout(SOON, leading.wait_for(Option::is_some))
            .await
            .expect("the one that was named")
            .unwrap();
        now = next;
        // Its work may begin a little later.
        let counted = async {
            while (terms.load(Ordering::SeqCst) as usize) < round + 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(SOON, counted).await.expect("every term is counted");
        assert_eq!(terms.load(Ordering::SeqCst) as usize, round + 1, "no other candidate led in between");
    }
    for candidate in candidates {
        candidate.stop.cancel();
        candidate.running.await.unwrap();
    }
    assert_eq!(leaders.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_goes_to_the_successor_that_was_named_in_process() {
    the_lead_goes_to_the_successor_that_was_named(&Place::in_process()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_goes_to_the_successor_that_was_named_on_postgres() {
    the_lead_goes_to_the_successor_that_was_named(&Place::postgres("lock=lease").await).await;
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_goes_to_the_successor_that_was_named_on_redis() {
    the_lead_goes_to_the_successor_that_was_named(&Place::redis()).await;
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_goes_to_the_successor_that_was_named_on_mysql() {
    the_lead_goes_to_the_successor_that_was_named(&Place::mysql().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_is_not_there_is_not_waited_for_for_long() {
    let (place, leaders) = (Place::in_process(), Arc::new(AtomicU32::new(0)));
    let mut candidates = Vec::new();
    for _ in 0..2 {
        candidates.push(stand(&place.locks().await, &leaders));
    }
    let first = leader(&candidates).await;
    let begun = std::time::Instant::now();
    candidates[first].election.resign_to("missing");
    let mut changes = candidates[first].election.leading();
    tokio::time::timeout(SOON, changes.wait_for(Option::is_none)).await.unwrap().unwrap();
    leader(&candidates).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for candidate in candidates {
        candidate.stop.cancel();
        candidate.running.await.unwrap();
    }
}
