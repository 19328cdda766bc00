//! `lineclear schedule`.

use std::{io::Read, process::Stdio};

use serde_json::Value;

use crate::run::{command, file, lineclear, on_a_terminal};

/// The local times that `schedule next --json` prints.
fn next(args: &[&str]) -> Vec<String> {
    let run = lineclear(&[&["schedule", "next", "--json"], args].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let ticks: Vec<Value> = serde_json::from_str(&run.out).unwrap();
    ticks.iter().map(|tick| tick["local"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn next_prints_exactly_the_promised_json() {
    let run = lineclear(&[
        "schedule",
        "next",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--from",
        "2026-03-29T00:30:00Z",
        "-n",
        "1",
        "--json",
    ]);
    assert_eq!(
        run.out,
        "[{\"utc\":\"2026-03-29T01:00:00Z\",\"local\":\"2026-03-29T03:00:00+02:00\",\"zone\":\"Europe/Berlin\"}]\n"
    );
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
}

#[test]
fn a_local_time_that_does_not_exist_follows_the_gap_rule() {
    let berlin = ["30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-28T00:00:00Z", "-n", "3"];
    let ticks = |rule: &[&str]| next(&[&berlin[..], rule].concat());
    let (before, after) = ("2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00");
    assert_eq!(ticks(&[]), [before, "2026-03-29T03:00:00+02:00", after]);
    assert_eq!(ticks(&["--gap", "next_valid"]), ticks(&[]));
    assert_eq!(ticks(&["--gap", "shift"]), [before, "2026-03-29T03:30:00+02:00", after]);
    assert_eq!(ticks(&["--gap", "skip"]), [before, after, "2026-03-31T02:30:00+02:00"]);
}

#[test]
fn a_local_time_that_occurs_twice_follows_the_fold_rule() {
    let berlin = ["30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-10-24T12:00:00Z", "-n", "2"];
    let ticks = |rule: &[&str]| next(&[&berlin[..], rule].concat());
    let (first, second) = ("2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00");
    let after = "2026-10-26T02:30:00+01:00";
    assert_eq!(ticks(&[]), [first, after]);
    assert_eq!(ticks(&["--fold", "first"]), [first, after]);
    assert_eq!(ticks(&["--fold", "second"]), [second, after]);
    assert_eq!(ticks(&["--fold", "both"]), [first, second]);
}

#[test]
fn from_itself_is_not_a_next_tick() {
    let noon = ["0 12 * * *", "-n", "1", "--from"];
    assert_eq!(next(&[&noon[..], &["2026-01-01T12:00:00Z"]].concat()), ["2026-01-02T12:00:00+00:00"]);
    assert_eq!(next(&[&noon[..], &["2026-01-01T11:59:59.999999Z"]].concat()), ["2026-01-01T12:00:00+00:00"]);
}

#[test]
fn five_ticks_from_now_are_the_default_and_intervals_work_too() {
    assert_eq!(next(&["* * * * *"]).len(), 5);
    let every = ["every 90m", "--from", "2026-01-01T00:00:00Z", "-n", "2"];
    assert_eq!(next(&every), ["2026-01-01T01:30:00+00:00", "2026-01-01T03:00:00+00:00"]);
    let ended = ["@daily", "--from", "2026-01-01T00:00:00Z", "--end", "2026-01-02T00:00:00Z"];
    assert_eq!(next(&ended), ["2026-01-02T00:00:00+00:00"]);
}

#[test]
fn a_terminal_gets_a_table_with_marks_at_clock_changes() {
    let berlin = ["schedule", "next", "30 2 * * *", "--tz", "Europe/Berlin", "-n", "2", "--from"];
    let dir = tempfile::tempdir().unwrap();
    let wide = [("COLUMNS", "200")];
    let run = on_a_terminal(&dir, &[&berlin[..], &["2026-03-28T00:00:00Z"]].concat(), &wide);
    assert_eq!(
        run.out,
        "30 2 * * * in Europe/Berlin, after 2026-03-28T00:00:00Z\n  \
         Sat 2026-03-28 02:30:00 +01:00  2026-03-28T01:30:00Z  in 1h 30m\n  \
         Sun 2026-03-29 03:00:00 +02:00  2026-03-29T01:00:00Z  in 1d 1h   \
         moved: its local time does not exist on this day\n"
    );
    let run = on_a_terminal(&dir, &[&berlin[..], &["2026-10-24T12:00:00Z"]].concat(), &wide);
    assert!(run.out.contains("first of two"), "{}", run.out);
    let piped = lineclear(&[&berlin[..], &["2026-03-28T00:00:00Z"]].concat());
    assert_eq!(
        piped.out,
        "UTC\tLOCAL\tZONE\tNOTE\n\
         2026-03-28T01:30:00Z\t2026-03-28T02:30:00+01:00\tEurope/Berlin\t\n\
         2026-03-29T01:00:00Z\t2026-03-29T03:00:00+02:00\tEurope/Berlin\tmoved: its local time does not exist on this day\n"
    );
}

#[test]
fn bad_input_ends_with_2_and_says_what_is_wrong() {
    let long = "1,".repeat(5 * 1024);
    for (args, part) in [
        (vec![""], "empty"),
        (vec!["61 * * * *"], "61 is not between 0 and 59"),
        (vec!["* * *"], "5 or 6 fields"),
        (vec!["*/0 * * * *"], "step of 0"),
        (vec!["5/10 * * * *"], "write `5-59/10`"),
        (vec!["0 0 30 2 *"], "never fires"),
        (vec!["@fortnightly"], "@hourly"),
        (vec!["0 0 * * fry"], "\"fry\" is not understood"),
        (vec!["\u{1b}[31m * * * *"], "position 1"),
        (vec![&long], "at most 1024 bytes"),
        (vec!["every 0s"], "shortest interval is 1s"),
        (vec!["every -5m"], "not a length of time"),
        (vec!["every 5 minutes"], "not a length of time"),
        (vec!["-5 * * * *"], "a number is missing"),
        (vec!["@daily", "--tz", "Europe/Berln"], "did you mean \"Europe/Berlin\"?"),
        (vec!["@daily", "--tz", "/etc/passwd"], "no time zone"),
        (vec!["@daily", "--from", "yesterday"], "not a moment"),
        (vec!["@daily", "--from", "2026-01-01T00:00:00"], "with its offset"),
        (vec!["@daily", "-n", "0"], "1..=1000"),
        (vec!["@daily", "-n", "1001"], "1..=1000"),
        (vec!["@daily", "--gap", "maybe"], "next_valid"),
        (vec!["every 5m", "--gap", "skip"], "only means something with cron"),
        (vec!["@daily", "--start", "2026-01-02T00:00:00Z", "--end", "2026-01-01T00:00:00Z"], "before start"),
        (vec![], "EXPRESSION"),
    ] {
        let run = lineclear(&[&["schedule", "next"][..], &args].concat());
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.err);
        assert!(run.err.contains(part), "{args:?}: {}", run.err);
        assert!(run.err.starts_with("error: "), "{args:?}: {}", run.err);
        assert!(!run.err.contains('\u{1b}') && run.out.is_empty(), "{args:?}: {}", run.err);
    }
}

#[test]
fn the_wrong_part_of_an_expression_is_underlined() {
    let run = lineclear(&["schedule", "explain", "0 22-2 * * *"]);
    assert!(run.err.contains("  | 0 22-2 * * *\n  |   ^^^^\nhint: "), "{}", run.err);
}

#[test]
fn explain_puts_a_schedule_into_words() {
    let run = lineclear(&["schedule", "explain", "*/15 9-17 * * mon-fri", "--tz", "Europe/Berlin"]);
    assert!(run.out.contains("Every 15 minutes, in the hours 09 to 17, on Monday to Friday."), "{}", run.out);
    assert!(
        run.out.contains("first moment after the gap") && run.out.contains("fires the first time"),
        "{}",
        run.out
    );
    let run = lineclear(&["schedule", "explain", "@hourly", "--tz", "Europe/Berlin"]);
    assert!(run.out.contains("elapsed time") && !run.out.contains("gap ="), "{}", run.out);
    let run = lineclear(&[
        "schedule",
        "explain",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--fold",
        "both",
        "--json",
    ]);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "expression": "30 2 * * *", "words": "At 02:30.", "zone": "Europe/Berlin",
            "follows_elapsed_time": false, "gap": "next_valid", "fold": "both"
        })
    );
}

