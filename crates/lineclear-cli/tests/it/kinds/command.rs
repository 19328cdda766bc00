//! Jobs of the kind `command`: programs that a server runs, and that end with it.

use std::path::Path;
use std::time::{Duration, Instant};

use lineclear_testkit::Child;
use tempfile::TempDir;

use crate::commands::serve::{ask, serve};

const LONG: Duration = Duration::from_secs(60);

/// A server that may run a shell.
pub(crate) async fn shell(dir: &TempDir, more: &[&str]) -> (Child, String) {
    serve(dir, &[&["--commands", "/bin/sh"], more].concat()).await
}

/// A job that runs this script; its id.
pub(crate) fn enqueue(address: &str, script: &str, more: &str) -> String {
    let argv = serde_json::to_string(&["/bin/sh", "-c", script]).unwrap();
    let body = format!(r#"{{"kind": "command", "input": {{"argv": {argv}}}{more}}}"#);
    id_in(&ask(address, "POST /api/v1/jobs", &body))
}

/// The id of a job that was accepted.
fn id_in(answer: &str) -> String {
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let id = answer.split(r#""id":""#).nth(1).unwrap_or_else(|| panic!("no id in {answer}"));
    id.split('"').next().unwrap().to_owned()
}

/// Repeats a request until the response contains this.
pub(crate) async fn wait_for(address: &str, path: &str, text: &str) -> String {
    let until = Instant::now() + LONG;
    loop {
        let answer = ask(address, &format!("GET /api/v1/{path}"), "");
        if answer.contains(text) {
            return answer;
        }
        assert!(Instant::now() < until, "no {text} in {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn wait_until(what: &str, within: Duration, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < until, "{what} within {within:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A script that writes its process id into a file and runs for a minute, with a child that ignores TERM.
const LASTS: &str = "(trap '' TERM; sleep 60) & echo $! > child; trap '' TERM; echo $$ > pid.new; mv pid.new pid; sleep 60; sleep 60";

pub(crate) fn pid_in(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Whether a process runs; a zombie does not.
pub(crate) fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

/// The processes of [`LASTS`], once it has begun.
async fn begun(dir: &TempDir) -> [u32; 2] {
    let pid = dir.path().join("pid");
    wait_until("the command begins", LONG, || pid_in(&pid).is_some()).await;
    [pid_in(&pid).unwrap(), pid_in(&dir.path().join("child")).unwrap()]
}

#[tokio::test]
async fn output_of_a_command_goes_to_the_log_of_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let (child, address) = shell(&dir, &[]).await;
    let script = "echo to stdout; echo to stderr >&2; env | grep LINECLEAR_";
    let id = enqueue(&address, script, "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    let output = ask(&address, &format!("GET /api/v1/jobs/{id}/output"), "");
    assert!(output.contains(r#""code":0"#) && output.contains(r#""stderr":"to stderr""#), "{output}");
    for variable in [&format!("LINECLEAR_JOB={id}"), "LINECLEAR_CLAIM=1", "LINECLEAR_ATTEMPT=1"] {
        assert!(output.contains(variable), "{variable} in {output}");
    }
    let logs = ask(&address, &format!("GET /api/v1/jobs/{id}/logs"), "");
    assert!(logs.contains(r#""message":"to stdout""#) && logs.contains(r#""message":"to stderr""#), "{logs}");
    let said = [child.stdout(), child.stderr()].concat().join("\n");
    assert!(!said.contains("to stdout") && !said.contains("to stderr"), "{said}");
}

#[tokio::test]
async fn a_command_that_is_not_allowed_is_not_run_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = serve(&dir, &["--commands", "/bin/true"]).await;
    let id = enqueue(&address, "touch ran", "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"dead""#).await;
    let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
    assert!(executions.contains("is not among the `commands`"), "{executions}");
    assert!(!dir.path().join("ran").exists());
}

#[tokio::test]
async fn without_allowed_commands_there_is_no_such_kind() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = serve(&dir, &[]).await;
    let id = enqueue(&address, "touch ran", "");
    wait_for(&address, &format!("jobs/{id}/explain"), "no live node").await;
    assert!(!dir.path().join("ran").exists());
}

#[tokio::test]
async fn a_failing_command_fails_its_job_with_the_exit_code_and_last_line() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = shell(&dir, &[]).await;
    let id = enqueue(&address, "echo first; echo no space left >&2; exit 7", r#", "retries": 0"#);
    wait_for(&address, &format!("jobs/{id}"), r#""state":"dead""#).await;
    let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
    assert!(executions.contains("exit code 7: no space left"), "{executions}");
    let id = enqueue(&address, "kill -9 $$", r#", "retries": 0"#);
    wait_for(&address, &format!("jobs/{id}"), r#""state":"dead""#).await;
    let executions = ask(&address, &format!("GET /api/v1/jobs/{id}/executions"), "");
    assert!(executions.contains("killed by signal 9"), "{executions}");
}

#[tokio::test]
async fn output_of_a_command_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = shell(&dir, &[]).await;
    let id = enqueue(&address, "yes 0123456789 | head -c 20000000; echo; echo the end", "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    let output = ask(&address, &format!("GET /api/v1/jobs/{id}/output"), "");
    assert!(output.len() < 20_000 && output.contains("the end"), "{} bytes", output.len());
}

#[tokio::test]
async fn background_processes_end_with_their_command() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = shell(&dir, &[]).await;
    let id = enqueue(&address, "sleep 60 & echo $! > child; echo left", "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    let left = pid_in(&dir.path().join("child")).unwrap();
    wait_until("it ends", LONG, || !runs(left)).await;
}

#[tokio::test]
async fn a_command_ends_when_its_job_is_cancelled_or_takes_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = shell(&dir, &[]).await;
    let id = enqueue(&address, LASTS, "");
    let pids = begun(&dir).await;
    let asked = ask(&address, &format!("POST /api/v1/jobs/{id}/cancel"), "");
    assert!(asked.starts_with("HTTP/1.1 2"), "{asked}");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"cancelled""#).await;
    wait_until("all of it ends", LONG, || !pids.iter().any(|pid| runs(*pid))).await;

    std::fs::remove_file(dir.path().join("pid")).unwrap();
    let id = enqueue(&address, LASTS, r#", "timeout_ms": 1000, "retries": 0"#);
    let pids = begun(&dir).await;
    wait_for(&address, &format!("jobs/{id}"), r#""state":"dead""#).await;
    wait_until("all of it ends", LONG, || !pids.iter().any(|pid| runs(*pid))).await;
}

#[tokio::test]
async fn a_command_ends_with_a_server_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = shell(&dir, &[]).await;
    enqueue(&address, LASTS, "");
    let pids = begun(&dir).await;
    child.kill().unwrap();
    wait_until("all of it ends", LONG, || !pids.iter().any(|pid| runs(*pid))).await;
}

/// Its leases end while it is frozen, and its jobs go to another server: its commands must end, too.
#[tokio::test]
async fn a_command_ends_before_the_lease_of_a_server_that_stands_still() {
    let lease = Duration::from_secs(6);
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = shell(&dir, &["--lease", "6s", "--heartbeat", "2s"]).await;
    enqueue(&address, LASTS, "");
    let pids = begun(&dir).await;
    child.pause().await.unwrap();
    wait_until("all of it ends", lease, || !pids.iter().any(|pid| runs(*pid))).await;
    child.resume().unwrap();
}

/// The lease counts from its last renewal, and not from when the server was last alive.
#[tokio::test]
async fn a_command_ends_before_the_lease_of_a_server_without_a_database_that_stands_still() {
    let lease = Duration::from_secs(6);
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = shell(&dir, &["--lease", "6s", "--heartbeat", "2s"]).await;
    enqueue(&address, LASTS, "");
    let pids = begun(&dir).await;
    let file = rusqlite::Connection::open(dir.path().join("lineclear.db")).unwrap();
    file.busy_timeout(LONG).unwrap();
    file.execute_batch("begin exclusive").unwrap();
    let away_at = Instant::now();
    tokio::time::sleep(Duration::from_secs(4)).await;
    child.pause().await.unwrap();
    wait_until("all of it ends", lease.saturating_sub(away_at.elapsed()), || {
        !pids.iter().any(|pid| runs(*pid))
    })
    .await;
    child.resume().unwrap();
}

/// Many programs exit with 0 on TERM; that does not mean that their work is done.
#[tokio::test]
async fn a_command_that_was_ended_counts_as_not_done_whatever_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let polite = "trap 'exit 0' TERM; echo $$ > child; echo $$ > pid; sleep 60 & wait";
    let (mut child, address) = shell(&dir, &["--shutdown-grace", "1s"]).await;
    let id = enqueue(&address, polite, "");
    begun(&dir).await;
    ask(&address, &format!("POST /api/v1/jobs/{id}/cancel"), "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"cancelled""#).await;

    std::fs::remove_file(dir.path().join("pid")).unwrap();
    let id = enqueue(&address, polite, "");
    let pids = begun(&dir).await;
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    assert!(!pids.iter().any(|pid| runs(*pid)));
    let (_other, address) = serve(&dir, &["--roles", "planner"]).await;
    let job = ask(&address, &format!("GET /api/v1/jobs/{id}"), "");
    assert!(job.contains(r#""state":"queued""#), "another server runs it again: {job}");
}

#[tokio::test]
async fn a_command_may_print_any_bytes_and_an_invalid_input_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = shell(&dir, &[]).await;
    let id = enqueue(&address, r"printf 'a\000b\007\377'; head -c 100000 /dev/zero", "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    for input in [
        r#"{}"#,
        r#"{"argv": []}"#,
        r#"{"argv": ["date"]}"#,
        r#"{"argv": "/bin/sh"}"#,
        r#"{"argv": ["/bin/sh"], "cwd": "/"}"#,
    ] {
        let made = ask(&address, "POST /api/v1/jobs", &format!(r#"{{"kind": "command", "input": {input}}}"#));
        assert!(made.starts_with("HTTP/1.1 422"), "{input}: {made}");
    }
    let words = |length: usize| {
        format!(
            r#"{{"kind": "command", "input": {{"argv": ["/bin/sh", "-c", "true", "{}"]}}}}"#,
            "x".repeat(length)
        )
    };
    let made = ask(&address, "POST /api/v1/jobs", &words(131_072));
    assert!(made.starts_with("HTTP/1.1 422") && made.contains("an argument of 131072 bytes"), "{made}");
    let made = ask(&address, "POST /api/v1/jobs", &words(131_071));
    wait_for(&address, &format!("jobs/{}", id_in(&made)), r#""state":"completed""#).await;
}

/// Only the guard ends the commands of a server that is killed.
#[tokio::test]
async fn a_guard_that_is_killed_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = shell(&dir, &[]).await;
    enqueue(&address, LASTS, "");
    let pids = begun(&dir).await;
    let guard = || {
        let all = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        all.filter(|id| {
            let is_guard = std::fs::read(format!("/proc/{id}/cmdline"))
                .unwrap_or_default()
                .ends_with(b"\0guard\0the server\0");
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit(')')
                .next()
                .and_then(|rest| rest.split_whitespace().nth(1))
                .unwrap_or_default()
                .to_owned();
            is_guard && parent == child.id().to_string() && !stat.contains(") Z ")
        })
        .collect::<Vec<_>>()
    };
    let first = guard();
    assert_eq!(first.len(), 1);
    assert!(std::process::Command::new("kill").args(["-9", &first[0]]).status().unwrap().success());
    wait_until("another takes its place", LONG, || guard().first().is_some_and(|id| *id != first[0])).await;
    // The server tells the new guard of the command shortly after the guard has started.
    tokio::time::sleep(Duration::from_secs(2)).await;
    child.kill().unwrap();
    wait_until("all of it ends", LONG, || !pids.iter().any(|pid| runs(*pid))).await;
}
