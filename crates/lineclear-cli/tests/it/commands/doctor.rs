//! `lineclear doctor`: each test causes a fault, and expects its message, its remedy and the exit code.

mod cluster;
mod database;
mod here;
mod schema;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::run::at;

/// The report.
struct Report {
    code: Option<i32>,
    checks: BTreeMap<String, Value>,
}

impl Report {
    fn finding(&self, check: &str) -> &str {
        self.checks.get(check).and_then(|check| check["finding"].as_str()).unwrap_or("none")
    }

    fn text(&self, check: &str, part: &str) -> String {
        self.checks[check][part].as_str().unwrap_or_default().to_owned()
    }

    /// The names of checks with a warning or a failure.
    fn trouble(&self) -> Vec<&str> {
        let troubled = self
            .checks
            .iter()
            .filter(|(_, check)| !["ok", "skipped"].contains(&check["finding"].as_str().unwrap()));
        troubled.map(|(name, _)| name.as_str()).collect()
    }

    /// The check has this finding, and its message and its remedy contain these words; the exit code matches the findings.
    #[track_caller]
    fn expect_check(&self, check: &str, finding: &str, message: &str, remedy: &str) {
        let all = &self.checks;
        assert_eq!(self.finding(check), finding, "{all:#?}");
        assert!(self.text(check, "message").contains(message), "{message:?} in {:#?}", all[check]);
        let fix = self.text(check, "remedy") + &self.text(check, "sql");
        assert!(fix.contains(remedy) && !fix.is_empty(), "{remedy:?} in {:#?}", all[check]);
        let failed = all.values().any(|check| check["finding"] == "failure");
        assert_eq!(self.code, Some(if failed { 10 } else { 0 }), "{all:#?}");
    }
}

fn doctor(dir: &TempDir, args: &[&str]) -> Report {
    let run = at(dir, &[&["doctor", "--json"], args].concat());
    let report: Value =
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}{}", run.out, run.err));
    let checks = report["checks"].as_array().unwrap();
    let named: BTreeMap<String, Value> =
        checks.iter().map(|check| (check["check"].as_str().unwrap().to_owned(), check.clone())).collect();
    assert_eq!(named.len(), checks.len(), "each check once: {checks:#?}");
    assert_eq!(report["healthy"], run.code == Some(0), "{}", run.out);
    Report { code: run.code, checks: named }
}

/// Repeats `doctor` until the report meets the condition.
async fn until(dir: &TempDir, args: &[&str], is: impl Fn(&Report) -> bool) -> Report {
    for _ in 0..300 {
        let report = doctor(dir, args);
        if is(&report) {
            return report;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let report = doctor(dir, args);
    panic!("timed out: {:#?}", report.checks)
}

/// Changes the file directly.
fn sql(dir: &TempDir, sql: &str) {
    let file = rusqlite::Connection::open(dir.path().join("lineclear.db")).unwrap();
    file.busy_timeout(Duration::from_secs(10)).unwrap();
    file.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A direct connection to PostgreSQL.
async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A free port, written where `serve` and `doctor` find it.
fn with_free_port(dir: &TempDir) {
    let port = lineclear_testkit::free_port().unwrap();
    std::fs::write(dir.path().join("lineclear.toml"), format!("port = {port}\n")).unwrap();
}

/// A fresh folder with a migrated file in it.
fn migrated() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    with_free_port(&dir);
    assert_eq!(at(&dir, &["db", "migrate"]).code, Some(0));
    dir
}

/// The page lists all checks in their order.
#[test]
fn the_page_lists_every_check_and_no_other() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let page = std::fs::read_to_string(page).unwrap();
    let listed: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let known: Vec<&str> = lineclear_model::doctor::CheckName::ALL.iter().map(|name| name.as_str()).collect();
    assert_eq!(listed, known);
}
