//! `lineclear lock list`, `show`, `explain`, `history` and `break`.

use std::time::Duration;

use lineclear::model::{Manifest, Name, Schedule};
use lineclear::{Lineclear, NodeOptions};
use lineclear_testkit::Child;
use serde_json::Value;

use crate::lock::test_locks::{SOON, TestLocks, gone};
use crate::run::{Run, command, lineclear};

/// `lineclear lock …` in a store.
fn lock(locks: &TestLocks, arguments: &[&str]) -> Run {
    lineclear(&[&["lock"], arguments, &["--store", &locks.url]].concat())
}

/// Runs `lineclear lock`, which must succeed, and returns its output.
fn says(locks: &TestLocks, arguments: &[&str]) -> String {
    let run = lock(locks, arguments);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{arguments:?}");
    run.out
}

fn json(locks: &TestLocks, arguments: &[&str]) -> Value {
    let text = says(locks, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Waits until the registry has recorded the holder of the lock: the record is written in the background.
async fn recorded(locks: &TestLocks) {
    let recorded = async {
        while json(locks, &["list"])["items"].as_array().unwrap().iter().all(|lease| lease["state"] != "held")
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, recorded).await.unwrap();
}

async fn every_command_shows_the_holder_and_its_lock_can_be_broken(locks: TestLocks) {
    assert_eq!(locks.done(locks.run(&[], &["true"])).await.0, Some(0));
    let mut holder = locks.holder(&["--ttl", "12s"]).await;
    recorded(&locks).await;
    let id = holder.id();

    let list = says(&locks, &["list"]);
    assert!(list.lines().count() == 2 && list.contains(&format!("/{id}\tcommand\t2\t")), "{list}");
    let lease = &json(&locks, &["list"])["items"][0];
    assert_eq!(
        (&lease["name"], &lease["state"], &lease["pid"]),
        (&"report".into(), &"held".into(), &id.into())
    );
    assert_eq!((&lease["epoch"], &lease["kind"]), (&"2".into(), &"command".into()));

    let show = says(&locks, &["show", "report"]);
    assert!(show.contains("held by") && show.contains(&format!("/{id}/")), "{show}");
    let shown = json(&locks, &["show", "report"]);
    assert_eq!((&shown["held"], &shown["epoch"]), (&true.into(), &2.into()), "{shown}");
    assert!(shown["ends_in_ms"].as_u64().unwrap() > 3_000, "{shown}");
    assert_eq!(shown["next"]["what"], "held", "{shown}");

    let explained = says(&locks, &["explain", "report"]);
    for part in [
        "holds lock \"report\" as holder number 2 since 2",
        "It is alive: ",
        "If the holder dies, another can acquire it within ",
    ] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let said = json(&locks, &["explain", "report"]);
    assert!(said["sentences"].as_array().unwrap().len() >= 4, "{said}");

    let history = says(&locks, &["history", "report"]);
    assert!(history.contains("acquired it as holder number 1\n"), "{history}");
    assert!(history.contains("acquired it as holder number 2, after "), "{history}");
    assert_eq!(json(&locks, &["history", "report", "-n", "1"]).as_array().unwrap().len(), 1);

    is_broken(&locks, &mut holder).await;
    let events = json(&locks, &["history", "report"]);
    let broken = events.as_array().unwrap().iter().find(|event| event["what"] == "broken").unwrap();
    assert_eq!((&broken["why"], &broken["epoch"]), (&"it hangs".into(), &2.into()), "{events}");
    assert!(broken["by_whom"].as_str().unwrap().starts_with("tester@"), "{events}");
}

/// Breaks the lock of a holder: it needs a reason and a yes, and the holder's command ends.
async fn is_broken(locks: &TestLocks, holder: &mut Child) {
    let run = lock(locks, &["break", "report", "--yes"]);
    assert_eq!(run.code, Some(2), "a reason: {}", run.err);
    assert!(run.err.contains("--note"), "{}", run.err);
    assert_eq!(lock(locks, &["break", "report", "--yes", "--note", " "]).code, Some(2));
    let run = lock(locks, &["break", "report", "--note", "it hangs"]);
    assert_eq!(run.code, Some(2), "a yes: {}", run.err);
    assert!(run.err.contains("--yes"), "{}", run.err);
    assert_eq!(json(locks, &["show", "report"])["held"], true, "nothing was changed");

    let arguments = ["lock", "break", "report", "--store", &locks.url, "--note", "it hangs", "--yes"];
    let output = command(&arguments).env("USER", "tester").env_remove("SUDO_USER").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(out.contains("is broken and free") && out.contains(&format!("/{}/", holder.id())), "{out}");
    assert_eq!(holder.wait_for_exit(SOON).await.unwrap().code(), Some(70), "{:?}", holder.stderr());

    let explained = says(locks, &["explain", "report"]);
    assert!(explained.contains("as holder number 2, until it was broken at "), "{explained}");
    assert!(explained.contains("tester@") && explained.contains(": it hangs."), "{explained}");
    let run = lock(locks, &["break", "report", "--note", "again", "--yes"]);
    assert_eq!(run.code, Some(5), "{}", run.err);
    assert!(run.err.contains("lock \"report\" is free"), "{}", run.err);
    assert_eq!(locks.done(locks.run(&[], &["true"])).await.0, Some(0), "it is free");
    assert_eq!(json(locks, &["show", "report"])["held"], false);
}

#[tokio::test]
async fn every_command_shows_the_holder_and_its_lock_can_be_broken_in_a_sqlite_file() {
    every_command_shows_the_holder_and_its_lock_can_be_broken(TestLocks::sqlite()).await;
}

#[tokio::test]
async fn every_command_shows_the_holder_and_its_lock_can_be_broken_in_postgres() {
    every_command_shows_the_holder_and_its_lock_can_be_broken(TestLocks::postgres().await).await;
}

#[tokio::test]
async fn every_command_shows_the_holder_and_its_lock_can_be_broken_in_mysql() {
    every_command_shows_the_holder_and_its_lock_can_be_broken(TestLocks::mysql().await).await;
}

#[tokio::test]
async fn redis_locks_are_recorded_only_with_a_registry() {
    let locks = TestLocks::redis();
    let mut holder = locks.holder(&["--ttl", "6s"]).await;
    for (arguments, why) in [(&["list"][..], "cannot be listed"), (&["history", "report"], "have no history")]
    {
        let run = lock(&locks, arguments);
        assert_eq!(run.code, Some(2), "{}", run.err);
        assert!(run.err.contains(why) && run.err.contains("--registry"), "{}", run.err);
    }
    assert!(says(&locks, &["show", "report"]).contains(&format!("/{}/", holder.id())));
    let explained = says(&locks, &["explain", "report"]);
    assert!(explained.contains("The time of acquisition is not recorded."), "{explained}");
    assert!(explained.contains("Whether it is alive is unknown"), "{explained}");
    let run = lock(&locks, &["break", "report", "--note", "it hangs", "--yes", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(
        run.err.contains("the break was not recorded") && run.out.contains("\"recorded\":false"),
        "{}",
        run.err
    );
    assert_eq!(holder.wait_for_exit(SOON).await.unwrap().code(), Some(70));

    let file = locks.file("registry.db");
    let registry = ["--registry", file.to_str().unwrap()];
    let mut holder = locks.holder(&registry).await;
    let list = [&["list"][..], &registry].concat();
    while says(&locks, &list).lines().count() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let explained = says(&locks, &[&["explain", "report"][..], &registry].concat());
    assert!(explained.contains("It is alive: it last renewed the lock "), "{explained}");
    locks.let_go();
    holder.wait_for_exit(SOON).await.unwrap();
    assert!(says(&locks, &list).contains("idle"));
}

#[tokio::test]
async fn a_dead_or_frozen_holder_is_explained_and_its_lock_can_be_broken() {
    let locks = TestLocks::sqlite();
    let script = locks.until_told("echo held $$");
    let mut holder = locks.shell(&[], &script).start().unwrap();
    let command = holder.wait_for_line("held ", SOON).await.unwrap().replace("held ", "");
    recorded(&locks).await;
    holder.kill().unwrap();
    gone(&command).await;
    // Time passes.
    let file = rusqlite::Connection::open(&locks.url).unwrap();
    file.busy_timeout(SOON).unwrap();
    file.execute("update lock_lease set renewed_at = renewed_at - 20000000", []).unwrap();
    let explained = says(&locks, &["explain", "report"]);
    assert!(explained.contains("It may be dead or frozen: it last renewed the lock 2"), "{explained}");
    assert!(explained.contains("and should every 5s"), "{explained}");
    assert!(explained.contains("Unless it is renewed, it expires in 9m "), "{explained}");
    assert!(explained.contains("`lineclear lock break report --note REASON` frees it now."), "{explained}");
    assert!(says(&locks, &["list"]).contains("stale"));
    says(&locks, &["break", "report", "--note", "its machine is gone", "--yes"]);
    assert_eq!(locks.done(locks.run(&[], &["true"])).await.0, Some(0), "long before it would have ended");
}

// Two threads: the commands block one, and the node must keep sending heartbeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_that_plans_is_shown_too() {
    async fn tick() {}
    let locks = TestLocks::sqlite();
    let every_second = Schedule::every(Duration::from_secs(1)).unwrap();
    let manifest = Manifest::new(Name::new("clock").unwrap(), Name::new("tick").unwrap(), every_second);
    let options = NodeOptions { heartbeat: Duration::from_secs(2), ..NodeOptions::default() };
    let node = Lineclear::builder().store(locks.url.as_str()).options(options).kind("tick", tick);
    let node = node.manifest(manifest).start().await.unwrap();
    recorded(&locks).await;
    let list = says(&locks, &["list"]);
    assert!(list.contains("planner\theld\t"), "{list}");
    let explained = says(&locks, &["explain", "planner"]);
    assert!(
        explained.contains("has held \"planner\" since ") && explained.contains("It is alive: "),
        "{explained}"
    );
    assert!(explained.contains("another node takes over its role"), "{explained}");
    let run = lock(&locks, &["break", "planner", "--note", "why not", "--yes"]);
    assert_eq!(run.code, Some(5), "{}", run.err);
    assert!(run.err.contains("stop the node"), "{}", run.err);
    // Locks and the scheduler share the file while it runs.
    assert_eq!(locks.done(locks.run(&[], &["true"])).await.0, Some(0));
    assert_eq!(says(&locks, &["list"]).lines().count(), 3);
    node.stop().await;
    let explained = says(&locks, &["explain", "planner"]);
    assert!(explained.contains("Lock \"planner\" is free."), "{explained}");
}

#[tokio::test]
async fn a_short_command_leaves_no_old_events_behind() {
    let locks = TestLocks::sqlite();
    assert_eq!(locks.done(locks.run(&[], &["true"])).await.0, Some(0));
    let file = rusqlite::Connection::open(&locks.url).unwrap();
    file.busy_timeout(SOON).unwrap();
    file.execute("update lock_event set at = at - 8 * 86400000000", []).unwrap();
    assert_eq!(locks.done(locks.run(&[], &["true"])).await.0, Some(0));
    assert_eq!(json(&locks, &["history", "report"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_missing_lock_is_not_found_and_reading_creates_no_file() {
    let locks = TestLocks::sqlite();
    assert_eq!(says(&locks, &["list"]), "LOCK\tSTATE\tNODE\tKIND\tNUMBER\tSINCE\tRENEWED\n");
    assert_eq!(says(&locks, &["list", "--json"]), "{\"items\":[],\"next\":null}\n");
    let asked: [&[&str]; 4] =
        [&["show", "x"], &["explain", "x"], &["history", "x"], &["break", "x", "--note", "why", "--yes"]];
    for arguments in asked {
        let run = lock(&locks, arguments);
        assert_eq!(run.code, Some(3), "{arguments:?}: {}", run.err);
        assert_eq!(run.err, "error: lock \"x\" was never held in this store\n");
    }
    assert!(!std::path::Path::new(&locks.url).exists());
    assert_eq!(
        command(&["lock", "run", "y", "--store", &locks.url, "--", "true"]).status().unwrap().code(),
        Some(0)
    );
    for arguments in asked {
        assert_eq!(lock(&locks, arguments).code, Some(3), "{arguments:?}");
    }
}

#[test]
fn a_store_that_cannot_be_read_says_why() {
    for url in [
        "postgres://me:hunter2@127.0.0.1:1/x",
        "mysql://me:hunter2@127.0.0.1:1/x",
        "redis://:hunter2@127.0.0.1:1",
    ] {
        let run = lineclear(&["lock", "explain", "x", "--store", url]);
        assert_eq!(run.code, Some(6), "{url}: {}", run.err);
        assert!(run.err.contains("cannot be reached") && !run.err.contains("hunter2"), "{}", run.err);
    }
    for arguments in [
        &["show", ""][..],
        &["list", "--store", "oracle://x"],
        &["list", "-n", "0"],
        &["list", "--registry", "redis://h"],
    ] {
        let run = lineclear(&[&["lock"], arguments].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
    }
}

/// Breaks a lock in its own terminal (`script`), as a user would.
#[tokio::test]
async fn breaking_a_lock_requires_typing_its_name() {
    let locks = TestLocks::sqlite();
    let mut holder = locks.holder(&["--ttl", "6s"]).await;
    for (typed, code) in [("yes\n", 1), ("\n", 1), ("report\n", 0)] {
        assert_eq!(json(&locks, &["show", "report"])["held"], true);
        let binary = env!("CARGO_BIN_EXE_lineclear");
        let inside = format!("{binary} lock break report --store {} --note 'it hangs'", locks.url);
        let mut child = std::process::Command::new("script")
            .args(["-qec", &inside, "/dev/null"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("script of bsdutils");
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{typed}: {said}");
        assert!(said.contains("type the lock's name"), "{said}");
    }
    assert_eq!(holder.wait_for_exit(SOON).await.unwrap().code(), Some(70));
}

#[test]
fn a_name_cannot_act_on_the_terminal() {
    let locks = TestLocks::sqlite();
    let name = "a\u{1b}[2J\nb c";
    let ran = lineclear(&["lock", "run", name, "--store", &locks.url, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for arguments in [&["list"][..], &["show", name], &["explain", name], &["history", name]] {
        let said = says(&locks, arguments);
        assert!(!said.contains('\u{1b}') && !said.contains("\nb c"), "{said:?}");
    }
    assert_eq!(json(&locks, &["list"])["items"][0]["name"], name, "programs get it as it is");
}

#[tokio::test]
async fn the_locks_of_a_server_are_listed_as_its_api_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = crate::commands::serve::serve(&dir, &[]).await;
    let server = format!("http://{address}");
    let run = |args: &[&str]| crate::run::at(&dir, args);
    assert_eq!(run(&["lock", "run", "report", "--", "true"]).code, Some(0));
    let parsed = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let of_server = parsed(&run(&["lock", "list", "--server", &server, "--json"]).out);
    let report = |all: &Value| {
        all["items"].as_array().unwrap().iter().find(|lock| lock["name"] == "report").unwrap().clone()
    };
    let raw = parsed(&run(&["api", "GET", "/locks", "--server", &server]).out);
    assert_eq!(report(&of_server), report(&raw));
    assert_eq!(
        report(&of_server),
        report(&parsed(&run(&["lock", "list", "--json"]).out)),
        "and so without it"
    );
    let rows = run(&["lock", "list", "--server", &server]).out;
    assert!(rows.lines().any(|row| row.starts_with("report\tidle\t") && row.ends_with('Z')), "{rows}");
    let seen = crate::run::on_a_terminal(&dir, &["lock", "list"], &[]).out;
    assert!(seen.contains("· idle") && (seen.contains(" ago") || seen.contains("now")), "{seen}");
}
