//! A program on a schema of a newer release.

use lineclear_testkit::fresh_postgres;
use serde_json::{Value, json};

use super::{LONG, Later};
use crate::commands::serve::{ask, serve};
use crate::kinds::command::wait_for;
use crate::run::at;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

async fn works_on_a_compatible_schema(db: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let later = Later::with(&[
        ("9001_note", "alter table {schema}.work_queue add column later_note text;"),
        ("9002_more", "alter table {schema}.audit add column later_note text;"),
    ]);
    let (mut before, address) = serve(&dir, &[db, &["--commands", "/bin/true"]].concat()).await;
    let run = |address: &str| {
        ask(address, "POST /api/v1/jobs", r#"{"kind": "command", "input": {"argv": ["/bin/true"]}}"#)
    };
    assert!(run(&address).starts_with("HTTP/1.1 201"));
    assert!(ask(&address, "GET /api/v1/audit", "").starts_with("HTTP/1.1 200"), "before the table changes");
    let migrated = later.run(&dir, &[&["db", "migrate"], db].concat());
    assert_eq!(migrated.code, Some(0), "{}", migrated.err);
    assert!(
        migrated.out.contains("applied  9001_note") && migrated.out.contains("applied  9002_more"),
        "{}",
        migrated.out
    );

    // One that was there before, and one that starts now.
    let (mut after, second) = serve(&dir, &[db, &["--commands", "/bin/true"]].concat()).await;
    after.wait_for_line("the schema is newer than this program, and compatible", LONG).await.unwrap();
    for address in [&address, &second] {
        let job = run(address);
        assert!(job.starts_with("HTTP/1.1 201"), "{job}");
        let job = parsed(job.split("\r\n\r\n").nth(1).unwrap())["id"].as_str().unwrap().to_owned();
        wait_for(address, &format!("jobs/{job}"), r#""state":"completed""#).await;
        assert!(ask(address, "GET /api/v1/audit", "").starts_with("HTTP/1.1 200"), "after it");
        assert!(ask(address, "GET /readyz", "").starts_with("HTTP/1.1 200"));
    }
    let status = at(&dir, &[&["db", "status"], db].concat());
    assert!(
        status.out.contains("newer    9001_note") && status.out.contains("and compatible"),
        "{}",
        status.out
    );
    let status = parsed(&at(&dir, &[&["db", "status", "--json"], db].concat()).out);
    assert_eq!((&status["newer"], &status["pending"]), (&json!(["9001_note", "9002_more"]), &json!([])));
    let again = at(&dir, &[&["db", "migrate"], db].concat());
    assert!(again.code == Some(0) && again.out.contains("nothing to do"), "{}{}", again.out, again.err);
    let doctor = parsed(&at(&dir, &[&["doctor", "--json"], db].concat()).out);
    let check = |name: &str| {
        doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == name).unwrap().clone()
    };
    assert_eq!(
        (&check("migrations")["finding"], &check("tables")["finding"]),
        (&json!("warning"), &json!("skipped"))
    );
    assert!(check("migrations")["remedy"].to_string().contains("finish the upgrade"), "{doctor:#}");
    assert_eq!(check("leases")["finding"], "ok", "the other checks run");
    for child in [&mut before, &mut after] {
        child.terminate().unwrap();
        assert!(child.wait_for_exit(LONG).await.unwrap().success());
        assert!(!child.stderr().join("\n").contains("ERROR"), "{:#?}", child.stderr());
    }
}

#[tokio::test]
async fn a_program_starts_on_and_works_beside_a_newer_compatible_schema_on_postgres() {
    let database = fresh_postgres().await;
    works_on_a_compatible_schema(&["--db", database.url()]).await;
}

#[tokio::test]
async fn a_program_starts_on_and_works_beside_a_newer_compatible_schema_on_sqlite() {
    works_on_a_compatible_schema(&[]).await;
}

async fn refuses_an_incompatible_schema(db: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let adds = ("9001_note", "alter table {schema}.work_queue add column later_note text;");
    let drops = ("9002_gone", "-- compatible from 9001\nalter table {schema}.node drop column kinds;");
    let later = Later::with(&[adds, drops]);
    assert_eq!(later.run(&dir, &[&["db", "migrate"], db].concat()).code, Some(0));
    for command in [&["serve", "--port", "0"][..], &["work"], &["db", "status"], &["job", "list"]] {
        let run = at(&dir, &[command, db].concat());
        let said = "9002_gone, which needs a program that knows migration 9001";
        assert!(
            run.code != Some(0) && run.err.contains(said) && run.err.contains("run the newer version"),
            "{command:?}: {}",
            run.err
        );
    }
    // The release between the two knows the migration that this one needs.
    let between = Later::with(&[adds]);
    let status = between.run(&dir, &[&["db", "status", "--json"], db].concat());
    assert_eq!(parsed(&status.out)["newer"], json!(["9002_gone"]), "{}", status.err);
}

#[tokio::test]
async fn a_program_refuses_a_newer_schema_that_it_cannot_work_with_on_postgres() {
    let database = fresh_postgres().await;
    refuses_an_incompatible_schema(&["--db", database.url()]).await;
}

#[tokio::test]
async fn a_program_refuses_a_newer_schema_that_it_cannot_work_with_on_sqlite() {
    refuses_an_incompatible_schema(&["--db", "lineclear.db"]).await;
}

/// A process that is killed between two migrations leaves the first, and the next process goes on with the second.
async fn goes_on_after_a_kill(db: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &[&["db", "migrate"], db].concat()).code, Some(0));
    let later = Later::with(&[
        ("9001_note", "alter table {schema}.work_queue add column later_note text;"),
        ("9002_more", "alter table {schema}.work_queue add column later_more text;"),
    ]);
    let mut child =
        later.program(&dir, &[&["db", "migrate"], db].concat()).stop_at("migrate.step#2").start().unwrap();
    child.wait_until_stopped(LONG).await.unwrap();
    child.kill().unwrap();
    let status = parsed(&later.run(&dir, &[&["db", "status", "--json"], db].concat()).out);
    assert_eq!(status["pending"], json!(["9002_more"]));
    let again = later.run(&dir, &[&["db", "migrate"], db].concat());
    assert!(
        again.out.contains("applied  9002_more") && !again.out.contains("9001"),
        "{}{}",
        again.out,
        again.err
    );
}

#[tokio::test]
async fn a_process_killed_between_two_migrations_leaves_the_first_on_postgres() {
    let database = fresh_postgres().await;
    goes_on_after_a_kill(&["--db", database.url()]).await;
}

#[tokio::test]
async fn a_process_killed_between_two_migrations_leaves_the_first_on_sqlite() {
    goes_on_after_a_kill(&[]).await;
}
