//! `lineclear lock run` on every store: one command runs, and the others follow `--on-busy`.

use crate::lock::test_locks::{SOON, TestLocks};

async fn one_command_runs_and_the_others_follow_on_busy(locks: TestLocks) {
    let mut holder = locks.holder(&[]).await;
    let marker = locks.file("ran");
    let touch = ["touch", marker.to_str().unwrap()];

    let (code, _, err) = locks.done(locks.run(&[], &touch)).await;
    assert_eq!(code, Some(75), "{err}");
    assert!(err.starts_with("error: lock \"report\" is busy"), "{err}");
    assert!(err.contains(&format!("/{}/", holder.id())), "it names the holder: {err}");
    let (code, _, err) = locks.done(locks.run(&["--on-busy", "fail"], &touch)).await;
    assert_eq!(code, Some(75), "{err}");
    let (code, out, err) = locks.done(locks.run(&["--on-busy", "skip"], &touch)).await;
    assert_eq!((code, out.len(), err.as_str()), (Some(0), 0, ""));
    for waiting in [&["--wait", "100ms"][..], &["--on-busy", "wait", "--wait", "100ms"]] {
        let (code, _, err) = locks.done(locks.run(waiting, &touch)).await;
        assert_eq!(code, Some(75), "{err}");
        assert!(err.contains("busy after 100ms"), "{err}");
    }
    assert!(!marker.exists(), "nothing was run");

    let mut waiting =
        locks.shell(&["--on-busy", "wait"], "echo then $LINECLEAR_LOCK $LINECLEAR_FENCE").start().unwrap();
    locks.let_go();
    assert_eq!(holder.wait_for_exit(SOON).await.unwrap().code(), Some(4), "the command's own code");
    assert_eq!(waiting.wait_for_exit(SOON).await.unwrap().code(), Some(0));
    let fence = |line: &str| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap();
    let (first, then) = (holder.stdout(), waiting.stdout());
    assert!(then[0].starts_with("then report "), "{then:?}");
    assert!(fence(&then[0]) > fence(&first[0]), "{first:?}, {then:?}");
    assert_eq!(holder.stderr().concat() + &waiting.stderr().concat(), "", "nothing to say");
}

#[tokio::test]
async fn one_command_runs_and_the_others_follow_on_busy_in_a_sqlite_file() {
    one_command_runs_and_the_others_follow_on_busy(TestLocks::sqlite()).await;
}

#[tokio::test]
async fn one_command_runs_and_the_others_follow_on_busy_in_postgres() {
    one_command_runs_and_the_others_follow_on_busy(TestLocks::postgres().await).await;
}

#[tokio::test]
async fn one_command_runs_and_the_others_follow_on_busy_in_redis() {
    one_command_runs_and_the_others_follow_on_busy(TestLocks::redis()).await;
}

#[tokio::test]
async fn one_command_runs_and_the_others_follow_on_busy_in_mysql() {
    one_command_runs_and_the_others_follow_on_busy(TestLocks::mysql().await).await;
}

