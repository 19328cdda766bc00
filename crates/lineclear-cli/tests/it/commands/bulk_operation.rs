//! `lineclear bulk-operation` and `manifest backfill`: through a server, and directly on a database.

use serde_json::Value;

use crate::commands::dead_letter::die;
use crate::commands::job::{at, each_way, until};

#[tokio::test]
async fn a_bulk_operation_is_counted_started_watched_and_undone() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        for _ in 0..3 {
            assert_eq!(run(&["job", "enqueue", "mail.send", "--in", "1h"]).code, Some(0));
        }
        let which = ["-q", "kind:mail.send"];
        let start = |more: &[&str]| run(&[&["bulk-operation", "start", "cancel"], &which[..], more].concat());
        let dry = start(&["--dry-run"]);
        assert!(dry.code == Some(0) && dry.out.starts_with("would cancel 3 jobs"), "{}{}", dry.out, dry.err);
        let refused = start(&[]);
        assert!(refused.code == Some(2) && refused.err.contains("cancel 3 jobs"), "{}", refused.err);
        assert_eq!(run(&["bulk-operation", "list"]).out.lines().count(), 1, "none was made");

        let later = start(&["--yes", "--starts-in", "1h"]);
        assert!(
            later.out.starts_with("bulk operation 1: cancel 3 jobs; cancel it with"),
            "{}{}",
            later.out,
            later.err
        );
        assert_eq!(run(&["bulk-operation", "cancel", "1"]).out, "bulk operation 1 cancelled\n");
        assert_eq!(run(&["bulk-operation", "cancel", "1"]).code, Some(5), "it is over");
        assert_eq!(run(&["bulk-operation", "watch", "1"]).code, Some(9));

        let done = start(&["-y", "--starts-in", "0s", "--wait", "--reason", "enough mail"]);
        assert_eq!(
            (done.code, done.out.as_str()),
            (Some(0), "bulk operation 2 done: 3 jobs processed\n"),
            "{}",
            done.err
        );
        let got = run(&["bulk-operation", "get", "2"]).out;
        assert!(got.contains("status\tdone\n") && got.contains("reason\tenough mail\n"), "{got}");
        let listed = run(&["bulk-operation", "list"]).out;
        assert!(listed.starts_with("ID\tSTATUS\tACTION\tDONE\tSKIPPED\tTOTAL\t"), "{listed}");
        assert!(listed.contains("2\tdone\tcancel\t3\t0\t3\t"), "{listed}");
        let json: Value =
            serde_json::from_str(&run(&["bulk-operation", "watch", "2", "--json"]).out).unwrap();
        assert_eq!((&json["status"], &json["done"]), (&"done".into(), &3.into()));

        for what in ["get", "watch", "cancel"] {
            assert_eq!(run(&["bulk-operation", what, "99"]).code, Some(3), "{what}");
        }
        assert_eq!(run(&["bulk-operation", "start", "explode", "-q", "id:>0", "-y"]).code, Some(2));
        assert_eq!(run(&["bulk-operation", "start", "cancel", "-q", "stat:dead", "-y"]).code, Some(2));
    })
    .await;
}

#[tokio::test]
async fn a_backfill_reports_progress_and_a_summary() {
    each_way(&["--roles", "planner"], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        let body = r#"{"kind": "report", "schedule": {"every": "1m"}}"#;
        assert_eq!(run(&["api", "PUT", "/manifests/often", "--body", body]).code, Some(0));
        let fill = ["manifest", "backfill", "often", "--from", "2026-01-01T00:00:00Z", "--to"];
        let one = run(&[&fill[..], &["2026-01-01T00:01:00Z"]].concat());
        assert!(one.code == Some(0) && one.out.starts_with("1 job enqueued: "), "{}{}", one.out, one.err);
        // More than one call processes.
        let many = run(&[&fill[..], &["2026-01-02T00:00:00Z"]].concat());
        assert!(many.out.starts_with("1439 jobs enqueued: "), "{}{}", many.out, many.err);
        assert!(many.out.ends_with("; 1 tick already had a job\n"), "{}", many.out);
        assert!(many.err.contains("1000 of 1440 ticks processed (69 %), "), "{}", many.err);
        let again: Value =
            serde_json::from_str(&run(&[&fill[..], &["2026-01-02T00:00:00Z", "--json"]].concat()).out)
                .unwrap();
        assert_eq!((&again["known"], &again["jobs"]), (&1440.into(), &Value::Array(vec![])));
        assert_eq!(
            run(&["manifest", "backfill", "none", "--from", fill[4], "--to", "2026-01-02T00:00:00Z"]).code,
            Some(3)
        );
        assert_eq!(run(&["manifest", "backfill", "often", "--from", "noon", "--to", "x"]).code, Some(2));
        until(|| run(&["manifest", "delete", "often"]).code == Some(0));
    })
    .await;
}

#[tokio::test]
async fn dead_letters_are_revived_by_a_canary_or_one_after_the_other() {
    each_way(&["--commands", "/bin/echo"], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        die(dir, asked, &["/bin/a", "/bin/a", "/bin/a"]);
        let start = |more: &[&str]| {
            let common =
                ["bulk-operation", "start", "revive", "-q", "state:dead", "--yes", "--starts-in", "0s", "--wait"];
            run(&[&common[..], more].concat())
        };
        let canary = start(&["--canary"]);
        assert_eq!(
            (canary.code, canary.out.lines().last()),
            (
                Some(9),
                Some("bulk operation 1 cancelled: 1 job processed; stopped because its canary, job 3, died again")
            ),
            "{}",
            canary.err
        );
        let got = run(&["bulk-operation", "get", "1"]).out;
        assert!(got.contains("mode\tcanary\n") && got.contains("canary job\t3\n"), "{got}");
        assert!(got.contains("stopped because\tits canary, job 3, died again\n"), "{got}");

        let spread = start(&["--over", "3h"]);
        assert_eq!(
            (spread.code, spread.out.lines().last()),
            (Some(0), Some("bulk operation 2 done: 3 jobs processed")),
            "{}",
            spread.err
        );
        let got = run(&["bulk-operation", "get", "2"]).out;
        assert!(got.contains("mode\tspread\n") && got.contains("over\t3h\n"), "{got}");
        let waiting: Value =
            serde_json::from_str(&run(&["job", "list", "-q", "state:waiting", "--json"]).out).unwrap();
        assert_eq!(waiting["items"].as_array().map(Vec::len), Some(2), "an hour apart: {waiting}");

        assert_eq!(start(&["--over", "3h", "--canary"]).code, Some(2));
        assert_eq!(start(&["--over", "900d"]).code, Some(2));
        assert_eq!(run(&["bulk-operation", "start", "cancel", "-q", "id:>0", "-y", "--canary"]).code, Some(2));
    })
    .await;
}
