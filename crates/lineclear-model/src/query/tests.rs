//! Queries that are read, written and refused.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[track_caller]
fn parse(text: &str) -> Query {
    Query::parse(text).unwrap_or_else(|bad| panic!("{text}: {bad}"))
}

#[test]
fn terms_are_read_and_written_in_one_way() {
    for (text, canonical) in [
        ("", ""),
        ("  ", ""),
        ("state:failed", "state:retrying,dead"),
        ("state:waiting -state:held,parked", "state:scheduled,queued,retrying"),
        (
            "state:dead -state:dead",
            "-state:scheduled,queued,held,parked,ready,running,retrying,completed,cancelled,dead",
        ),
        ("group:etl   kind:import", "kind:import group:etl"),
        ("manifest:extract-*", "manifest:extract-*"),
        ("-node:web-2 node:web-*", "node:web-* -node:web-2"),
        ("kind:a,b,c* -kind:ab", "kind:a,b,c* -kind:ab"),
        (r#"error:"connect timeout""#, r#"error:"connect timeout""#),
        (r#"error:refused,"a \"b\" \\ c""#, r#"error:"refused","a \"b\" \\ c""#),
        ("id:123", "id:123"),
        ("id:>5 id:<=9 -id:7", "-id:7 id:>=6 id:<=9"),
        ("claims:3", "claims:3"),
        ("claims:>3", "claims:>=4"),
        ("duration:>30s", "duration:>30s"),
        ("duration:>=90s duration:<1h", "duration:>=1m30s duration:<1h"),
        ("duration:>=0s", "duration:>=0s"),
        ("since:24h until:2026-03-29T01:00:00Z", "since:1d until:2026-03-29T01:00:00Z"),
        ("origin:trigger,adhoc", "origin:trigger,adhoc"),
        ("-origin:tick", "origin:trigger,dependent,dormant,backfill,adhoc"),
        ("kind:*", "kind:*"),
        ("reason:permanent state:dead", "state:dead reason:permanent"),
        (
            "-reason:worker_lost reason:permanent,retries_used_up",
            "reason:permanent,retries_used_up -reason:worker_lost",
        ),
    ] {
        let query = parse(text);
        assert_eq!(query.to_string(), canonical, "{text}");
        assert_eq!(parse(canonical), query, "{canonical}");
    }
}

#[test]
fn what_is_read_is_what_was_meant() {
    let query = parse(
        r#"state:failed group:etl since:24h kind:import-* -node:web-2 error:"connect timeout" duration:>30s"#,
    );
    assert_eq!(query.states, Some(vec![JobState::Retrying, JobState::Dead]));
    assert_eq!((query.group.any_of, query.node.none_of), (vec!["etl".to_owned()], vec!["web-2".to_owned()]));
    assert_eq!(query.error.any_of, ["connect timeout"]);
    assert_eq!(query.since, Some(Moment::Ago(Duration::from_secs(86_400))));
    assert_eq!(query.duration, Some(Span { min: 30_000_001, max: i64::MAX }));
    let now = Micros::new(1_767_225_600_000_000).unwrap();
    let fixed = parse("since:24h").fixed_at(now);
    assert_eq!(fixed.to_string(), "since:2025-12-31T00:00:00Z");
}

#[test]
fn a_mistake_has_a_place_and_a_hint() {
    for (text, at, words) in [
        ("stat:dead", 1, "did you mean state?"),
        ("kind:a grupp:b", 8, "did you mean group?"),
        ("-xyzzy:1", 2, "the fields are state, kind"),
        ("timeout", 1, "error:\"timeout\""),
        ("state:", 7, "needs a value"),
        ("state:daed", 7, "did you mean dead?"),
        ("state:dead,,held", 12, "needs a value"),
        ("error:\"open", 7, "is not closed"),
        ("error:\"a\"b", 10, "a space or a comma"),
        ("kind:Bad", 6, "cannot stand at position 1"),
        ("kind:a*b", 6, "may only end a name"),
        ("\"", 1, "a quote must follow a field"),
        ("state:dead \"x y\"", 12, "such as error:"),
        ("connect\"x\"", 8, "a quote must follow a field"),
        (":x", 1, "a field is missing"),
        ("-", 2, "a field is missing"),
        ("id:x", 4, "not a number"),
        ("id:-3", 4, "not a number"),
        ("id:1 id:2", 6, "occurs twice"),
        ("claims:><3", 8, "not a comparison"),
        ("claims:<0", 8, "less than 0"),
        ("claims:1,2", 1, "one comparison"),
        ("duration:>30", 11, "no unit"),
        ("-duration:>30s", 1, "cannot be negated"),
        ("-since:1h", 1, "write until:"),
        ("since:yesterday", 7, "neither a length"),
        ("kind:a kind:b", 8, "write kind:a,b for either"),
        ("tag:a,B", 7, "cannot stand"),
        ("kind:é", 6, "cannot stand"),
        ("reason:permanant", 8, "did you mean permanent?"),
        ("-reason:permanent,worker-lost", 19, "did you mean worker_lost?"),
        ("reason:broken", 8, "\"broken\" is not a reason: retries_used_up, permanent, worker_lost"),
        ("reason:perm*", 8, "is not a reason"),
        ("raeson:permanent", 1, "did you mean reason?"),
    ] {
        let bad = Query::parse(text).expect_err(text);
        assert!(bad.at == at && bad.why.contains(words), "{text}: {bad}");
    }
    assert!(Query::parse(&"a".repeat(2_000)).unwrap_err().why.contains("at most 1024 bytes"));
    let many = format!("kind:{}", vec!["a"; 101].join(","));
    assert!(Query::parse(&many).unwrap_err().why.contains("at most 100 values"));
}

fn term() -> impl Strategy<Value = String> {
    let name = || "[a-z][a-z0-9._-]{0,6}[*]?".prop_map(|name: String| name);
    let text = "[a-zA-Z0-9 ,:\"\\\\é*-]{1,10}"
        .prop_map(|text: String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    let sign = || prop_oneof![Just(""), Just("-")];
    let compare = || prop_oneof![Just(">"), Just(">="), Just("<="), Just("")];
    prop_oneof![
        (
            sign(),
            prop_oneof![
                Just("kind"),
                Just("group"),
                Just("manifest"),
                Just("route"),
                Just("node"),
                Just("tag"),
                Just("fingerprint")
            ],
            prop::collection::vec(name(), 1..4)
        )
            .prop_map(|(sign, field, names)| format!("{sign}{field}:{}", names.join(","))),
        (sign(), prop::collection::vec(prop::sample::select(JobState::ALL), 1..4)).prop_map(
            |(sign, states)| format!(
                "{sign}state:{}",
                states.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            )
        ),
        (sign(), prop::collection::vec(prop::sample::select(crate::DeadReason::ALL), 1..3)).prop_map(
            |(sign, reasons)| format!(
                "{sign}reason:{}",
                reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            )
        ),
        (sign(), text).prop_map(|(sign, text)| format!("{sign}error:{text}")),
        (compare(), 0..100i64).prop_map(|(compare, n)| format!("claims:{compare}{n}")),
        (compare(), 0..10_000i64).prop_map(|(compare, n)| format!("duration:{compare}{n}ms")),
        (sign(), 0..100i64).prop_map(|(sign, n)| format!("{sign}id:{n}")),
        (0..5_000u64).prop_map(|n| format!("since:{n}s")),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(terms in prop::collection::vec(term(), 0..6)) {
        let text = terms.join(" ");
        // The same field twice is refused; that is another test.
        if let Ok(query) = Query::parse(&text) {
            let written = query.to_string();
            let again = Query::parse(&written);
            prop_assert_eq!(again.as_ref(), Ok(&query), "{} became {}", text, written);
            prop_assert_eq!(again.unwrap().to_string(), written);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,60}") {
        if let Err(bad) = Query::parse(&text) {
            prop_assert!(bad.at >= 1 && bad.at <= text.chars().count() + 1, "{text}: {bad}");
        }
    }
}