/// Eight at once; the command that runs continues until all others have ended.
async fn one_of_eight_concurrent_commands_runs(locks: TestLocks) {
    let command = locks.until_told("echo ran");
    let start = |_| locks.shell(&["--on-busy", "skip"], &command).start().unwrap();
    let mut all: Vec<_> = (0..8).map(start).collect();
    let (mut skipped, mut ran) = (0, 0);
    while skipped < 7 {
        for index in (0..all.len()).rev() {
            if let Ok(status) = all[index].wait_for_exit(std::time::Duration::ZERO).await {
                assert_eq!(status.code(), Some(0), "{}", all[index].stderr().join("\n"));
                assert!(all[index].stdout().is_empty(), "it ran, too");
                skipped += 1;
                all.swap_remove(index);
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    locks.let_go();
    for mut child in all {
        assert_eq!(child.wait_for_exit(SOON).await.unwrap().code(), Some(4));
        ran += child.stdout().len();
    }
    assert_eq!(ran, 1);
}

#[tokio::test]
async fn one_of_eight_concurrent_commands_runs_in_a_sqlite_file() {
    one_of_eight_concurrent_commands_runs(TestLocks::sqlite()).await;
}

#[tokio::test]
async fn one_of_eight_concurrent_commands_runs_in_postgres() {
    one_of_eight_concurrent_commands_runs(TestLocks::postgres().await).await;
}

#[tokio::test]
async fn one_of_eight_concurrent_commands_runs_in_redis() {
    one_of_eight_concurrent_commands_runs(TestLocks::redis()).await;
}

#[tokio::test]
async fn one_of_eight_concurrent_commands_runs_in_mysql() {
    one_of_eight_concurrent_commands_runs(TestLocks::mysql().await).await;
}

#[tokio::test]
async fn a_store_that_is_down_runs_nothing() {
    let locks = TestLocks::sqlite();
    let marker = locks.file("ran");
    for (url, message) in [
        (
            "postgres://app:hunter2@127.0.0.1:1/x",
            "127.0.0.1:1: error connecting to server: Connection refused",
        ),
        ("mysql://app:hunter2@127.0.0.1:1/x", "cannot be reached"),
        ("redis://:hunter2@127.0.0.1:1/0", "cannot be reached"),
        ("/no/such/folder/x.db", "unable to open database file"),
    ] {
        for on_busy in ["skip", "fail", "wait"] {
            let down = TestLocks::at(url.to_owned(), ());
            let touch = ["touch", marker.to_str().unwrap()];
            let mut options = vec!["--on-busy", on_busy];
            options.extend(["--wait", "200ms"].into_iter().filter(|_| on_busy == "wait"));
            let (code, _, err) = down.done(down.run(&options, &touch)).await;
            assert_eq!(code, Some(69), "{url}: {err}");
            assert!(err.contains("error: ") && err.contains(message), "{err}");
            assert!(err.contains("the command was not run") && !err.contains("hunter2"), "{err}");
        }
    }
    assert!(!marker.exists());
}

#[test]
fn invalid_arguments_are_refused_before_the_store_is_contacted() {
    let long = "x".repeat(256);
    // No server listens there: a command that connected would exit with 69.
    let store = ["--store", "postgres://app@127.0.0.1:1/x"];
    let cases: &[(&[&str], i32, &str)] = &[
        (&["", "--", "true"], 2, "NAME: must not be empty"),
        (&[&long, "--", "true"], 2, "NAME: "),
        (&["x"], 2, "<COMMAND>..."),
        (&["x", "--"], 2, "<COMMAND>..."),
        (&["x", "true"], 2, "unexpected argument 'true'"),
        (&["x", "--ttl", "999ms", "--", "true"], 2, "--ttl: must be at least 1s, not 999ms"),
        (&["x", "--ttl", "10", "--", "true"], 2, "10 has no unit"),
        (&["x", "--ttl", "-1s", "--", "true"], 2, "'-1'"),
        (&["x", "--wait", "soon", "--", "true"], 2, "is not a length of time"),
        (&["x", "--wait", "1s", "--on-busy", "skip", "--", "true"], 2, "--wait requires --on-busy wait"),
        (&["x", "--wait", "1s", "--on-busy", "fail", "--", "true"], 2, "--wait requires --on-busy wait"),
        (&["x", "--on-busy", "run", "--", "true"], 2, "possible values: skip, wait, fail"),
        (&["x", "--ttl", "10s", "--grace", "3s", "--", "true"], 2, "at most a fifth of --ttl, 2s"),
        (&["x", "--", "lineclear-no-such-command"], 127, "command \"lineclear-no-such-command\" not found"),
        (&["x", "--", "/no/such/command"], 127, "command \"/no/such/command\" not found"),
        (&["x", "--", ""], 127, "command \"\" not found"),
        (&["x", "--", "/etc/passwd"], 126, "cannot run the command"),
        (&["x", "--", "/tmp"], 126, "cannot run the command"),
    ];
    for (arguments, code, message) in cases {
        let run = crate::run::lineclear(&[&["lock", "run"], &store[..], *arguments].concat());
        assert_eq!(run.code, Some(*code), "{arguments:?}: {}", run.err);
        assert!(run.err.starts_with("error: ") && run.err.contains(message), "{arguments:?}: {}", run.err);
        assert_eq!(run.out, "");
    }
    for (url, message) in [
        (":memory:", "does not exclude other processes"),
        ("sqlite::memory:", "does not exclude other processes"),
        ("", "--store: it must not be empty"),
        ("oracle://x", "oracle:// is not a store of locks"),
        ("postgres://h/x?schema=Bad", "`schema` must be"),
        ("mysql://h", "must name a database"),
        ("redis://h?replicas=many", "must be a number"),
    ] {
        let run = crate::run::lineclear(&["lock", "run", "x", "--store", url, "--", "true"]);
        assert_eq!(run.code, Some(2), "{url}: {}", run.err);
        assert!(run.err.contains(message), "{url}: {}", run.err);
    }
}

/// The schema of the scheduler and the locks share one database, in any order of creation.
async fn locks_and_the_schema_share_a_database(locks: TestLocks) {
    for _ in 0..2 {
        assert_eq!(locks.next_fence().await % 2, 1, "before and after the migration");
        let migrated = crate::run::lineclear(&["db", "migrate", "--db", &locks.url]);
        assert_eq!(migrated.code, Some(0), "{}", migrated.err);
        let (code, _, err) = locks.done(locks.run(&[], &["true"])).await;
        assert_eq!((code, err.as_str()), (Some(0), ""));
    }
    let history = crate::run::lineclear(&["lock", "history", "report", "--store", &locks.url]);
    assert_eq!(history.out.lines().count(), 4, "{}", history.out);
}

#[tokio::test]
async fn locks_and_the_schema_share_a_sqlite_file() {
    locks_and_the_schema_share_a_database(TestLocks::sqlite()).await;
}

#[tokio::test]
async fn locks_and_the_schema_share_a_postgres_database() {
    locks_and_the_schema_share_a_database(TestLocks::postgres().await).await;
}

#[test]
fn the_default_store_is_a_file_in_the_current_folder() {
    let folder = tempfile::tempdir().unwrap();
    let run = |variable: Option<&str>| {
        let mut command =
            crate::run::command(&["lock", "run", "report", "--", "sh", "-c", "echo $LINECLEAR_FENCE"]);
        command
            .current_dir(folder.path())
            .env_remove("LINECLEAR_DB")
            .envs(variable.map(|file| ("LINECLEAR_DB", file)));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!((run(None), run(None), run(Some("other.db"))), ("1\n".into(), "2\n".into(), "1\n".into()));
    assert!(folder.path().join("lineclear.db").is_file() && folder.path().join("other.db").is_file());
}
