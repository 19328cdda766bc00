//! `lineclear lock run` when it is killed or frozen, or its lock is broken: the command ends, and another can start.

use std::time::{Duration, Instant};

use lineclear_testkit::{Child, PrivatePostgres, PrivateRedis};

use crate::lock::test_locks::{SOON, TestLocks, gone, lives};

/// Less than a second for the lock, as its own tests show, and as much for three processes to start on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(2);

/// On a busy machine a shell may need most of a second until it runs its trap.
const WITH_GRACE: &[&str] = &["--ttl", "5s", "--grace", "1s"];

/// Prints its process id and that of its child, and ignores TERM.
const STUBBORN: &str = "trap 'echo asked' TERM; sh -c 'trap \"\" TERM; echo child $$; sleep 60; sleep 60' & \
                        echo held $$; while :; do sleep 0.05; done";

/// A command that ignores TERM: its process id, and that of its child.
async fn stubborn(locks: &TestLocks, options: &[&str]) -> (Child, [String; 2]) {
    let child = locks.shell(options, STUBBORN).start().unwrap();
    let id = |line: String| line.rsplit(' ').next().unwrap().to_owned();
    let ids = [
        id(child.wait_for_line("held ", SOON).await.unwrap()),
        id(child.wait_for_line("child ", SOON).await.unwrap()),
    ];
    assert!(lives(&ids[0]) && lives(&ids[1]));
    (child, ids)
}

/// The lock is lost: the command gets TERM and then KILL, with all processes that it started.
async fn is_ended(mut child: Child, ids: [String; 2]) {
    let status = child.wait_for_exit(SOON).await.unwrap();
    let said = child.stderr().join("\n");
    assert_eq!(status.code(), Some(70), "{said}");
    assert!(
        said.contains("lineclear: lock \"report\" is lost (") && said.contains("ending the command"),
        "{said}"
    );
    assert!(said.contains("error: lock \"report\" was lost: "), "{said}");
    assert!(child.stdout().contains(&"asked".to_owned()), "{:?}", child.stdout());
    for id in ids {
        assert!(!lives(&id), "it does not end");
    }
}

#[tokio::test]
async fn a_broken_lock_in_a_sqlite_file_ends_the_command() {
    let locks = TestLocks::sqlite();
    let (child, ids) = stubborn(&locks, WITH_GRACE).await;
    let file = rusqlite::Connection::open(&locks.url).unwrap();
    file.busy_timeout(SOON).unwrap();
    assert_eq!(file.execute("update lock_epoch set token = 'another', epoch = epoch + 1", []).unwrap(), 1);
    is_ended(child, ids).await;
}

