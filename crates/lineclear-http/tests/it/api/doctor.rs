//! Doctor over HTTP.

use serde_json::json;

use crate::kit::Served;

async fn every_check_of_a_healthy_server_is_ok(served: &Served) {
    let report = served.until("/api/v1/doctor", |report| report["healthy"] == json!(true)).await;
    let checks = report["checks"].as_array().unwrap();
    for check in checks {
        assert_eq!(check["finding"], "ok", "{check}");
        assert_eq!((&check["remedy"], &check["sql"]), (&json!(null), &json!(null)), "{check}");
    }
    let names: Vec<&str> = checks.iter().map(|check| check["check"].as_str().unwrap()).collect();
    for name in ["reachable", "latency", "clock", "migrations", "indexes", "alive", "overdue", "never"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for name in ["settings", "listen", "port"] {
        assert!(!names.contains(&name), "{name} is of the machine that asks");
    }
}

on_each_store! {
    every_check_of_a_healthy_server_is_ok
}
