//! `lineclear manifest diff`: the changes that files would make.

use serde_json::Value;
use tempfile::TempDir;

use crate::run::{Run, at};

fn straight(dir: &TempDir, args: &[&str]) -> Run {
    at(dir, &[args, &["--db", "lineclear.db"]].concat())
}

const BEFORE: &str = r#"
[group.etl]
limit = 2
[[manifest]]
key = "nightly"
kind = "load"
group = "etl"
input = { table = "a", password = "one" }
schedule = { cron = "30 2 * * *", tz = "Europe/Berlin" }
[[manifest]]
key = "gone"
kind = "load"
schedule = { on_demand = true }
[[manifest]]
key = "same"
kind = "load"
schedule = { every = "1h" }
"#;

const AFTER: &str = r#"
[group.etl]
limit = 3
[[manifest]]
key = "nightly"
kind = "load"
group = "etl"
input = { table = "a", password = "two" }
schedule = { cron = "30 3 * * *", tz = "Europe/Berlin" }
retries = 5
[[manifest]]
key = "new"
kind = "load"
schedule = { on_demand = true }
[[manifest]]
key = "same"
kind = "load"
schedule = { every = "60m" }
"#;

#[test]
fn files_and_database_are_compared_field_by_field_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.toml"), BEFORE).unwrap();
    std::fs::write(dir.path().join("b.toml"), AFTER).unwrap();
    assert_eq!(straight(&dir, &["db", "migrate"]).code, Some(0));
    let all = straight(&dir, &["manifest", "diff", "-f", "a.toml"]);
    assert_eq!(all.code, Some(1), "{}", all.err);
    assert!(all.out.contains("+ group etl\n+ manifest gone\n+ manifest nightly\n"), "{}", all.out);
    assert_eq!(straight(&dir, &["manifest", "apply", "-f", "a.toml", "--owner", "me"]).code, Some(0));
    let none = straight(&dir, &["manifest", "diff", "-f", "a.toml", "--owner", "me"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), "no changes (4 unchanged)\n"), "{}", none.err);

    let asked = ["manifest", "diff", "-f", "b.toml", "--owner", "me", "--prune"];
    let some = straight(&dir, &asked);
    assert_eq!(some.code, Some(1), "{}", some.err);
    let arrow = if some.out.contains('→') { "→" } else { "->" };
    let want = format!(
        "+ manifest new\n- manifest gone\n~ group etl\n    limit: 2 {arrow} 3\n~ manifest nightly\n    input: \
         {{\"password\":\"•••\",\"table\":\"a\"}} {arrow} {{\"password\":\"•••\",\"table\":\"a\"}} (a secret, or another notation)\n    \
         retries: unset {arrow} 5\n    schedule.cron: \"30 2 * * *\" {arrow} \"30 3 * * *\"\n1 unchanged\n"
    );
    assert_eq!(some.out, want);
    let plan: Value = serde_json::from_str(&straight(&dir, &[&asked[..], &["--json"]].concat()).out).unwrap();
    assert_eq!(plan["dry_run"], true);
    let values = &plan["manifests"]["changed"][0]["values"];
    assert_eq!(values["schedule.cron"]["to"], "30 3 * * *", "{plan}");
    assert!(!plan.to_string().contains("\"two\""), "{plan}");

    assert_eq!(
        straight(&dir, &["manifest", "diff", "-f", "a.toml", "--owner", "me"]).code,
        Some(0),
        "a look changes nothing"
    );
    assert_eq!(straight(&dir, &["manifest", "diff", "-f", "none.toml"]).code, Some(2));
    assert_eq!(straight(&dir, &["manifest", "get", "new"]).code, Some(3));
}

#[test]
fn a_diff_shows_stored_numbers_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[[manifest]]\nkey = \"odd\"\nkind = \"load\"\nschedule = { on_demand = true }\ninput = { n = 1, m = 2 }\n";
    std::fs::write(dir.path().join("a.toml"), file).unwrap();
    assert_eq!(straight(&dir, &["db", "migrate"]).code, Some(0));
    let odd = r#"{"kind": "load", "schedule": {"on_demand": true}, "input": {"n": 1e400, "m": 12345678901234567890123}}"#;
    assert_eq!(straight(&dir, &["api", "PUT", "/manifests/odd", "--body", odd]).code, Some(0));
    let seen = straight(&dir, &["manifest", "diff", "-f", "a.toml"]);
    assert!(seen.out.contains("input.m: 12345678901234567890123 "), "{} {}", seen.out, seen.err);
    assert!(seen.out.contains("input.n: 1e400 "), "{}", seen.out);
    let json = straight(&dir, &["manifest", "diff", "-f", "a.toml", "--json"]).out;
    assert!(json.starts_with("{\"dry_run\":true,\"groups\":{"), "in the order of the API: {json}");
    assert!(
        json.contains(
            r#""values":{"input.m":{"from":12345678901234567890123,"to":2},"input.n":{"from":1e400,"to":1}}"#
        ),
        "{json}"
    );
}

#[test]
fn a_date_in_a_file_is_a_text_in_an_input() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[[manifest]]\nkey = \"m\"\nkind = \"load\"\nschedule = { once = 2050-01-01T00:00:00Z }\ninput = { days = [2026-01-01] }\n";
    std::fs::write(dir.path().join("a.toml"), file).unwrap();
    assert_eq!(straight(&dir, &["db", "migrate"]).code, Some(0));
    let applied = straight(&dir, &["manifest", "apply", "-f", "a.toml"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let shown = straight(&dir, &["manifest", "get", "m"]).out;
    assert!(shown.contains("input\t{\"days\":[\"2026-01-01\"]}\n"), "{shown}");
    assert!(shown.contains("schedule\tonce 2050-01-01T00:00:00Z\n"), "{shown}");
    assert_eq!(straight(&dir, &["manifest", "diff", "-f", "a.toml"]).code, Some(0));
}