#[tokio::test]
async fn a_broken_lock_in_postgres_ends_the_command() {
    let locks = TestLocks::postgres().await;
    let (child, ids) = stubborn(&locks, WITH_GRACE).await;
    let (client, connection) = tokio_postgres::connect(&locks.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let take = "update lineclear.lock_epoch set token = gen_random_uuid(), epoch = epoch + 1";
    assert_eq!(client.execute(take, &[]).await.unwrap(), 1);
    is_ended(child, ids).await;
}

#[tokio::test]
async fn a_key_that_is_deleted_in_redis_ends_the_command() {
    let locks = TestLocks::redis();
    let (child, ids) = stubborn(&locks, WITH_GRACE).await;
    let client = redis::Client::open(locks.url.split('?').next().unwrap()).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let key = format!("{}report", locks.url.split_once("prefix=").unwrap().1);
    let deleted: i64 = redis::cmd("DEL").arg(key).query_async(&mut redis).await.unwrap();
    assert_eq!(deleted, 1);
    is_ended(child, ids).await;
}

#[tokio::test]
async fn a_store_that_goes_away_ends_the_command_when_its_lock_would_end() {
    let mut server = PrivateRedis::start(&[]).await.unwrap();
    let locks = TestLocks::at(server.url(), ());
    let (child, ids) = stubborn(&locks, WITH_GRACE).await;
    let stopped = Instant::now();
    server.stop();
    is_ended(child, ids).await;
    // It may have been renewed just before the stop. A little more for a busy machine.
    assert!(stopped.elapsed() < Duration::from_secs(7), "{:?}", stopped.elapsed());
}

#[tokio::test]
async fn a_command_survives_a_restart_of_postgres_if_its_lock_is_not_bound_to_a_connection() {
    let mut server = PrivatePostgres::start(&[]).await.unwrap();
    let locks = TestLocks::at(format!("{}?beacon=off", server.url()), ());
    let mut holder = locks.holder(&["--ttl", "20s"]).await;
    server.stop();
    let (code, _, err) = locks.done(locks.run(&[], &["true"])).await;
    assert_eq!(code, Some(69), "down is not free: {err}");
    server.start_again().await.unwrap();
    let (code, _, err) = locks.done(locks.run(&["--wait", "7s"], &["true"])).await;
    assert_eq!(code, Some(75), "it is held, and was renewed: {err}");
    locks.let_go();
    assert_eq!(holder.wait_for_exit(SOON).await.unwrap().code(), Some(4), "{:?}", holder.stderr());
}

#[tokio::test]
async fn the_time_of_grace_can_be_set() {
    let locks = TestLocks::sqlite();
    let script = "trap 'sleep 1; echo cleaned up; exit 0' TERM; echo held; while :; do sleep 0.05; done";
    let mut child = locks.shell(&["--ttl", "1m", "--grace", "12s"], script).start().unwrap();
    child.wait_for_line("held", SOON).await.unwrap();
    let file = rusqlite::Connection::open(&locks.url).unwrap();
    file.busy_timeout(SOON).unwrap();
    file.execute("update lock_epoch set token = 'another'", []).unwrap();
    let status = child.wait_for_exit(SOON).await.unwrap();
    assert_eq!(status.code(), Some(70), "lost, whatever the command made of it");
    assert!(child.stdout().contains(&"cleaned up".to_owned()));
}

/// Kills `lock run`, waits until its command is gone, and returns how long after that the next holder started.
async fn followed_after_a_kill(locks: &TestLocks, ttl: &str) -> Duration {
    let (mut child, ids) = stubborn(locks, &["--ttl", ttl]).await;
    let mut waiting = locks.shell(&["--wait", "30s"], "echo began").start().unwrap();
    // When a later contender has had its response, this one waits.
    assert_eq!(locks.done(locks.run(&[], &["true"])).await.0, Some(75));
    child.kill().unwrap();
    let killed = Instant::now();
    for id in ids {
        gone(&id).await;
    }
    println!("its command was gone after {:?}", killed.elapsed());
    waiting.wait_for_line("began", SOON).await.unwrap();
    let after = killed.elapsed();
    assert!(waiting.wait_for_exit(SOON).await.unwrap().success());
    println!("followed after {after:?}");
    child.wait_for_line("`lock run` was killed; killing its command", SOON).await.unwrap();
    after
}

#[tokio::test]
async fn a_killed_lock_run_ends_its_command_and_frees_its_lock_at_once_in_postgres() {
    let locks = TestLocks::postgres().await;
    // Its lock would last far longer: only its death can free it.
    let after = followed_after_a_kill(&locks, "10m").await;
    assert!(after < AT_ONCE, "{after:?}");
}

#[tokio::test]
async fn a_killed_lock_run_ends_its_command_and_frees_its_lock_at_once_with_a_session_lock() {
    let database = lineclear_testkit::fresh_postgres().await;
    let locks = TestLocks::at(format!("{}?lock=session", database.url()), database);
    let after = followed_after_a_kill(&locks, "10m").await;
    assert!(after < AT_ONCE, "{after:?}");
}

#[tokio::test]
async fn a_killed_lock_run_ends_its_command_and_frees_its_lock_in_mysql() {
    followed_after_a_kill(&TestLocks::mysql().await, "10m").await;
}

#[tokio::test]
async fn the_lock_of_a_killed_lock_run_is_free_after_its_ttl_in_a_sqlite_file() {
    followed_after_a_kill(&TestLocks::sqlite(), "2s").await;
}

#[tokio::test]
async fn the_lock_of_a_killed_lock_run_is_free_after_its_ttl_in_redis() {
    followed_after_a_kill(&TestLocks::redis(), "2s").await;
}

/// Frozen for longer than its lock lasts: its command has ended before the next one begins, and when it resumes it learns of the loss.
async fn a_frozen_lock_run_s_command_ends_before_the_next_begins(locks: TestLocks) {
    let (mut frozen, ids) = stubborn(&locks, &["--ttl", "2s"]).await;
    frozen.pause().await.unwrap();
    // A process that has ended but is not reaped, because its parent is frozen, has the state Z.
    let state = "sed -n 's/^State:.\\([^Z]\\).*/it goes on: \\1/p'";
    let script =
        format!("for id in {} {}; do {state} /proc/$id/status 2>&-; done; echo began", ids[0], ids[1]);
    let (code, out, err) = locks.done(locks.shell(&["--wait", "30s"], &script)).await;
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out, ["began"]);
    frozen.resume().unwrap();
    let status = frozen.wait_for_exit(SOON).await.unwrap();
    let said = frozen.stderr().join("\n");
    assert_eq!(status.code(), Some(70), "{said}");
    assert!(said.contains("`lock run` is frozen and its lease has ended; killing its command"), "{said}");
    assert!(said.contains("was lost: "), "{said}");
}

