//! Settings of submitters, good and bad.

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn submitters_are_read() {
    let text = format!(
        r#"{{"billing": {{"type": "push", "url": "https://billing.internal/jobs", "kinds": ["invoice", "refund"],
                "secrets": ["{SECRET}", {{"$secret": "billing-push"}}], "max_concurrent_dispatch": 32, "timeout": "5m",
                "callback_url": "https://jobs.example.com"}},
            "mail": {{"type": "push", "urls": ["http://10.0.0.1:8080", "http://10.0.0.2:8080"], "default": true, "unsigned": true}},
            "python": {{"type": "pull", "kinds": ["transcribe"]}}}}"#
    );
    let submitters = Submitters::parse(&text).unwrap();
    let kinds: Vec<_> = submitters.0.values().map(|submitter| submitter.kinds().len()).collect();
    assert_eq!(kinds, [2, 0, 1]);
    assert!(Submitters::parse(" ").unwrap().0.is_empty());
}

#[test]
fn all_errors_come_at_once() {
    let text = r#"{"a": {"type": "push", "url": "ftp://x", "kinds": [], "secrets": ["hunter2-hunter2"], "timeout": "2h", "max_concurrent_dispatch": 0},
        "b": {"type": "push", "kinds": ["invoice"], "unsigned": true},
        "c": {"type": "pull", "kinds": ["invoice", "a b"]},
        "d": {"type": "sqs"},
        "e": {"type": "pull", "kinds": ["x"], "url": "https://x"},
        "local": {"type": "push", "url": "https://x", "kinds": ["x"], "unsigned": true, "default": true},
        "g": {"type": "push", "url": "https://x", "kinds": ["y"]},
        "h": {"type": "pull", "default": true}}"#;
    let error = Submitters::parse(text).unwrap_err();
    for part in [
        "a: `max_concurrent_dispatch` must",
        "a: `secrets`: a secret is written as",
        "a: `timeout` must be at most 1h",
        "a: `kinds` must name",
        "a: ftp://x: not a URL",
        "b: set either `url`, or `urls`",
        "c: `kinds`: \"a b\"",
        "d: `type` must be",
        "e: unknown field `url`",
        "local: this name is reserved",
        "g: set `secrets` or `secrets_file`",
        "`default` must be true for one submitter only, not for h and local",
        "kind invoice is routed twice: to b and to c",
        "kind x is routed twice: to e and to local",
    ] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
    assert!(!error.contains("hunter2"), "{error}");
    let twice = r#"{"a": {"type": "pull", "kinds": ["x"]}, "b": {"type": "pull", "kinds": ["x"]}}"#;
    assert_eq!(Submitters::parse(twice).unwrap_err(), "kind x is routed twice: to a and to b");
    for bad in ["[]", "billing", r#"{"a": 7}"#, r#"{"a": {}}"#] {
        assert!(Submitters::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn secrets_are_masked_and_files_have_one_for_each_line() {
    let text = format!(r#"{{"a": {{"type": "push", "secrets": ["{SECRET}", {{"$secret": "x"}}]}}}}"#);
    assert_eq!(masked(&text), r#"{"a":{"secrets":["•••",{"$secret":"x"}],"type":"push"}}"#);
    assert_eq!(masked(SECRET), "•••");
    assert_eq!(entry::secrets_in(&format!("{SECRET}\n\n  {SECRET}\n")).map(|all| all.len()), Ok(2));
    assert!(entry::secrets_in("\n").is_err() && entry::secrets_in("hunter2").is_err());
}
