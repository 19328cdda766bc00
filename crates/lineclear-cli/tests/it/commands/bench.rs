//! `lineclear bench`: measures on the given database, and leaves it unchanged.

use std::time::Duration;

use lineclear_testkit::{Program, fresh_postgres};

use crate::run::{Run, at, command, on_a_terminal, ran};

const LONG: Duration = Duration::from_secs(60);
const SMALL: [&str; 6] = ["bench", "--jobs", "64", "--rounds", "1", "--json"];

fn bench(dir: &tempfile::TempDir, more: &[&str]) -> Run {
    ran(command(&[&SMALL[..], more].concat()).current_dir(dir.path()))
}

fn expect_figures(run: &Run) {
    assert_eq!(run.code, Some(0), "{}", run.err);
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let figures = report["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 4, "{report}");
    for figure in figures {
        let [baseline, value, ratio] =
            ["baseline_value", "value", "ratio"].map(|name| figure[name].as_f64().unwrap());
        assert!(baseline > 0.0 && value > 0.0, "{figure}");
        assert!((ratio - value / baseline).abs() < 1e-9, "{figure}");
    }
    assert_eq!(figures[3]["unit"], "ms");
    assert!(figures[3]["p99"].as_f64().unwrap() >= figures[3]["value"].as_f64().unwrap(), "{report}");
}

#[test]
fn bench_on_sqlite_uses_a_separate_file_and_removes_it() {
    let dir = tempfile::tempdir().unwrap();
    let job = ["api", "POST", "/jobs", "--body", r#"{"kind": "bench"}"#, "--db", "lineclear.db"];
    for args in [&["db", "migrate"][..], &job] {
        assert!(command(args).current_dir(dir.path()).status().unwrap().success());
    }
    expect_figures(&bench(&dir, &[]));
    let left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_str().unwrap().starts_with("lineclear.db")), "{left:?}");
    let file = rusqlite::Connection::open(dir.path().join("lineclear.db")).unwrap();
    let waits = file
        .query_one("select count(*) from work_queue where kind = 'bench'", [], |row| row.get::<_, i64>(0));
    assert_eq!(waits.unwrap(), 1, "a job that has the same kind was not run");
}

#[test]
fn a_terminal_gets_a_table_and_a_debug_build_warning_and_a_pipe_gets_tabs() {
    let dir = tempfile::tempdir().unwrap();
    let seen = on_a_terminal(&dir, &SMALL[..5], &[("LC_ALL", "C")]);
    assert_eq!(seen.code, Some(0), "{}", seen.out);
    assert_eq!(seen.out.lines().filter(|line| line.contains(" -> ")).count(), 4, "{}", seen.out);
    for part in ["a debug build", "removed afterwards", " measurements (", "/s, "] {
        assert!(seen.out.contains(part), "{part}: {}", seen.out);
    }
    let piped = at(&dir, &SMALL[..5]);
    assert_eq!(piped.code, Some(0), "{}", piped.err);
    let rows: Vec<Vec<&str>> = piped.out.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows[0], ["BASELINE", "NAME", "BASELINE VALUE", "VALUE", "UNIT", "RATIO", "P99"]);
    assert!(rows.len() == 5 && rows.iter().all(|row| row.len() == 7), "{}", piped.out);
    assert!(rows[1..].iter().all(|row| row[2].parse::<f64>().is_ok() && row[5].parse::<f64>().is_ok()));
    assert!(!piped.err.contains("measurements"), "{}", piped.err);
}

#[test]
fn a_benchmark_that_cannot_run_says_why() {
    let dir = tempfile::tempdir().unwrap();
    for (more, code, message) in [
        (["--db", "postgres://app@127.0.0.1:1/x"], 6, "cannot be reached"),
        (["--db", "/no/such/folder/x.db"], 1, "cannot create a file in /no/such/folder"),
        (["--rounds", "0"], 2, "0 is not in 1..=100"),
    ] {
        let args: Vec<&str> = if more[0] == "--rounds" {
            vec!["bench", more[0], more[1]]
        } else {
            [&SMALL[..], &more].concat()
        };
        let output = command(&args).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(message), "{said}");
    }
}

/// The schemas of the database, and the number of waiting rows.
async fn schemas(client: &tokio_postgres::Client) -> (Vec<String>, i64) {
    let rows = client.query("select nspname::text from pg_namespace order by 1", &[]).await.unwrap();
    let waits = client.query_one("select count(*) from lineclear.work_queue", &[]).await.unwrap().get(0);
    (rows.iter().map(|row| row.get(0)).filter(|name: &String| !name.starts_with("pg_")).collect(), waits)
}

#[tokio::test]
async fn bench_on_postgres_uses_a_separate_schema_and_drops_it_even_when_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let database = fresh_postgres().await;
    let at = ["--db", database.url()];
    assert!(command(&[&["db", "migrate"][..], &at].concat()).status().unwrap().success());
    let job = ["api", "POST", "/jobs", "--body", r#"{"kind": "bench"}"#];
    assert!(command(&[&job[..], &at].concat()).status().unwrap().success());
    let (client, connection) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let before = schemas(&client).await;
    assert_eq!(before.1, 1);
    expect_figures(&bench(&dir, &at));
    assert_eq!(schemas(&client).await, before);

    let mut long = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["bench", "--rounds", "100", "--jobs", "1000"])
        .args(at)
        .current_dir(dir.path())
        .start()
        .unwrap();
    long.wait_for_line("enqueueing 1000 jobs", LONG).await.unwrap();
    let second = bench(&dir, &at);
    assert_eq!(second.code, Some(5), "{}", second.err);
    assert!(second.err.contains("another benchmark runs"), "{}", second.err);
    long.terminate().unwrap();
    assert_eq!(long.wait_for_exit(LONG).await.unwrap().code(), Some(130));
    assert_eq!(schemas(&client).await, before);

    // A killed benchmark leaves its schema; the next one removes it after a minute.
    let mut killed = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["bench", "--rounds", "100", "--jobs", "1000"])
        .args(at)
        .current_dir(dir.path())
        .start()
        .unwrap();
    killed.wait_for_line("enqueueing 1000 jobs", LONG).await.unwrap();
    killed.kill().unwrap();
    killed.wait_for_exit(LONG).await.unwrap();
    assert_ne!(schemas(&client).await, before);
    let aged = "comment on schema lineclear_bench is 'lineclear bench, in use at 1767225600'";
    client.batch_execute(aged).await.unwrap();
    expect_figures(&bench(&dir, &at));
    assert_eq!(schemas(&client).await, before);

    // A schema of that name that no benchmark created stays.
    client
        .batch_execute("create schema lineclear_bench; create table lineclear_bench.mine (a int)")
        .await
        .unwrap();
    let refused = bench(&dir, &at);
    assert!(
        refused.code == Some(5) && refused.err.contains("was not created by a benchmark"),
        "{}",
        refused.err
    );
    client.batch_execute("insert into lineclear_bench.mine values (1)").await.unwrap();
    let own = format!("{}?schema=lineclear_bench", database.url());
    let refused = bench(&dir, &["--db", &own]);
    assert!(
        refused.code == Some(2) && refused.err.contains("the scratch schema of bench"),
        "{}",
        refused.err
    );
}