const MANIFESTS: &str = include_str!("../manifests.toml");

#[test]
fn check_lists_every_tick_and_every_collision() {
    let path = file("check.toml", MANIFESTS);
    let window = ["schedule", "check", &path, "--from", "2026-01-01T00:00:00Z", "--window", "24h"];
    let run = lineclear(&[&window[..], &["--json"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let fires =
        |key: &str| json["fires"].as_array().unwrap().iter().filter(|fire| fire["manifest"] == key).count();
    assert_eq!(
        (fires("orders"), fires("invoices"), fires("old")),
        (4, 1, 0),
        "18:00 is excluded, `old` is off"
    );
    assert_eq!(
        json["collisions"],
        serde_json::json!([{"minute": "2026-01-01T06:00:00Z", "manifests": ["invoices", "orders"]}])
    );
    let dir = tempfile::tempdir().unwrap();
    let run = on_a_terminal(&dir, &window, &[]);
    for part in
        ["4 manifests, 5 ticks", "2026-01-01T06:00:00Z  2  invoices, orders", "old is disabled", "elsewhere"]
    {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let run = on_a_terminal(&dir, &[&window[..], &["--limit", "2"]].concat(), &[]);
    assert!(run.out.contains("… and 3 more"), "{}", run.out);
    let piped = lineclear(&window).out;
    for line in [
        "manifest\torders\t4",
        "tick\t2026-01-01T06:00:00Z\tinvoices\t2026-01-01T06:00:00Z",
        "collision\t2026-01-01T06:00:00Z\tinvoices,orders",
        "note\told is disabled",
    ] {
        assert!(piped.lines().any(|there| there == line), "{line}: {piped}");
    }
}

#[test]
fn check_names_the_line_the_manifest_and_the_field_of_a_bad_file() {
    for (name, from, to, part) in [
        (
            "cron",
            "0 */6 * * *",
            "0 */6 32 * *",
            "line 9: manifest \"orders\": schedule: cron: day of month: 32",
        ),
        (
            "zone",
            "{ cron = \"0 6,18",
            "{ tz = \"Nowhere\", cron = \"0 6,18",
            "line 15: manifest \"invoices\": schedule: tz",
        ),
        ("field", "enabled = false", "enabeld = false", "unknown field `enabeld`"),
        (
            "cycle",
            "\"elsewhere\"",
            "\"report\"",
            "manifest \"report\": schedule.after: report waits for itself",
        ),
        ("group", "limit = 2", "limit = 0", "group.etl.limit"),
        ("toml", "[group.etl]", "[group.etl", "line 2"),
    ] {
        let path = file(&format!("bad-{name}.toml"), &MANIFESTS.replacen(from, to, 1));
        let run = lineclear(&["schedule", "check", &path]);
        assert_eq!(run.code, Some(2), "{name}: {}", run.err);
        assert!(run.err.contains(part), "{name}: {}", run.err);
        assert!(run.err.contains(&path) && run.err.contains("hint: "), "{name}: {}", run.err);
    }
    let run = lineclear(&["schedule", "check", "/no/such/file.toml"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("cannot read /no/such/file.toml"), "{}", run.err);
    let run = lineclear(&["schedule", "check", &file("empty.toml", ""), "--window", "0s"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
}

#[test]
fn steps_longer_than_their_field_are_taken_with_a_warning() {
    for (expression, only, next) in [
        ("0 0 1 */15 *", "month: a step of 15", "2027-01-01T00:00:00Z"),
        ("0 0 * * */20", "weekday: a step of 20", "2026-06-07T00:00:00Z"),
    ] {
        let run = lineclear(&[
            "schedule",
            "next",
            expression,
            "--from",
            "2026-06-01T00:00:00Z",
            "-n",
            "1",
            "--json",
        ]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert!(run.err.starts_with(&format!("warning: {only} is longer than the field")), "{}", run.err);
        let ticks: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(ticks[0]["utc"], next, "{ticks}");
        assert!(ticks[0]["warnings"][0].as_str().unwrap().starts_with(only), "{ticks}");
        let run = lineclear(&["schedule", "explain", expression, "--json"]);
        assert!(run.code == Some(0) && run.err.contains(only), "{}", run.err);
        let explained: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert!(explained["warnings"][0].as_str().unwrap().starts_with(only), "{explained}");
    }
    let fine = lineclear(&["schedule", "next", "0 0 1 */12 *", "--json"]);
    assert!(fine.code == Some(0) && fine.err.is_empty() && !fine.out.contains("warnings"), "{}", fine.err);
    let path = file("steps.toml", &MANIFESTS.replacen("0 */6 * * *", "0 */60 * * *", 1));
    let checked = lineclear(&["schedule", "check", &path]);
    assert!(checked.out.contains("note\torders: hour: a step of 60"), "{}{}", checked.out, checked.err);
}

#[test]
fn a_reader_that_closes_early_is_not_a_failure() {
    let mut child = command(&["schedule", "next", "* * * * * *", "-n", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Closed before anything was read: the first write fails.
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn every_command_has_help_with_examples() {
    for command in ["next", "explain", "check"] {
        let run = lineclear(&["schedule", command, "--help"]);
        assert_eq!(run.code, Some(0));
        assert!(run.out.contains("Examples:"), "{}", run.out);
        assert!(!run.out.contains('\u{1b}'), "piped output is plain");
    }
}
