//! What a command under a lock sees: its input and output, its exit code, its signals, the terminal.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::lock::test_locks::{SOON, TestLocks, gone, lives};
use crate::run::command;

#[tokio::test]
async fn lock_run_exits_with_the_code_of_its_command() {
    let locks = TestLocks::sqlite();
    for (script, code) in
        [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        let (ended, _, err) = locks.done(locks.shell(&[], script)).await;
        assert_eq!((ended, err.as_str()), (Some(code), ""), "{script}");
    }
}

#[test]
fn input_output_arguments_and_variables_pass_through() {
    let locks = TestLocks::sqlite();
    let script = "cat; echo err >&2; echo \"$# $1 $2 $OURS\"";
    let mut child =
        command(&["lock", "run", "report", "--store", &locks.url, "--", "sh", "-c", script, "sh"])
            .args(["two words", "--ttl=x"])
            .env("OURS", "kept")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    child.stdin.take().unwrap().write_all(b"in\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "in\n2 two words --ttl=x kept\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "err\n");
}

/// Sends a signal, as `kill` does.
fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn signals_are_forwarded_and_the_command_is_awaited() {
    let locks = TestLocks::sqlite();
    for name in ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"] {
        // The command handles the signal and exits with its own code; the child of the shell gets the signal, too.
        let script =
            format!("trap 'echo got {name}; exit 5' {name}; echo held; while :; do sleep 0.05; done");
        let mut child = locks.shell(&[], &script).start().unwrap();
        child.wait_for_line("held", SOON).await.unwrap();
        signal(name, child.id());
        let status = child.wait_for_exit(SOON).await.unwrap();
        assert_eq!(status.code(), Some(5), "{name}: {}", child.stderr().join("\n"));
        assert_eq!(child.stdout(), ["held".to_owned(), format!("got {name}")]);
        let (code, ..) = locks.done(locks.run(&[], &["true"])).await;
        assert_eq!(code, Some(0), "{name}: the lock is free again");
    }
}

#[tokio::test]
async fn a_command_that_does_not_end_when_asked_to_keeps_the_lock() {
    let locks = TestLocks::sqlite();
    let script = locks.until_told("trap 'echo heard' TERM; echo held");
    let mut child = locks.shell(&[], &script).start().unwrap();
    child.wait_for_line("held", SOON).await.unwrap();
    child.terminate().unwrap();
    child.wait_for_line("heard", SOON).await.unwrap();
    let (code, ..) = locks.done(locks.run(&[], &["true"])).await;
    assert_eq!(code, Some(75));
    locks.let_go();
    assert_eq!(child.wait_for_exit(SOON).await.unwrap().code(), Some(4));
}

/// Whether a process handles TERM.
fn catches_term(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask >> 14 & 1 == 1)
}

#[tokio::test]
async fn a_signal_while_waiting_ends_it_and_leaves_no_lock_behind() {
    let locks = TestLocks::postgres().await;
    let mut holder = locks.holder(&[]).await;
    let mut waiting = locks.run(&["--wait", "1h"], &["echo", "ran"]).start().unwrap();
    // It is waiting when it would catch the signal, and there are more connections than the three of the holder.
    let opened = async {
        let (client, connection) = tokio_postgres::connect(&locks.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let count = "select count(*) from pg_stat_activity where application_name = 'lineclear-lock'";
        while !catches_term(waiting.id()) || client.query_one(count, &[]).await.unwrap().get::<_, i64>(0) < 4
        {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, opened).await.unwrap();
    waiting.terminate().unwrap();
    let status = waiting.wait_for_exit(SOON).await.unwrap();
    assert_eq!((status.code(), waiting.stdout().len()), (Some(143), 0));
    locks.let_go();
    holder.wait_for_exit(SOON).await.unwrap();
    let (code, ..) = locks.done(locks.run(&[], &["true"])).await;
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn a_hangup_that_nohup_ignores_is_ignored() {
    let locks = TestLocks::sqlite();
    let script = locks.until_told("echo held");
    let binary = env!("CARGO_BIN_EXE_lineclear");
    let program = lineclear_testkit::Program::at("nohup");
    let arguments = [binary, "lock", "run", "report", "--store", &locks.url, "--", "sh", "-c", &script];
    let mut child = program.args(arguments).start().unwrap();
    child.wait_for_line("held", SOON).await.unwrap();
    signal("HUP", child.id());
    signal("HUP", child.id());
    locks.let_go();
    assert_eq!(child.wait_for_exit(SOON).await.unwrap().code(), Some(4));
}

#[tokio::test]
async fn background_processes_continue_without_the_lock() {
    let locks = TestLocks::sqlite();
    let script = "sleep 60 >/dev/null 2>&1 & echo $!";
    let (code, out, err) = locks.done(locks.shell(&[], script)).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(lives(&out[0]), "as it would without us");
    assert!(Command::new("kill").arg(&out[0]).status().unwrap().success());
    gone(&out[0]).await;
}

/// Runs a command in its own terminal (`script`), types into it, and returns the whole output.
fn in_a_terminal(inside: &str, typed: &[u8]) -> String {
    let mut child = Command::new("script")
        .args(["-qec", inside, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script of bsdutils");
    child.stdin.take().unwrap().write_all(typed).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn a_command_reads_from_the_terminal_and_gives_it_back() {
    let locks = TestLocks::sqlite();
    let ours = format!("{} lock run report --ttl 2s --store {}", env!("CARGO_BIN_EXE_lineclear"), locks.url);
    let script = "sh -c 'read line </dev/tty; echo got $line'";
    // The second time another program is on the same terminal, which needs it first.
    for inside in [format!("{ours} -- {script}"), format!("{ours} -- {script} | cat")] {
        let seen = in_a_terminal(&format!("{inside}; read line; echo after $line"), b"one\ntwo\n");
        assert!(seen.contains("got one") && seen.contains("after two"), "{inside}: {seen}");
    }
}

#[test]
fn ctrl_c_reaches_the_command_and_ctrl_z_does_not_suspend_it() {
    let locks = TestLocks::sqlite();
    let ours = format!("{} lock run report --ttl 2s --store {}", env!("CARGO_BIN_EXE_lineclear"), locks.url);
    // The signals that the terminal sends for these keys.
    let script = "trap 'echo interrupted; exit 5' INT; kill -TSTP $$; echo on; kill -INT 0; sleep 30";
    let seen =
        in_a_terminal(&format!("{ours} -- sh -c '{}'; echo code $?", script.replace('\'', "'\\''")), b"");
    assert!(seen.contains("cannot be suspended") && seen.contains("on"), "{seen}");
    assert!(seen.contains("interrupted") && seen.contains("code 5"), "{seen}");
}