#[tokio::test]
async fn a_frozen_lock_run_s_command_ends_before_the_next_begins_in_a_sqlite_file() {
    a_frozen_lock_run_s_command_ends_before_the_next_begins(TestLocks::sqlite()).await;
}

#[tokio::test]
async fn a_frozen_lock_run_s_command_ends_before_the_next_begins_in_postgres() {
    a_frozen_lock_run_s_command_ends_before_the_next_begins(TestLocks::postgres().await).await;
}

#[tokio::test]
async fn a_frozen_lock_run_s_command_ends_before_the_next_begins_in_redis() {
    a_frozen_lock_run_s_command_ends_before_the_next_begins(TestLocks::redis()).await;
}

#[tokio::test]
async fn a_command_longer_than_the_lock_lasts_is_renewed() {
    let locks = TestLocks::sqlite();
    let mut holder = locks.holder(&["--ttl", "1s"]).await;
    let (code, ..) = locks.done(locks.run(&["--wait", "3s"], &["true"])).await;
    assert_eq!(code, Some(75), "it is still held");
    locks.let_go();
    assert_eq!(holder.wait_for_exit(SOON).await.unwrap().code(), Some(4), "{:?}", holder.stderr());
    assert_eq!(locks.next_fence().await, 2);
}

/// The process that guards the command of a `lock run`.
fn guard_of(child: &Child) -> String {
    let id = child.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let is_guard = |id: &&str| {
        std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default().ends_with(b"\0guard\0`lock run`\0")
    };
    children.split_whitespace().find(is_guard).expect("there is a guard").to_owned()
}

#[tokio::test]
async fn a_command_whose_guard_is_killed_continues_with_a_warning() {
    let locks = TestLocks::sqlite();
    let mut child = locks.holder(&[]).await;
    let guard = guard_of(&child);
    // The guard ignores signals that end other processes.
    for (signal, ends) in [("-TERM", false), ("-INT", false), ("-HUP", false), ("-KILL", true)] {
        assert!(std::process::Command::new("kill").args([signal, &guard]).status().unwrap().success());
        assert!(ends || lives(&guard), "{signal}");
    }
    child.wait_for_line("the guard was killed", SOON).await.unwrap();
    locks.let_go();
    assert_eq!(child.wait_for_exit(SOON).await.unwrap().code(), Some(4));
}

#[tokio::test]
async fn a_finished_lock_run_leaves_nothing_behind() {
    let locks = TestLocks::sqlite();
    let mut child = locks.holder(&[]).await;
    let guard = guard_of(&child);
    locks.let_go();
    child.wait_for_exit(SOON).await.unwrap();
    gone(&guard).await;
}
