//! Manifests as people write them, and those that are refused.

use super::*;

const FILE: &str = r#"
[group.etl]
limit = 4
priority = 10

[group."*"]
limit = 100

[[manifest]]
key = "nightly"
owner = "data@example.com"
kind = "load"
group = "etl"
input = { table = "orders", since = 2026-01-01 }
schedule = { cron = "30 2 * * *", tz = "Europe/Berlin", gap = "shift", start = 2026-01-01T00:00:00Z }
misfire = { policy = "catch_up", max = 3, threshold = "5m" }
overlap = "queue_one"
exclude = [{ weekdays = ["sat", "sun"] }, { dates = [2026-12-25] }, { daily = "22:00-02:00" }]
excluded = "defer"
jitter = "30s"
retries = 5
retry = { delay = "10s", factor = 1.5 }
timeout = "1h30m"
on_dead = "go_on"
priority = 3
enabled = false

[[manifest]]
key = "report"
kind = "report"
schedule = { after = ["nightly", "elsewhere"], need = "any" }
"#;

#[test]
fn a_file_is_read_with_its_defaults() {
    let file = ManifestFile::from_toml(FILE).unwrap();
    assert_eq!(file.group["etl"], GroupSpec { limit: Some(4), priority: 10, enabled: true });
    let [nightly, report] = &file.manifest[..] else { panic!("two manifests") };
    assert_eq!(nightly.input.as_str(), r#"{"since":"2026-01-01","table":"orders"}"#);
    assert_eq!(nightly.timeout, Some(Duration::from_secs(5400)));
    assert_eq!(
        nightly.retry.unwrap().max,
        Duration::from_secs(3600),
        "what is left out of a table is the default"
    );
    assert_eq!(nightly.exclude.len(), 3);
    assert_eq!((nightly.on_dead, report.on_dead), (OnDead::GoOn, OnDead::Hold));
    let defaults = Manifest::new(report.key.clone(), report.kind.clone(), report.schedule.clone());
    assert_eq!(*report, defaults);
    assert_eq!(
        (report.retries, report.timeout, report.route.as_str()),
        (None, None, "main"),
        "its kind says"
    );
}

#[test]
fn json_has_the_same_shape_and_survives_the_round_trip() {
    let file = ManifestFile::from_toml(FILE).unwrap();
    let json = serde_json::to_string(&file).unwrap();
    assert_eq!(ManifestFile::from_json(&json).unwrap(), file);
}

#[test]
fn a_spec_survives_being_stored() {
    for manifest in ManifestFile::from_toml(FILE).unwrap().manifest {
        let text = manifest.spec().to_json();
        let spec = Spec::from_json(&text).unwrap();
        assert_eq!(spec, manifest.spec());
        assert_eq!(spec.to_json(), text);
        assert_eq!(spec.rules(), manifest.rules());
    }
    let report = &ManifestFile::from_toml(FILE).unwrap().manifest[1];
    assert_eq!(
        report.spec().to_json(),
        concat!(
            r#"{"schedule":{"after":["nightly","elsewhere"],"need":"any"},"#,
            r#""misfire":{"policy":"once","threshold":"1m"}}"#
        )
    );
}

/// A file whose second manifest has this line.
fn with(line: &str) -> String {
    format!(
        "[[manifest]]\nkey = \"a\"\nkind = \"k\"\nschedule = {{ every = \"5m\" }}\n\n\
         [[manifest]]\nkey = \"b\"\nkind = \"k\"\n{line}\n"
    )
}

#[test]
fn an_error_names_the_manifest_the_field_and_the_line() {
    let every = "schedule = { every = \"5m\" }";
    for (line, field, message) in [
        ("schedule = { cron = \"61 * * * *\" }", "schedule", "61 is not between 0 and 59"),
        ("schedule = { cron = \"0 0 30 2 *\" }", "schedule", "never fires"),
        ("schedule = { every = \"5 minutes\" }", "schedule.every", "not a length of time"),
        ("schedule = { every = \"5m\", tz = \"Europe/Berln\" }", "schedule", "Europe/Berlin"),
        ("schedule = { every = \"5m\", colour = 3 }", "schedule.colour", "unknown field"),
        (&format!("priority = 32\n{every}"), "priority", "between 0 and 31"),
        (&format!("priority = \"high\"\n{every}"), "priority", "invalid type"),
        (&format!("jitter = \"10m\"\n{every}"), "jitter", "overtake"),
        (&format!("timeout = \"0s\"\n{every}"), "timeout", "must be above zero"),
        (&format!("retry = {{ factor = 0.5 }}\n{every}"), "retry.factor", "at least 1.0"),
        (&format!("overlap = \"never\"\n{every}"), "overlap", "never"),
        (&format!("group = \"Etl\"\n{every}"), "group", "position 1"),
        (&format!("misfire = {{ policy = \"once\", max = 3 }}\n{every}"), "misfire.max", "catch_up"),
        (&format!("exclude = [{{ daily = \"22\" }}]\n{every}"), "exclude.0", "not a window"),
        (&format!("input = {{ a = nan }}\n{every}"), "input.a", "JSON has no"),
        (&format!("retires = 3\n{every}"), "retires", "unknown field"),
    ] {
        let bad = ManifestFile::from_toml(&with(line)).unwrap_err();
        assert_eq!(bad.manifest.as_deref(), Some("b"), "{line}: {bad:?}");
        assert_eq!(bad.line, Some(9), "{line}: {bad:?}");
        let named = bad.field.clone().unwrap_or_default();
        assert!(named == field || field.starts_with(&format!("{named}.")), "{line}: {named}, not {field}");
        assert!(bad.to_string().contains(message), "{line}: {bad}");
    }
    let bad = ManifestFile::from_toml(&with("")).unwrap_err();
    assert!(bad.to_string().contains("missing field `schedule`"), "{bad}");
    assert_eq!(bad.manifest.as_deref(), Some("b"));
    let bad = ManifestFile::from_toml("[[manifest]\n").unwrap_err();
    assert_eq!(bad.line, Some(1));
    let bad = ManifestFile::from_toml("[group.etl]\nlimit = 0\n").unwrap_err();
    assert!(bad.to_string().contains("group.etl.limit: must be at least 1"), "{bad}");
}

#[test]
fn an_error_in_json_names_the_manifest_and_the_field() {
    let file = |field: &str| {
        format!(
            "{{\"manifest\":[\n{{\"key\":\"b\",\"kind\":\"k\",\"schedule\":{{\"every\":\"5m\"}},{field}}}]}}"
        )
    };
    for (field, name, message) in [
        (r#""priority":"high""#, "priority", "invalid type"),
        (r#""retires":1"#, "retires", "unknown field"),
        (r#""overlap":"never""#, "overlap", "never"),
        (r#""input":{"a":1,"a":2}"#, "input", "occurs twice"),
        (r#""priority":99"#, "priority", "between 0 and 31"),
    ] {
        let bad = ManifestFile::from_json(&file(field)).unwrap_err();
        assert_eq!(bad.manifest.as_deref(), Some("b"), "{field}: {bad:?}");
        assert!(bad.to_string().contains(message), "{field}: {bad}");
        assert_eq!(bad.field.as_deref(), Some(name), "{field}: {bad:?}");
    }
}

#[test]
fn manifests_that_wait_for_each_other_are_refused() {
    let after = |key: &str, parents: &str| {
        format!("[[manifest]]\nkey = \"{key}\"\nkind = \"k\"\nschedule = {{ after = [{parents}] }}\n")
    };
    let cycle = after("x", r#""a""#)
        + &after("a", r#""b""#)
        + &after("b", r#""elsewhere", "c""#)
        + &after("c", r#""a""#);
    let bad = ManifestFile::from_toml(&cycle).unwrap_err().to_string();
    assert!(bad.contains("a → b → c → a"), "{bad}");
    let itself = ManifestFile::from_toml(&after("a", r#""a""#)).unwrap_err().to_string();
    assert!(itself.contains("waits for itself"), "{itself}");
    let diamond = after("a", r#""elsewhere""#)
        + &after("b", r#""a""#)
        + &after("c", r#""a""#)
        + &after("d", r#""b", "c""#);
    assert!(ManifestFile::from_toml(&diamond).is_ok());
    let twice = after("a", r#""b""#) + &after("a", r#""c""#);
    let bad = ManifestFile::from_toml(&twice).unwrap_err();
    assert!(bad.to_string().contains("line 6: manifest \"a\": key: must be unique; two manifests"), "{bad}");
}

#[test]
fn a_long_chain_is_no_trouble() {
    let manifests: Vec<Manifest> = (0..20_000)
        .map(|n| {
            let name = |n: u32| Name::new(format!("m{n}")).unwrap();
            let schedule = Schedule::after(vec![name(n + 1)], crate::schedule::Need::All).unwrap();
            Manifest::new(name(n), name(0), schedule)
        })
        .collect();
    assert_eq!(dependency_cycle::find(&manifests[..2000]), None);
}
