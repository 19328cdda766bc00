//! `lineclear group`: through a server, and directly on a database.

use crate::commands::job::{at, each_way};

const ORDERS: &str = r#"
[group.etl]
limit = 2

[[manifest]]
key = "nightly"
kind = "command"
group = "etl"
input = { argv = ["/bin/echo", "good", "night"] }
schedule = { cron = "30 2 * * *" }

[[manifest]]
key = "weekly"
kind = "command"
group = "etl"
input = { argv = ["/bin/echo", "good", "week"] }
schedule = { cron = "30 2 * * 1" }
"#;

#[tokio::test]
async fn groups_are_listed_set_paused_and_run() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        std::fs::write(dir.path().join("orders.toml"), ORDERS).unwrap();
        assert_eq!(run(&["manifest", "apply", "-f", "orders.toml"]).code, Some(0));

        let listed = run(&["group", "list"]);
        assert!(listed.out.starts_with("NAME\tSTATE\tACTIVE\tLIMIT\tPRIORITY\n"), "{}", listed.out);
        assert!(listed.out.contains("etl\tenabled\t0\t2\t0\n"), "{}", listed.out);
        let set = run(&["group", "set", "etl", "--limit", "4", "--priority", "10"]);
        assert_eq!((set.code, set.out.as_str()), (Some(0), "etl: limit 4, priority 10\n"), "{}", set.err);
        let open = run(&["group", "set", "etl", "--limit", "none"]);
        assert_eq!(open.out, "etl: limit none, priority 10\n", "other fields stay");
        assert_eq!(run(&["group", "pause", "etl"]).out, "etl paused\n");
        let paused = run(&["group", "get", "etl"]).out;
        assert!(paused.contains("state\tpaused\n") && paused.contains("priority\t10\n"), "{paused}");
        let json = run(&["group", "resume", "etl", "--json"]).out;
        assert!(json.contains(r#""enabled":true"#) && json.contains(r#""name":"etl""#), "{json}");

        let ran = run(&["group", "run", "etl"]);
        assert_eq!(ran.out.lines().count(), 2, "{}{}", ran.out, ran.err);
        assert!(ran.out.contains(" of nightly\n") && ran.out.contains(" of weekly\n"), "{}", ran.out);

        let missing = run(&["group", "set", "reports", "--limit", "1"]);
        assert!(missing.code == Some(3) && missing.err.contains("--create"), "{}", missing.err);
        assert_eq!(run(&["group", "set", "reports", "--limit", "1", "--create"]).code, Some(0));
        assert!(run(&["group", "get", "reports", "--json"]).out.contains(r#""limit":1"#));
        let global = run(&["group", "set", "*", "--limit", "50", "--create"]);
        assert_eq!(global.out, "*: limit 50, priority 0\n", "{}", global.err);
        let none = run(&["group", "run", "reports"]);
        assert!(none.code == Some(0) && none.out.contains("no job was enqueued"), "{}{}", none.out, none.err);

        for what in [&["get", "none"][..], &["pause", "none"], &["resume", "none"], &["run", "none"]] {
            assert_eq!(run(&[&["group"], what].concat()).code, Some(3), "{what:?}");
        }
        for wrong in [&["etl"][..], &["etl", "--limit", "-1"], &["etl", "--priority", "32"]] {
            assert_eq!(run(&[&["group", "set"], wrong].concat()).code, Some(2), "{wrong:?}");
        }
        assert_eq!(run(&["group", "set", "Ab", "--limit", "1", "--create"]).code, Some(3), "an invalid name");
    })
    .await;
}
