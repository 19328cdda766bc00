//! The database and its connection.

use lineclear_testkit::fresh_postgres;

use super::{at, client, doctor, migrated, sql, until};

#[test]
fn a_database_that_does_not_answer_is_a_failure_and_its_password_is_not_shown() {
    let dir = migrated();
    let report = doctor(&dir, &["--db", "postgres://me:hunter2@127.0.0.1:9/app"]);
    report.expect_check("reachable", "failure", "cannot be reached", "host, port, user");
    assert_eq!((report.finding("latency"), report.finding("alive")), ("skipped", "skipped"));
    assert!(!format!("{:?}", report.checks).contains("hunter2"));
    std::fs::write(
        dir.path().join("text.db"),
        "a text that is no database, and long enough to be taken for one",
    )
    .unwrap();
    doctor(&dir, &["--db", "text.db"]).expect_check("reachable", "failure", "not a database", "backup");
}

#[test]
fn a_file_without_wal_is_reported_and_not_changed() {
    let dir = migrated();
    assert_eq!(doctor(&dir, &[]).finding("journal"), "ok");
    sql(&dir, "pragma journal_mode = delete");
    doctor(&dir, &[]).expect_check("journal", "warning", "WAL", "PRAGMA journal_mode = WAL");
    doctor(&dir, &[]).expect_check("journal", "warning", "WAL", "move the file");
    assert!(!dir.path().join("lineclear.db-wal").exists(), "doctor changes nothing");
    let report = doctor(&dir, &[]);
    assert_eq!(
        (report.finding("file_system"), report.finding("integrity")),
        ("ok", "ok"),
        "{:#?}",
        report.checks
    );
}

#[test]
fn a_leftover_wal_file_is_not_changed() {
    let dir = migrated();
    let (file, ahead) = (dir.path().join("lineclear.db"), dir.path().join("lineclear.db-wal"));
    let held = rusqlite::Connection::open(&file).unwrap();
    held.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    held.execute_batch(
        "insert into setting (key, value, version, updated_at, updated_by) values ('x', '1', 1, 1, 'me')",
    )
    .unwrap();
    drop(held);
    let read = || (std::fs::read(&file).unwrap(), std::fs::read(&ahead).unwrap());
    let before = read();
    assert!(!before.1.is_empty(), "something is left lying");
    assert_eq!(doctor(&dir, &[]).finding("integrity"), "ok");
    assert!(read() == before, "doctor changes nothing");
    assert_eq!(doctor(&dir, &["--db", "none.db"]).finding("reachable"), "failure");
    assert!(!dir.path().join("none.db").exists());
}

#[test]
fn a_file_without_permission_is_not_reported_as_damaged() {
    let dir = migrated();
    std::fs::create_dir(dir.path().join("folder.db")).unwrap();
    let report = doctor(&dir, &["--db", "folder.db"]);
    report.expect_check("reachable", "failure", "", "this user needs to read and write the file");
    assert!(!report.text("reachable", "remedy").contains("backup"), "{:#?}", report.checks);
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // Root may write everywhere, so the program runs as another user, who must be able to execute it.
    let program = dir.path().join("program");
    std::fs::hard_link(env!("CARGO_BIN_EXE_lineclear"), &program)
        .or_else(|_| std::fs::copy(env!("CARGO_BIN_EXE_lineclear"), &program).map(drop))
        .unwrap();
    mode(&dir.path().join("lineclear.db"), 0o444);
    mode(dir.path(), 0o555);
    let mut asked = std::process::Command::new(&program);
    asked.args(["doctor", "--json", "--db", "lineclear.db"]).current_dir(dir.path()).env_clear();
    if rustix::process::geteuid().is_root() {
        asked.uid(65_534).gid(65_534);
    }
    let said = String::from_utf8(asked.output().unwrap().stdout).unwrap();
    mode(dir.path(), 0o755);
    assert!(
        said.contains("this user needs to read and write the file") && !said.contains("backup"),
        "{said}"
    );
}

