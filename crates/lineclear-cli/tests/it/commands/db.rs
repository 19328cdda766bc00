//! `lineclear db`, through the real binary.

use std::time::Duration;

use lineclear_testkit::{Program, fresh_postgres};

use crate::run::lineclear;

const LONG: Duration = Duration::from_secs(30);

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// How many migrations there are.
fn known() -> usize {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../lineclear/migrations/postgres");
    std::fs::read_dir(folder).unwrap().count()
}

/// From nothing to up to date, and again.
fn goes_up_to_date(url: &str) {
    let before = lineclear(&["db", "status", "--db", url]);
    assert_eq!(before.code, Some(0), "{}", before.err);
    assert!(before.out.contains(&format!("0 of {} migrations applied", known())), "{}", before.out);
    let plan = lineclear(&["db", "plan", "--db", url]);
    assert!(plan.out.contains("create table") && plan.out.contains("background_job"), "{}", plan.out);
    let first = lineclear(&["db", "migrate", "--db", url]);
    assert_eq!((first.code, first.out.matches("applied  ").count()), (Some(0), known()), "{}", first.err);
    let again = lineclear(&["db", "migrate", "--db", url]);
    assert!(again.out.contains("nothing to do"), "{}", again.out);
    let after = json(&lineclear(&["db", "status", "--db", url, "--json"]).out);
    assert_eq!((&after["applied"], &after["known"]), (&known().into(), &known().into()));
    assert_eq!(lineclear(&["db", "plan", "--db", url]).out, "-- up to date; nothing to do\n");
}

#[test]
fn a_sqlite_file_is_migrated_and_reading_does_not_create_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.db");
    let url = file.to_str().unwrap();
    assert_eq!(lineclear(&["db", "status", "--db", url]).code, Some(0));
    assert!(!file.exists(), "looking makes no file");
    goes_up_to_date(url);
}

#[tokio::test]
async fn a_postgres_database_is_migrated() {
    let database = fresh_postgres().await;
    goes_up_to_date(&format!("{}?schema=jobs", database.url()));
}

/// A migration that is killed half-way leaves nothing behind, and the next one does it all.
async fn survives_a_kill(url: &str) {
    let program = Program::at(env!("CARGO_BIN_EXE_lineclear")).args(["db", "migrate", "--db", url]);
    let mut child = program.stop_at("migrate.step#3").start().unwrap();
    child.wait_until_stopped(LONG).await.unwrap();
    child.kill().unwrap();
    let status = json(&lineclear(&["db", "status", "--db", url, "--json"]).out);
    assert_eq!(status["applied"], 0);
    let again = lineclear(&["db", "migrate", "--db", url]);
    assert_eq!((again.code, again.out.matches("applied  ").count()), (Some(0), known()), "{}", again.err);
}

#[tokio::test]
async fn a_migration_killed_half_way_leaves_nothing_behind() {
    let database = fresh_postgres().await;
    survives_a_kill(database.url()).await;
    let dir = tempfile::tempdir().unwrap();
    survives_a_kill(dir.path().join("new.db").to_str().unwrap()).await;
}

#[test]
fn all_migrations_are_printed_without_a_server() {
    let plan = lineclear(&["db", "plan", "--all", "--db", "postgres://app@127.0.0.1:1/x?schema=jobs"]);
    assert_eq!(plan.code, Some(0), "{}", plan.err);
    assert!(plan.out.contains("create table \"jobs\".work_queue"), "{}", plan.out);
}

#[test]
fn failures_have_a_message_and_an_exit_code() {
    for (args, code, message) in [
        (
            vec!["db", "status", "--db", "postgres://app@127.0.0.1:1/x"],
            6,
            "127.0.0.1:1: error connecting to server: Connection refused",
        ),
        (vec!["db", "status", "--db", "mysql://x"], 2, "mysql:// is not a store"),
        (vec!["db", "migrate", "--db", "/no/such/folder/x.db"], 1, "unable to open"),
        (vec!["db", "migrate", "--db", "postgres://h/x?schema=Bad"], 2, "`schema` must"),
    ] {
        let run = lineclear(&args);
        assert_eq!(run.code, Some(code), "{args:?}: {}", run.err);
        assert!(run.err.starts_with("error: ") && run.err.contains(message), "{args:?}: {}", run.err);
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text.db");
    std::fs::write(&file, "a text that is no database, and long enough to be taken for one").unwrap();
    let run = lineclear(&["db", "migrate", "--db", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(11), "{}", run.err);
}

#[test]
fn a_password_is_never_printed() {
    let run = lineclear(&["db", "status", "--db", "postgres://me:hunter2@127.0.0.1:1/x"]);
    assert!(!run.err.contains("hunter2") && !run.out.contains("hunter2"));
}
