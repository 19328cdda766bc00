//! What a command gets of its server, and what ends with it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::command::{enqueue, pid_in, runs, shell, wait_for, wait_until};
use crate::commands::serve::{OPEN_COMMANDS, ask, serve_with};

const LONG: Duration = Duration::from_secs(60);

/// The output of a script that a job ran to its end.
async fn output_of(address: &str, script: &str) -> String {
    let id = enqueue(address, script, r#", "retries": 0"#);
    wait_for(address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    ask(address, &format!("GET /api/v1/jobs/{id}/output"), "")
}

/// The error of a script that failed.
async fn error_of(address: &str, script: &str) -> String {
    let id = enqueue(address, script, r#", "retries": 0"#);
    wait_for(address, &format!("jobs/{id}"), r#""state":"dead""#).await;
    ask(address, &format!("GET /api/v1/jobs/{id}/executions"), "")
}

/// Variables of a server that commands must not see.
const SECRETS: [(&str, &str); 6] = [
    ("PGPASSWORD", "hush-1"),
    ("AWS_SECRET_ACCESS_KEY", "hush-2"),
    ("NOTIFY_SOCKET", "/hush-3"),
    ("CREDENTIALS_DIRECTORY", "/usr/share"),
    ("LINECLEAR_HTTP_SECRETS", "a.example=whsec_aHVzaC01aHVzaC01aHVzaC01aHVzaC01"),
    ("MY_TOKEN", "hush-6"),
];

#[tokio::test]
async fn a_command_gets_a_clean_environment_and_what_the_settings_name() {
    let dir = tempfile::tempdir().unwrap();
    let more = [("PGHOST", "db.internal"), ("MY_REGION", "north"), ("LC_TIME", "C"), ("TZ", "UTC")];
    let variables = [&SECRETS[..], &more].concat();
    let (_child, address) =
        serve_with(&dir, &["--commands", "/bin/sh", "--command-env", "PGHOST,MY_R*"], &variables).await;
    let output = output_of(&address, "env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    let names = output.split(r#""stdout":""#).nth(1).unwrap().split('"').next().unwrap();
    let names: Vec<&str> = names.split_whitespace().collect();
    for wanted in ["PGHOST", "MY_REGION", "LC_TIME", "TZ", "PATH", "LINECLEAR_JOB"] {
        assert!(names.contains(&wanted), "{wanted} in {names:?}");
    }
    let usual =
        ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"];
    let of_the_job = ["LINECLEAR_JOB", "LINECLEAR_CLAIM", "LINECLEAR_ATTEMPT", "LINECLEAR_TICK"];
    for name in names {
        let is_expected = usual.contains(&name) || of_the_job.contains(&name) || name.starts_with("LC_");
        assert!(is_expected || ["PGHOST", "MY_REGION"].contains(&name), "{name} is passed on");
    }
}

/// The processes above a command, up to the server: their ids.
const ANCESTORS: &str =
    "p=$$; while [ \"$p\" -gt 1 ]; do echo $p; p=$(awk '/^PPid/ {print $2}' /proc/$p/status); done";

/// Root can read the environment of every process; so the server runs as another user here.
#[tokio::test]
async fn a_command_cannot_read_the_environment_of_the_processes_above_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let binary = open_to_all(&dir);
    let mut program = lineclear_testkit::Program::at("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args([binary.as_str(), "serve", "--port", "0", "--commands", "/bin/sh"])
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"))
        .env(OPEN_COMMANDS, "true");
    for (name, value) in SECRETS {
        program = program.env(name, value);
    }
    let child = program.start().unwrap();
    let line = child.wait_for_line("API  http://", LONG).await.unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let script =
        format!("id -u; for p in $({ANCESTORS}); do tr '\\0' ' ' < /proc/$p/environ; echo; done 2>&1; true");
    let output = output_of(&address, &script).await;
    assert!(output.contains(r#""stdout":"65534\n"#), "{output}");
    assert!(output.contains("Permission denied"), "the server is among them: {output}");
    assert!(!output.contains("hush"), "{output}");
}

/// A copy of the binary in a folder that every user may use.
fn open_to_all(dir: &TempDir) -> String {
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let binary = dir.path().join("lineclear");
    std::fs::copy(env!("CARGO_BIN_EXE_lineclear"), &binary).unwrap();
    mode(&binary, 0o755);
    mode(dir.path(), 0o777);
    binary.display().to_string()
}

/// A process in a session of its own, which ignores TERM and has lost its parent; its id is in the file `away`.
const LEAVES: &str = "setsid sh -c '(trap \"\" TERM; sleep 300) & echo $! > away.new; mv away.new away'; while [ ! -e away ]; do sleep 0.01; done";

async fn gone_away(dir: &TempDir) -> u32 {
    let file = dir.path().join("away");
    wait_until("a process has left", LONG, || pid_in(&file).is_some()).await;
    let pid = pid_in(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    pid
}

#[tokio::test]
async fn a_process_in_another_session_ends_with_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = shell(&dir, &[]).await;
    for (script, state) in [(LEAVES.to_owned(), "completed"), (format!("{LEAVES}; kill -SEGV $$"), "dead")] {
        let id = enqueue(&address, &script, r#", "retries": 0"#);
        wait_for(&address, &format!("jobs/{id}"), &format!(r#""state":"{state}""#)).await;
        let away = gone_away(&dir).await;
        wait_until("it ends", LONG, || !runs(away)).await;
    }
}

#[tokio::test]
async fn a_process_in_another_session_ends_with_a_cancelled_job() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = shell(&dir, &[]).await;
    let id = enqueue(&address, &format!("{LEAVES}; sleep 300"), "");
    let away = gone_away(&dir).await;
    ask(&address, &format!("POST /api/v1/jobs/{id}/cancel"), "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"cancelled""#).await;
    wait_until("it ends", LONG, || !runs(away)).await;
}

/// Generations of a chain of processes: without end it would be a fork bomb, should the test fail.
const GENERATIONS: u32 = 20_000;

/// Each process of the chain starts the next one and ends. Its number is in the file `at`.
fn chain(dir: &TempDir) {
    let script =
        format!("echo $1 > at.new; mv at.new at; [ $1 -ge {GENERATIONS} ] || sh chain.sh $(($1 + 1)) &\n");
    std::fs::write(dir.path().join("chain.sh"), script).unwrap();
}

#[tokio::test]
async fn a_chain_of_processes_that_fork_and_end_ends_with_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let (_child, address) = shell(&dir, &[]).await;
    chain(&dir);
    let generation = || pid_in(&dir.path().join("at")).unwrap_or_default();
    let ends = r#"sh chain.sh 1; while [ "$(cat at)" -lt 30 ]; do sleep 0.01; done"#;
    for (script, is_cancelled) in [("sh chain.sh 1; sleep 300", true), (ends, false)] {
        let id = enqueue(&address, script, r#", "retries": 0"#);
        wait_until("the chain runs", LONG, || generation() > 20).await;
        if is_cancelled {
            ask(&address, &format!("POST /api/v1/jobs/{id}/cancel"), "");
        }
        let state = if is_cancelled { "cancelled" } else { "completed" };
        wait_for(&address, &format!("jobs/{id}"), &format!(r#""state":"{state}""#)).await;
        expect_end(&dir).await;
        std::fs::remove_file(dir.path().join("at")).unwrap();
    }
}

/// The chain stands still before its last generation: a generation takes a few milliseconds, also on a busy machine.
async fn expect_end(dir: &TempDir) {
    let generation = || pid_in(&dir.path().join("at")).unwrap_or_default();
    let mut last = 0;
    while last != generation() {
        last = generation();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert!(last < GENERATIONS, "the chain outlived its job");
}

#[tokio::test]
async fn a_chain_of_processes_that_fork_and_end_ends_with_a_server_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = shell(&dir, &[]).await;
    chain(&dir);
    enqueue(&address, "sh chain.sh 1; sleep 300", r#", "retries": 0"#);
    let generation = || pid_in(&dir.path().join("at")).unwrap_or_default();
    wait_until("the chain runs", LONG, || generation() > 20).await;
    child.kill().unwrap();
    expect_end(&dir).await;
}

#[tokio::test]
async fn a_process_in_another_session_ends_with_a_server_that_is_killed_or_stands_still() {
    let dir = tempfile::tempdir().unwrap();
    let lease = ["--lease", "6s", "--heartbeat", "2s"];
    let (mut child, address) = shell(&dir, &lease).await;
    enqueue(&address, &format!("{LEAVES}; sleep 300"), r#", "retries": 0"#);
    let away = gone_away(&dir).await;
    child.pause().await.unwrap();
    wait_until("it ends before the lease", Duration::from_secs(6), || !runs(away)).await;
    child.kill().unwrap();

    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = shell(&dir, &lease).await;
    enqueue(&address, &format!("{LEAVES}; sleep 300"), "");
    let away = gone_away(&dir).await;
    child.kill().unwrap();
    wait_until("it ends", LONG, || !runs(away)).await;
}

#[tokio::test]
async fn a_command_runs_as_the_user_of_the_settings() {
    let dir = tempfile::tempdir().unwrap();
    let as_nobody = ["--commands", "/bin/sh", "--command-user", "nobody"];
    if !rustix::process::geteuid().is_root() {
        let refused = crate::run::at(&dir, &[&["work"], &as_nobody[..]].concat());
        assert!(
            refused.code == Some(2) && refused.err.contains("only root can run commands"),
            "{}",
            refused.err
        );
        return;
    }
    let (_child, address) = serve_with(&dir, &as_nobody, &SECRETS).await;
    let output =
        output_of(&address, "id -un; id -G; echo $USER $LOGNAME; pwd; cat /etc/shadow || echo refused").await;
    let group = std::fs::read_to_string("/etc/passwd").unwrap();
    let group =
        group.lines().find(|line| line.starts_with("nobody:")).unwrap().split(':').nth(3).unwrap().to_owned();
    assert!(output.contains(&format!(r"nobody\n{group}\nnobody nobody\n/\nrefused")), "{output}");
    // What it started ends with it, as for every command.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let there = dir.path().display();
    let id = enqueue(&address, &format!("cd {there}; {LEAVES}"), "");
    wait_for(&address, &format!("jobs/{id}"), r#""state":"completed""#).await;
    let away = gone_away(&dir).await;
    wait_until("it ends", LONG, || !runs(away)).await;
    let unknown = crate::run::at(&dir, &["work", "--commands", "/bin/sh", "--command-user", "no-such-user"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("does not exist"), "{}", unknown.err);
}

#[tokio::test]
async fn a_user_without_the_rights_of_root_cannot_choose_another() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let binary = open_to_all(&dir);
    let mut command = std::process::Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        &binary,
        "work",
        "--commands",
        "/bin/sh",
    ]);
    let refused = crate::run::ran(command.args(["--command-user", "root"]).current_dir(dir.path()));
    assert!(refused.code == Some(2) && refused.err.contains("only root can run commands"), "{}", refused.err);
}

#[tokio::test]
async fn a_command_has_the_limits_of_the_settings() {
    let dir = tempfile::tempdir().unwrap();
    let limits = "cpu=1s,memory=256M,files=32,processes=4000,file_size=4K";
    let (_child, address) = shell(&dir, &["--command-limits", limits]).await;
    let output = output_of(&address, "cat /proc/self/limits").await;
    for (name, value) in [
        ("Max cpu time", "1 "),
        ("Max address space", "268435456 "),
        ("Max open files", "32 "),
        ("Max processes", "4000 "),
        ("Max file size", "4096 "),
    ] {
        let line = output.split("\\n").find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line[name.len()..].trim_start().starts_with(value), "{line}");
    }
    let busy = error_of(&address, "while :; do :; done").await;
    assert!(busy.contains("killed by signal 24"), "SIGXCPU: {busy}");
    let large = error_of(&address, "head -c 10000 /dev/zero > large").await;
    assert!(large.contains("exit code") || large.contains("killed by signal 25"), "SIGXFSZ: {large}");
    assert_eq!(std::fs::metadata(dir.path().join("large")).unwrap().len(), 4096);
    let bad = crate::run::at(&dir, &["work", "--commands", "/bin/sh", "--command-limits", "disk=1G"]);
    assert!(bad.code == Some(2) && bad.err.contains("is not cpu, memory"), "{}", bad.err);
}