#[test]
fn a_file_that_other_users_can_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let dir = migrated();
    assert_eq!(doctor(&dir, &[]).finding("permissions"), "ok");
    for mode in [0o640, 0o604, 0o602] {
        let file = dir.path().join("lineclear.db");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        doctor(&dir, &[]).expect_check("permissions", "warning", "lineclear.db", "chmod 600 lineclear.db");
    }
}

#[test]
fn a_damaged_file_is_a_failure() {
    let dir = migrated();
    sql(
        &dir,
        "insert into job_payload with recursive n (n) as (select 1 union all select n + 1 from n where n < 2000) select n, hex(randomblob(200)) from n",
    );
    sql(&dir, "pragma wal_checkpoint(truncate)");
    let file = dir.path().join("lineclear.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() - 40 * 4096;
    bytes[middle..middle + 8192].fill(0x55);
    std::fs::write(&file, bytes).unwrap();
    doctor(&dir, &[]).expect_check("integrity", "failure", "damaged", "backup");
}

#[tokio::test]
async fn an_idle_transaction_is_named_with_the_sql_that_ends_it() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    super::with_free_port(&dir);
    let url = ["--db", database.url()];
    at(&dir, &["db", "migrate", "--db", database.url()]);
    assert_eq!(doctor(&dir, &url).finding("transactions"), "ok");
    let idler = client(database.url()).await;
    idler.batch_execute("set application_name = 'forgetful'; begin; select 1").await.unwrap();
    let report = until(&dir, &url, |report| report.finding("transactions") != "ok").await;
    report.expect_check("transactions", "warning", "forgetful", "pg_terminate_backend");
    let other = client(database.url()).await;
    other.batch_execute(&report.text("transactions", "sql")).await.unwrap();
    until(&dir, &url, |report| report.finding("transactions") == "ok").await;
}

#[tokio::test]
async fn dead_rows_that_are_not_vacuumed_are_named() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    super::with_free_port(&dir);
    let url = ["--db", database.url()];
    at(&dir, &["db", "migrate", "--db", database.url()]);
    let neglected = client(database.url()).await;
    neglected
        .batch_execute("alter table lineclear.job_payload set (autovacuum_enabled = false)")
        .await
        .unwrap();
    doctor(&dir, &url).expect_check("dead_rows", "warning", "job_payload", "RESET (autovacuum_enabled)");
    // Autovacuum runs about once a minute; the check sees these rows sooner.
    let rows = "alter table lineclear.job_payload reset (autovacuum_enabled);
                insert into lineclear.job_payload select n, '{}' from generate_series(1, 20000) n; delete from lineclear.job_payload";
    neglected.batch_execute(rows).await.unwrap();
    drop(neglected);
    let report = until(&dir, &url, |report| report.text("dead_rows", "sql").contains("VACUUM")).await;
    report.expect_check("dead_rows", "warning", "20000 dead rows", "VACUUM (ANALYZE) lineclear.job_payload;");
    client(database.url()).await.batch_execute(&report.text("dead_rows", "sql")).await.unwrap();
    until(&dir, &url, |report| report.finding("dead_rows") == "ok").await;
}

#[tokio::test]
async fn a_pooler_that_the_url_does_not_name_is_a_failure() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    super::with_free_port(&dir);
    at(&dir, &["db", "migrate", "--db", database.url()]);
    let direct = doctor(&dir, &["--db", database.url()]);
    assert_eq!(direct.finding("pooler"), "ok", "{:#?}", direct.checks);
    assert!(
        direct.text("pooler", "message").starts_with("no pooler: statements are prepared"),
        "{:#?}",
        direct.checks
    );
    let through = database.pgbouncer_url();
    let join = if through.contains('?') { '&' } else { '?' };
    let named = doctor(&dir, &["--db", &format!("{through}{join}pooler=transaction")]);
    assert!(
        named.text("pooler", "message").starts_with("a transaction pooler, as the URL says"),
        "{:#?}",
        named.checks
    );
    assert_eq!(named.finding("indexes"), "ok", "all of it works through a pooler: {:#?}", named.checks);
    let unnamed = doctor(&dir, &["--db", &through]);
    unnamed.expect_check("pooler", "failure", "the URL does not say so", "pooler=transaction");
}
