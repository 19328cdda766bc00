//! What calls say about hosts: which answers count against one, and who waits for it.

use super::*;
use crate::outbound::host_of;

fn busy(seconds: &str) -> HttpReply {
    HttpReply::Response(503, vec![("retry-after".to_owned(), seconds.to_owned())], String::new())
}

/// Breakers that open after the first failure.
fn strict() -> Breakers {
    let pause = Duration::from_secs(30);
    Breakers::new(BreakerOptions { failures: 1, pause, ..BreakerOptions::default() })
}

fn host(url: &str) -> String {
    host_of(&url.parse().unwrap())
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn only_a_host_that_is_down_or_overloaded_is_suspended() {
    let overloaded = [429, 502, 503, 504];
    for status in [200, 202, 301, 400, 401, 403, 404, 405, 408, 409, 422, 425, 429, 500, 501, 502, 503, 504] {
        let (endpoint, _) = worker(vec![HttpReply::new(status, "")]).await;
        let breakers = strict();
        push(&endpoint).breakers(breakers.clone()).submit(job()).await;
        let expected = if overloaded.contains(&status) { BreakerState::Open } else { BreakerState::Closed };
        assert_eq!(breakers.status(&host(&endpoint.url())).state, expected, "{status}");
    }
    let (hangs_up, _) = worker(vec![HttpReply::HangUp]).await;
    for url in [hangs_up.url(), closed_port().await] {
        let breakers = strict();
        HttpPush::new(&url).unwrap().breakers(breakers.clone()).submit(job()).await;
        assert_eq!(breakers.status(&host(&url)).state, BreakerState::Open, "{url}");
    }
    // What a worker calls its own error says nothing about the host.
    let says = r#"{"outcome":"failed","error":{"type":"connection_lost","message":"to its own database"}}"#;
    let (endpoint, _) = worker(vec![HttpReply::new(200, says)]).await;
    let breakers = strict();
    push(&endpoint).breakers(breakers.clone()).submit(job()).await;
    assert_eq!(breakers.list(), []);
}

#[tokio::test]
async fn a_path_that_is_missing_suspends_its_own_submitter_and_no_other_on_the_host() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let endpoint = HttpEndpoint::start(move |call: HttpCall| {
        let is_missing = call.path.starts_with("/missing");
        counted.fetch_add(usize::from(is_missing), Ordering::SeqCst);
        async move { if is_missing { HttpReply::new(404, "") } else { completed() } }
    });
    let endpoint = endpoint.await.unwrap();
    let breakers = strict();
    let missing = format!("http://{}/missing?key=hunter2", endpoint.address());
    let missing = HttpPush::new(&missing).unwrap().breakers(breakers.clone());
    let other = push(&endpoint).breakers(breakers.clone());
    for _ in 0..20 {
        let submission = missing.submit(job()).await;
        assert!(matches!(submission, Submission::Unreachable(_)), "no retry is spent: {submission:?}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1, "its jobs wait");
    let status = missing.status();
    assert_eq!((missing.capacity(), status.state.as_str()), (0, "breaker open"));
    assert!(status.retry_in.is_some() && !format!("{status:?}").contains("hunter2"), "{status:?}");
    assert_eq!((other.capacity(), other.status().state.as_str()), (CAPACITY, "ready"));
    assert_eq!(other.submit(job()).await, done());
    assert_eq!(breakers.list(), [], "calls of the kind `http` go on");
}

#[tokio::test]
async fn a_long_job_that_tries_a_worker_does_not_keep_the_others_waiting() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let endpoint = HttpEndpoint::start(move |_| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match call {
                0 => busy("60"),
                1 => std::future::pending().await,
                _ => completed(),
            }
        }
    });
    let endpoint = endpoint.await.unwrap();
    let pause = Duration::from_millis(100);
    let breakers = Breakers::new(BreakerOptions { failures: 1, pause, pause_max: pause * 2 });
    let push = push(&endpoint).breakers(breakers).max_concurrent_dispatch(8);
    push.submit(job()).await;
    until("it is to be tried", || push.capacity() == 1).await;
    let long = tokio::spawn(push.submit(job()));
    until("the long job tries it", || calls.load(Ordering::SeqCst) == 2).await;
    until("one more may try it", || push.capacity() == 2).await;
    assert_eq!(push.submit(job()).await, done());
    assert_eq!((push.capacity(), push.status().state.as_str()), (8, "ready"));
    long.abort();
}

#[tokio::test]
async fn a_busy_worker_is_called_again_although_the_other_one_is_suspended() {
    let breakers = Breakers::new(BreakerOptions { failures: 2, ..BreakerOptions::default() });
    let suspended = closed_port().await;
    for _ in 0..2 {
        breakers.admit(&host(&suspended)).expect("closed").failure(Some(Duration::from_secs(50)));
    }
    let (endpoint, calls) = worker(vec![busy("1"), completed()]).await;
    let urls = [suspended, endpoint.url()];
    let both = || HttpPush::to_any_of(urls.iter().map(String::as_str)).unwrap();
    assert_eq!(both().breakers(breakers.clone()).submit(job()).await, done());
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    // And if it must go back to the queue, it says why.
    let (endpoint, _) = worker(vec![busy("7")]).await;
    let urls = [urls[0].clone(), endpoint.url()];
    let submission =
        HttpPush::to_any_of(urls.iter().map(String::as_str)).unwrap().breakers(breakers).submit(job()).await;
    let told = Unreachable::new("status 503").retry_in(Duration::from_secs(7));
    assert_eq!(submission, Submission::Unreachable(told));
}

#[tokio::test]
async fn a_worker_that_is_gone_does_not_hide_that_the_other_one_is_busy() {
    // In both orders, as the first worker is called first.
    for is_gone_first in [true, false] {
        let (gone, _) = worker(vec![HttpReply::new(404, "")]).await;
        let (endpoint, calls) = worker(vec![busy("1"), completed()]).await;
        let mut urls = [endpoint.url(), gone.url()];
        if is_gone_first {
            urls.reverse();
        }
        let push = HttpPush::to_any_of(urls.iter().map(String::as_str)).unwrap();
        assert_eq!(push.submit(job()).await, done(), "{is_gone_first}");
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}
