//! Child processes that end on command. Shells stand in for the real program.

use std::{path::Path, time::Duration};

use lineclear_testkit::{Child, Program};

const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Program {
    Program::at("/bin/sh").args(["-c", script])
}

fn exists(child: &Child) -> bool {
    Path::new(&format!("/proc/{}", child.id())).exists()
}

#[tokio::test]
async fn lines_of_both_streams_are_found_also_afterwards() {
    let mut child = shell("echo one; echo two >&2; echo $WORD").env("WORD", "three").start().unwrap();
    assert_eq!(child.wait_for_line("two", SOON).await.unwrap(), "two");
    assert!(child.wait_for_exit(SOON).await.unwrap().success());
    assert_eq!(child.wait_for_line("on", SOON).await.unwrap(), "one");
    assert_eq!(child.stdout(), ["one", "three"]);
    assert_eq!(child.stderr(), ["two"]);
}

#[tokio::test]
async fn the_same_line_can_be_waited_for_again() {
    let child = shell("for n in 1 2 3; do echo tick $n; done; exec sleep 60").start().unwrap();
    assert_eq!(child.wait_for_lines("tick", 3, SOON).await.unwrap(), "tick 3");
    assert!(child.wait_for_lines("tick", 4, Duration::from_millis(50)).await.is_err());
}

#[tokio::test]
async fn a_line_that_never_comes_is_an_error_that_shows_the_output() {
    let child = shell("echo something else").start().unwrap();
    // The output has ended, so it does not wait for long.
    let error = child.wait_for_line("ready", Duration::from_secs(3600)).await.unwrap_err();
    assert!(error.to_string().contains("something else"), "{error}");
}

#[tokio::test]
async fn a_paused_child_stands_still_and_goes_on_later() {
    let mut child = shell("echo begun; exec sleep 60").start().unwrap();
    child.wait_for_line("begun", SOON).await.unwrap();
    child.pause().await.unwrap();
    child.wait_until_stopped(SOON).await.unwrap();
    child.resume().unwrap();
    assert!(child.wait_until_stopped(Duration::from_millis(50)).await.is_err());
    child.terminate().unwrap();
    assert!(!child.wait_for_exit(SOON).await.unwrap().success());
    assert!(child.resume().is_err(), "signals to a child that has ended go nowhere");
}

#[tokio::test]
async fn a_child_freezes_at_its_crash_point_and_can_be_resumed_or_killed() {
    let script = "echo point $LINECLEAR_CRASH_POINT; kill -STOP $$; echo went on; exec sleep 60";
    let mut child = shell(script).stop_at("settle.before").start().unwrap();
    child.wait_until_stopped(SOON).await.unwrap();
    child.wait_for_line("point settle.before", SOON).await.unwrap();
    assert_eq!(child.stdout().len(), 1);
    child.resume().unwrap();
    child.wait_for_line("went on", SOON).await.unwrap();
    child.pause().await.unwrap();
    child.kill().unwrap();
    assert!(!exists(&child), "killed and reaped, although it was stopped");
}

#[tokio::test]
async fn waiting_for_a_stop_fails_when_the_child_ends() {
    let mut child = shell("echo no point here").start().unwrap();
    let error = child.wait_until_stopped(SOON).await.unwrap_err();
    assert!(error.to_string().contains("it ended"), "{error}");
}

#[tokio::test]
async fn a_dropped_child_is_gone() {
    let child = shell("exec sleep 60").start().unwrap();
    let id = child.id();
    drop(child);
    assert!(!Path::new(&format!("/proc/{id}")).exists());
}
