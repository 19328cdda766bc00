//! A server whose clock is wrong: the database's clock decides, also about delays.

use std::time::Duration;

use lineclear_testkit::{Child, Program, fresh_postgres};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::commands::serve::ask;
use crate::run::at;

const LONG: Duration = Duration::from_secs(60);

/// A server whose clock is off by what the file `offset` says.
async fn serve(dir: &TempDir, db: &str) -> (Child, String) {
    let program = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--port", "0", "--roles", "planner", "--db", db])
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"));
    let child = program.clock(&dir.path().join("offset")).unwrap().start().unwrap();
    let line = child.wait_for_line("API  http://", LONG).await.unwrap();
    (child, line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned())
}

fn json_of(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// How long after its creation a job is due; both are times of the database.
fn delay(address: &str, id: &Value) -> Duration {
    let job = json_of(&ask(address, &format!("GET /api/v1/jobs/{}", id.as_str().unwrap()), ""));
    let at = |field: &str| job[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    at("due_at").duration_since(at("created_at")).try_into().unwrap()
}

#[tokio::test]
async fn a_server_that_is_ten_minutes_off_delays_jobs_as_long_as_it_was_told() {
    let database = fresh_postgres().await;
    for offset in ["-600s", "+600s"] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("offset"), offset).unwrap();
        let (mut server, address) = serve(&dir, database.url()).await;
        let skew = json_of(&ask(&address, "GET /api/v1/nodes", ""))["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|node| node["clock_skew_ms"].as_i64())
            .map(i64::abs)
            .max();
        assert!(skew.is_some_and(|ms| ms > 500_000), "its clock is off: {skew:?}");

        let hour = json!({"kind": "mail.send", "in_ms": 3_600_000});
        let made = json_of(&ask(&address, "POST /api/v1/jobs", &hour.to_string()));
        assert_eq!(delay(&address, &made["id"]), Duration::from_secs(3600), "{offset}");

        let manifest = json!({"kind": "mail.send", "schedule": {"on_demand": true}}).to_string();
        let put = ask(&address, "PUT /api/v1/manifests/nightly", &manifest);
        assert!(put.starts_with("HTTP/1.1 20"), "{put}");
        let run = ask(&address, "POST /api/v1/manifests/nightly/run", r#"{"in_ms": 3600000}"#);
        assert_eq!(delay(&address, &json_of(&run)["id"]), Duration::from_secs(3600), "{offset}");

        let url = format!("http://{address}");
        let said = at(&dir, &["job", "enqueue", "mail.send", "--in", "1h", "--server", &url, "--json"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let made: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(delay(&address, &made["id"]), Duration::from_secs(3600), "{offset}");
        server.terminate().unwrap();
        assert!(server.wait_for_exit(LONG).await.unwrap().success());
    }
}
