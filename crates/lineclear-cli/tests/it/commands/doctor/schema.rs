//! The schema: pending, unknown, changed by hand; the printed SQL repairs it.

use lineclear_testkit::fresh_postgres;

use super::{at, client, doctor, migrated, sql};

#[tokio::test]
async fn an_outdated_schema_is_reported_and_not_migrated() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    super::with_free_port(&dir);
    let url = ["--db", database.url()];
    doctor(&dir, &url).expect_check("migrations", "failure", "0001_manifest", "lineclear db migrate");
    assert_eq!(doctor(&dir, &url).finding("alive"), "skipped");
    assert_eq!(at(&dir, &["db", "migrate", "--db", database.url()]).code, Some(0));
    assert_eq!(doctor(&dir, &url).finding("migrations"), "ok");
    let behind = "delete from lineclear.migration where number > 20";
    client(database.url()).await.batch_execute(behind).await.unwrap();
    let report = doctor(&dir, &url);
    report.expect_check("migrations", "failure", "0021_tags", "lineclear db migrate");
    assert_eq!(
        (report.finding("tables"), report.finding("latency")),
        ("skipped", "ok"),
        "{:#?}",
        report.checks
    );
    let newer = "insert into lineclear.migration (number, name, checksum) values (999, '0999_later', 'x')";
    client(database.url()).await.batch_execute(newer).await.unwrap();
    doctor(&dir, &url).expect_check("migrations", "failure", "0999_later", "newer");

    let dir = migrated();
    sql(&dir, "delete from migration where number > 20");
    doctor(&dir, &[]).expect_check("migrations", "failure", "0021_tags", "lineclear db migrate");
    sql(&dir, "update migration set checksum = 'x' where number = 3");
    doctor(&dir, &[]).expect_check("migrations", "failure", "0003_background_job", "lineclear db status");
}

#[test]
fn the_printed_sql_repairs_a_sqlite_schema() {
    let dir = migrated();
    sql(&dir, "drop index work_queue_open; alter table node drop column kinds");
    let report = doctor(&dir, &[]);
    report.expect_check("indexes", "failure", "work_queue_open", "CREATE INDEX work_queue_open");
    report.expect_check(
        "tables",
        "failure",
        "column node.kinds is missing",
        "ALTER TABLE node ADD COLUMN kinds",
    );
    sql(&dir, &report.text("tables", "sql"));
    sql(&dir, &doctor(&dir, &[]).text("indexes", "sql"));
    let mended = doctor(&dir, &[]);
    assert_eq!((mended.finding("tables"), mended.finding("indexes")), ("ok", "ok"), "{:#?}", mended.checks);
    // An empty table in its place would be worse than none.
    sql(&dir, "drop table job_id");
    let report = doctor(&dir, &[]);
    report.expect_check("tables", "failure", "table job_id is missing", "");
    assert!(report.text("tables", "remedy").contains("restore a backup"), "{:#?}", report.checks);
}

#[tokio::test]
async fn the_printed_sql_repairs_a_postgres_schema() {
    let database = fresh_postgres().await;
    let dir = tempfile::tempdir().unwrap();
    super::with_free_port(&dir);
    let url = format!("{}?schema=jobs", database.url());
    let url = ["--db", url.as_str()];
    assert_eq!(at(&dir, &["db", "migrate", url[0], url[1]]).code, Some(0));
    let well = doctor(&dir, &url);
    assert_eq!(
        (well.finding("tables"), well.finding("indexes")),
        ("ok", "ok"),
        "another schema: {:#?}",
        well.checks
    );
    let faults = "drop index jobs.work_queue_open; alter table jobs.work_queue drop constraint work_queue_phase;
         alter table jobs.node drop column kinds; alter table jobs.bulk_operation alter column q drop not null;
         alter table jobs.bulk_operation alter column done drop default; alter table jobs.node alter column slots type bigint;
         drop view jobs.nagare_leases; drop function jobs.enqueue;
         drop index jobs.manifest_owner; create index manifest_owner on jobs.manifest (owner, id);
         update pg_index set indisvalid = false where indexrelid = 'jobs.execution_final'::regclass";
    let client = client(database.url()).await;
    client.batch_execute(faults).await.unwrap();
    let report = doctor(&dir, &url);
    for (check, words) in [
        ("indexes", "work_queue_open of work_queue is missing"),
        ("indexes", "execution_final of execution is invalid"),
        ("indexes", "manifest_owner of manifest differs"),
        ("tables", "rule work_queue_phase of work_queue is missing"),
        ("tables", "and"),
    ] {
        report.expect_check(check, "failure", words, "jobs");
    }
    for check in ["tables", "indexes"] {
        // As psql does: one statement after the other. Only the function contains semicolons.
        let all = report.text(check, "sql");
        let mut parts = all.split(";\n").map(str::to_owned).peekable();
        while let Some(mut statement) = parts.next() {
            while statement.matches("$function$").count() == 1 {
                statement = format!("{statement};\n{}", parts.next().unwrap());
            }
            client.batch_execute(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    }
    let mended = doctor(&dir, &url);
    assert_eq!((mended.finding("tables"), mended.finding("indexes")), ("ok", "ok"), "{:#?}", mended.checks);
}
