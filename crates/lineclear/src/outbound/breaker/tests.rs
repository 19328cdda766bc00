//! States of a breaker, with moments of the test's choice.

use super::*;

const HOST: &str = "api.example.com";

fn quick(failures: u32) -> Breakers {
    let pause = Duration::from_secs(1);
    Breakers::new(BreakerOptions { failures, pause, pause_max: pause * 60 })
}

fn fail(breakers: &Breakers, at: Instant) {
    let mut permit = breakers.admit_at(HOST, at).expect("it is called");
    permit.is_over = true;
    breakers.failure(HOST, permit.epoch, None, None, at);
}

fn succeed(breakers: &Breakers, at: Instant) {
    let mut permit = breakers.admit_at(HOST, at).expect("it is called");
    permit.is_over = true;
    breakers.success(HOST, permit.epoch, at);
}

fn left(breakers: &Breakers, at: Instant) -> Option<Duration> {
    breakers.admit_at(HOST, at).err()
}

#[test]
fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
    let (breakers, now) = (quick(3), Instant::now());
    for _ in 0..2 {
        fail(&breakers, now);
        fail(&breakers, now);
        succeed(&breakers, now);
    }
    assert_eq!(breakers.list(), [], "it recovered");
    for _ in 0..3 {
        fail(&breakers, now);
    }
    assert_eq!(left(&breakers, now), Some(Duration::from_secs(1)));
    assert_eq!(breakers.list().len(), 1);
    let seen = status(&breakers.hosts(), HOST, now);
    assert_eq!((seen.host.as_str(), seen.state, seen.failures), (HOST, BreakerState::Open, 3));
    assert_eq!(seen.retry_in, Some(Duration::from_secs(1)));
    assert!(breakers.admit("other.example.com").is_ok(), "each host has its own");
}

#[test]
fn its_status_says_since_when_it_is_open_and_why() {
    let breakers = quick(2);
    let fail = |why: &str| breakers.admit(HOST).expect("closed").because(why).failure(None);
    fail("status 502");
    assert_eq!(breakers.status(HOST).since, None, "it is called");
    fail("status\n503");
    let status = breakers.status(HOST);
    let age = jiff::Timestamp::now().as_second() - status.since.expect("it is open").get() / 1_000_000;
    assert!((0..60).contains(&age), "{status:?}");
    assert_eq!(status.last_error.as_deref(), Some("status503"));
    let words = status.failures_in_words();
    assert!(
        words.starts_with("2 failures in a row since 2") && words.ends_with("Z; the last one: status503"),
        "{words}"
    );
}

#[test]
fn one_call_tries_it_after_a_pause_that_doubles_up_to_a_minute() {
    let (breakers, mut now) = (quick(1), Instant::now());
    fail(&breakers, now);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(left(&breakers, now), Some(Duration::from_secs(pause)));
        now += Duration::from_secs(pause);
        let trial = breakers.admit_at(HOST, now).expect("the trial");
        assert!(left(&breakers, now).is_some(), "one trial at a time");
        breakers.failure(HOST, trial.epoch, None, None, now);
    }
    now += Duration::from_secs(60);
    succeed(&breakers, now);
    assert_eq!((left(&breakers, now), breakers.list()), (None, vec![]));
    fail(&breakers, now);
    assert_eq!(left(&breakers, now), Some(Duration::from_secs(1)), "the pause begins anew");
}

#[test]
fn a_trial_without_a_verdict_leaves_room_for_another() {
    let (breakers, now) = (quick(1), Instant::now());
    fail(&breakers, now - Duration::from_secs(2));
    assert_eq!(breakers.admission(HOST), Admission::AsTrial);
    let trial = breakers.admit(HOST).expect("the trial");
    assert_eq!(breakers.status(HOST).state, BreakerState::HalfOpen);
    assert_ne!(breakers.admission(HOST), Admission::AsTrial);
    drop(trial);
    assert_eq!(breakers.admission(HOST), Admission::AsTrial);
    breakers.admit(HOST).expect("another trial").success();
    assert_eq!(breakers.status(HOST).state, BreakerState::Closed);
}

#[test]
fn a_trial_that_lasts_lets_one_more_call_try_the_host() {
    let (breakers, now) = (quick(1), Instant::now());
    fail(&breakers, now);
    let mut now = now + Duration::from_secs(1);
    let mut trials = vec![breakers.admit_at(HOST, now).expect("the trial")];
    for _ in 0..2 {
        assert_eq!(left(&breakers, now + Duration::from_secs(1)), Some(Duration::from_secs(1)));
        now += Duration::from_secs(2);
        trials.push(breakers.admit_at(HOST, now).expect("one more after the pause"));
        assert_eq!(left(&breakers, now), Some(Duration::from_secs(2)), "one, and not all");
    }
    trials.pop().expect("the last trial").success();
    assert_eq!(left(&breakers, now), None);
    trials.into_iter().for_each(|early| early.failure(None));
    assert_eq!(breakers.list(), [], "it stays closed");
}

#[test]
fn calls_that_began_before_it_opened_or_closed_change_nothing() {
    let breakers = quick(2);
    let early: Vec<Permit> = (0..20).map(|_| breakers.admit(HOST).expect("it is closed")).collect();
    let mut early = early.into_iter();
    for permit in early.by_ref().take(9) {
        permit.failure(None);
    }
    assert_eq!(breakers.list()[0].failures, 2, "it is open, and later ones are not counted");
    early.next().expect("one more").success();
    assert_ne!(breakers.status(HOST).state, BreakerState::Closed);
    let after = Instant::now() + Duration::from_secs(2);
    succeed(&breakers, after);
    early.for_each(|permit| permit.failure(None));
    assert_eq!(breakers.list(), [], "it stays closed");
}

#[test]
fn a_host_that_says_how_long_to_wait_is_left_alone_for_so_long() {
    let breakers = quick(1);
    breakers.admit(HOST).expect("closed").failure(Some(Duration::from_secs(30)));
    assert!(breakers.admit(HOST).expect_err("open") > Duration::from_secs(15));
    let other = quick(1);
    other.admit(HOST).expect("closed").failure(Some(Duration::from_secs(3_600)));
    assert!(other.admit(HOST).expect_err("open") <= Duration::from_secs(60), "a minute at most");
}

#[test]
fn the_number_of_hosts_is_bounded_and_open_ones_stay_longest() {
    let breakers = quick(2);
    for _ in 0..2 {
        breakers.admit(HOST).expect("closed").failure(None);
    }
    for n in 0..3 * HOSTS_MAX {
        breakers.admit(&n.to_string()).expect("closed").failure(None);
    }
    assert_eq!(breakers.list().len(), HOSTS_MAX);
    assert_ne!(breakers.status(HOST).state, BreakerState::Closed);
}

#[test]
fn a_host_is_named_with_its_port_if_that_is_unusual() {
    for (url, host) in [
        ("https://Api.example.com/x?y", "api.example.com"),
        ("https://api.example.com:443/", "api.example.com"),
        ("http://api.example.com:8080", "api.example.com:8080"),
        ("http://[::1]:80/", "[::1]"),
    ] {
        assert_eq!(host_of(&url.parse().expect("a URL")), host);
    }
}
