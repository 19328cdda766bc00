//! Each fact closes its own gate.

use std::time::Duration;

use super::*;
use crate::schedule::Need;
use crate::{DeadReason, ExecutionOutcome, JobState, Manifest, Name, Origin, Overlap, Schedule};

const NOW: i64 = 1_767_225_600_000_000;

fn at(seconds: i64) -> Micros {
    Micros::new(NOW + seconds * 1_000_000).unwrap()
}

fn place(name: &str, limit: Option<u32>, active: u32) -> LimitFacts {
    let holders = (0..active.into()).map(|job| Holder { job, node: Some("web-1".into()) }).collect();
    LimitFacts { name: name.into(), enabled: true, limit, active, holders }
}

fn node() -> NodeFacts {
    let (routes, kinds) = (vec!["main".into()], Some(vec!["import".into()]));
    NodeFacts {
        name: "web-1".into(),
        live: true,
        drains: false,
        works: true,
        routes,
        kinds,
        free: 4,
        submitters: Vec::new(),
        seen_at: at(-1),
    }
}

/// A job with all gates open.
fn job() -> JobFacts {
    JobFacts {
        now: at(0),
        state: JobState::Queued,
        origin: Origin::Tick,
        kind: "import".into(),
        route: Some("main".into()),
        due_at: at(-5),
        finished_at: None,
        failures: 0,
        last_error: None,
        cancel_requested_at: None,
        unknown_kind: false,
        submitter: None,
        node: None,
        holder: HolderRole::Node,
        external_id: None,
        claimed_at: None,
        lease_ends_at: None,
        outcome: None,
        dead: None,
        manifest: Some(JobManifest { key: "nightly".into(), enabled: true }),
        group: Some(place("etl", Some(4), 1)),
        global: Some(place("*", Some(100), 1)),
        key: Some(place("tenant-7", Some(1), 0)),
        nodes: vec![node()],
    }
}

fn closed(explanation: &Explanation) -> Vec<GateName> {
    let names: Vec<GateName> = explanation.gates.iter().map(|gate| gate.name).collect();
    assert_eq!(names, GateName::ALL, "each gate once, in order");
    explanation.gates.iter().filter(|gate| gate.open == Some(false)).map(|gate| gate.name).collect()
}

#[test]
fn each_fact_closes_its_own_gate_of_a_job_and_no_other() {
    type Case = (GateName, fn(&mut JobFacts), &'static str);
    let cases: &[Case] = &[
        (GateName::Enabled, |f| f.manifest.as_mut().unwrap().enabled = false, "nightly is paused"),
        (GateName::Enabled, |f| f.state = JobState::Parked, "the cleaner queues it again"),
        (GateName::GroupEnabled, |f| f.group.as_mut().unwrap().enabled = false, "group etl is switched off"),
        (GateName::GlobalEnabled, |f| f.global.as_mut().unwrap().enabled = false, "group *"),
        (
            GateName::Due,
            |f| (f.state, f.due_at) = (JobState::Scheduled, at(3_600)),
            "is due at 2026-01-01T01:00:00Z (in 1h)",
        ),
        (
            GateName::Retry,
            |f| {
                (f.state, f.due_at, f.failures) = (JobState::Retrying, at(300), 1);
                f.last_error = Some("connect timeout".into());
            },
            "waits for its next try at 2026-01-01T00:05:00Z (in 5m); it failed once: connect timeout",
        ),
        (
            GateName::Overlap,
            |f| f.key = Some(place("manifest:3", Some(1), 1)),
            "waits until job 0 of manifest nightly is over",
        ),
        (
            GateName::GroupLimit,
            |f| f.group = Some(place("etl", Some(4), 4)),
            "waits for a place in group etl: 4 of 4 are taken",
        ),
        (
            GateName::GlobalLimit,
            |f| f.global = Some(place("*", Some(2), 5)),
            "waits for a place under the global limit: 2 of 2 are taken",
        ),
        (
            GateName::KeyLimit,
            |f| (f.state, f.key) = (JobState::Held, Some(place("tenant-7", Some(1), 1))),
            "waits for a place in limit key tenant-7: 1 of 1 is taken",
        ),
        (GateName::Node, |f| f.nodes.clear(), "no live node runs jobs"),
        (GateName::Node, |f| f.nodes[0].live = false, "no live node runs jobs"),
        (
            GateName::Node,
            |f| f.nodes[0].drains = true,
            "only web-1 could run kind import on route main, and drains",
        ),
        (GateName::Node, |f| f.route = Some("gpu".into()), "web-1 serves main and knows import"),
        (GateName::Node, |f| f.kind = "export".into(), "no live node runs kind export on route main"),
        (
            GateName::Node,
            |f| (f.state, f.unknown_kind) = (JobState::Parked, true),
            "queues it again with its next heartbeat",
        ),
        (
            GateName::Taken,
            |f| {
                (f.state, f.node) = (JobState::Running, Some((7, Some("web-2".into()))));
                f.claimed_at = Some(at(-60));
            },
            "is being run by web-2 since 2025-12-31T23:59:00Z (1m ago)",
        ),
        (
            GateName::DeadLetter,
            |f| {
                f.state = JobState::Dead;
                f.dead =
                    Some(DeadFacts { letter: 9, reason: DeadReason::RetriesUsedUp, acknowledged: false });
            },
            "dead letter 9 must be revived or acknowledged",
        ),
    ];
    assert_eq!(closed(&explain_job(&job())), []);
    for (gate, change, words) in cases {
        let mut facts = job();
        change(&mut facts);
        let explanation = explain_job(&facts);
        assert_eq!(closed(&explanation), [*gate], "{explanation:#?}");
        assert!(explanation.verdict.contains(words), "{words:?} in {:?}", explanation.verdict);
    }
}

#[test]
fn a_verdict_always_says_that_no_node_runs_the_kind() {
    let mut facts = job();
    (facts.state, facts.due_at) = (JobState::Scheduled, at(60));
    facts.nodes[0].kinds = Some(Vec::new());
    let verdict = explain_job(&facts).verdict;
    assert!(
        verdict.starts_with("is due at 2026-01-01T00:01:00Z (in 1m); also, no live node runs"),
        "{verdict}"
    );
    assert!(verdict.ends_with("web-1 serves main and knows no kinds"), "{verdict}");
    let mut facts = manifest();
    facts.next_due_at = Some(at(60));
    facts.nodes.clear();
    let verdict = explain_manifest(&facts).verdict;
    assert!(verdict.contains("; also, no live node runs jobs"), "{verdict}");
}

#[test]
fn a_running_job_that_shall_stop_says_so_first() {
    let mut facts = job();
    (facts.state, facts.node) = (JobState::Running, Some((7, None)));
    facts.cancel_requested_at = Some(at(-1));
    let explanation = explain_job(&facts);
    assert_eq!(closed(&explanation), [GateName::Cancel, GateName::Taken]);
    assert!(explanation.verdict.contains("cancellation was requested"), "{}", explanation.verdict);
}

#[test]
fn who_fills_a_limit_is_named_with_their_nodes() {
    let facts = JobFacts { group: Some(place("etl", Some(2), 2)), ..job() };
    let explanation = explain_job(&facts);
    let gate = explanation.gates.iter().find(|gate| gate.name == GateName::GroupLimit).unwrap();
    let way = |id: &str| Blocker { what: "job", id: id.into(), node: Some("web-1".into()) };
    assert_eq!(gate.blockers, [way("0"), way("1")]);
}

#[test]
fn a_job_that_is_over_says_how_it_ended() {
    let over = |state, outcome, node: Option<i64>, error: Option<&str>| {
        let node = node.map(|id| (id, Some("web-1".to_owned())));
        let last_error = error.map(str::to_owned);
        explain_job(&JobFacts { state, outcome, node, last_error, finished_at: Some(at(-2)), ..job() })
    };
    for (explanation, words) in [
        (
            over(JobState::Completed, Some(ExecutionOutcome::Completed), Some(1), None),
            "completed on web-1 at 2025",
        ),
        (
            over(JobState::Cancelled, Some(ExecutionOutcome::Cancelled), None, None),
            "cancelled while it waited",
        ),
        (
            over(JobState::Cancelled, Some(ExecutionOutcome::Failed), Some(1), Some("told to stop")),
            "its last claim ended as failed: told to stop",
        ),
    ] {
        assert!(explanation.gates.iter().all(|gate| gate.open.is_none()));
        assert!(explanation.verdict.contains(words), "{words:?} in {:?}", explanation.verdict);
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A manifest that is due now, with all gates open.
fn manifest() -> ManifestFacts {
    let every = Schedule::every(Duration::from_secs(3_600)).unwrap();
    ManifestFacts {
        now: at(0),
        manifest: Manifest::new(name("nightly"), name("import"), every),
        route: "main".into(),
        submitter: None,
        held: false,
        next_due_at: Some(at(0)),
        live: Vec::new(),
        dead_letters: Vec::new(),
        parents: Vec::new(),
        group: Some(place("etl", Some(4), 1)),
        global: Some(place("*", None, 0)),
        nodes: vec![node()],
    }
}

fn after(facts: &mut ManifestFacts, need: Need, arrived: &[(&str, bool)]) {
    let parents = arrived.iter().map(|(key, _)| name(key)).collect();
    facts.manifest.schedule = Schedule::after(parents, need).unwrap();
    let parent = |(key, arrived): &(&str, bool)| ParentFacts { key: (*key).into(), arrived: *arrived };
    (facts.parents, facts.next_due_at) = (arrived.iter().map(parent).collect(), None);
}

fn live(facts: &mut ManifestFacts, overlap: Overlap, fresh: bool) {
    facts.manifest.overlap = Some(overlap);
    facts.live = vec![LiveJob { job: 12, fresh, state: JobState::Running, node: Some("web-1".into()) }];
}

#[test]
fn each_fact_closes_its_own_gate_of_a_manifest_and_no_other() {
    type Case = (GateName, fn(&mut ManifestFacts), &'static str);
    let cases: &[Case] = &[
        (GateName::Enabled, |f| f.manifest.enabled = false, "is paused"),
        (GateName::GroupEnabled, |f| f.group.as_mut().unwrap().enabled = false, "etl is switched off"),
        (
            GateName::GlobalEnabled,
            |f| f.global.as_mut().unwrap().enabled = false,
            "everything is switched off",
        ),
        (GateName::DeadLetter, |f| (f.held, f.dead_letters) = (true, vec![4]), "looked at dead letter 4"),
        (
            GateName::Dependency,
            |f| after(f, Need::All, &[("a", true), ("b", false)]),
            "waits for b; in this round a completed",
        ),
        (
            GateName::Dependency,
            |f| after(f, Need::Any, &[("a", false), ("b", false)]),
            "waits for the next completion of a or b",
        ),
        (
            GateName::Exclusion,
            |f| f.manifest.exclude = serde_json::from_str(r#"[{"weekdays":["thu"]}]"#).unwrap(),
            r#"is excluded by exclude[0] {"weekdays":["thu"]}; the next that fires is 2026-01-02T00:00:00Z (in 1d)"#,
        ),
        (GateName::Due, |f| f.next_due_at = Some(at(60)), "waits for its next tick at 2026-01-01T00:01:00Z"),
        (GateName::Due, |f| f.next_due_at = None, "no further tick"),
        (GateName::Overlap, |f| live(f, Overlap::Skip, false), "job 12 (running) is not over"),
        (GateName::Overlap, |f| live(f, Overlap::QueueOne, true), "job 12 (running) is queued already"),
        (GateName::GroupLimit, |f| f.group = Some(place("etl", Some(1), 1)), "1 of 1 is taken"),
        (GateName::GlobalLimit, |f| f.global = Some(place("*", Some(3), 3)), "3 of 3 are taken"),
        (GateName::Node, |f| f.nodes.clear(), "no live node"),
    ];
    assert_eq!(closed(&explain_manifest(&manifest())), []);
    for (gate, change, words) in cases {
        let mut facts = manifest();
        change(&mut facts);
        let explanation = explain_manifest(&facts);
        assert_eq!(closed(&explanation), [*gate], "{explanation:#?}");
        assert!(explanation.verdict.contains(words), "{words:?} in {:?}", explanation.verdict);
    }
    for (overlap, fresh) in [(Overlap::Allow, true), (Overlap::QueueOne, false), (Overlap::Cancel, false)] {
        let mut facts = manifest();
        live(&mut facts, overlap, fresh);
        assert_eq!(closed(&explain_manifest(&facts)), [], "{overlap}");
    }
}

/// A job for a submitter, and a node that has it.
fn submitted() -> JobFacts {
    let billing = SubmitterFacts {
        name: "billing".into(),
        state: "ready".into(),
        detail: None,
        retry_at: None,
        takes: true,
        free: 16,
    };
    let has = NodeFacts { routes: vec!["billing".into()], submitters: vec![billing], ..node() };
    let (route, submitter) = (Some("billing".into()), Some("push https://billing.internal/jobs".into()));
    JobFacts { kind: "invoice".into(), route, submitter, nodes: vec![has], ..job() }
}

#[test]
fn a_job_for_a_submitter_waits_for_a_node_that_has_it_and_for_its_breaker() {
    let facts = submitted();
    assert_eq!(closed(&explain_job(&facts)), [], "its node need not know the kind");
    type Case = (GateName, fn(&mut JobFacts), &'static [&'static str]);
    let cases: &[Case] = &[
        (
            GateName::Node,
            |f| f.nodes = vec![node()],
            &[
                "no live node has submitter billing (push https://billing.internal/jobs)",
                "start a node with this submitter",
            ],
        ),
        (GateName::Node, |f| f.nodes[0].live = false, &["no live node has submitter billing"]),
        (GateName::Node, |f| f.nodes[0].drains = true, &["only web-1 could run kind invoice", "node resume"]),
        (
            GateName::Submitter,
            |f| {
                let billing = &mut f.nodes[0].submitters[0];
                (billing.takes, billing.state) = (false, "breaker open".into());
                (billing.detail, billing.retry_at) = (Some("5 failures in a row".into()), Some(at(12)));
            },
            &[
                "submitter billing takes no jobs from web-1: breaker open (5 failures in a row)",
                "tries again at 2026-01-01T00:00:12Z (in 12s)",
                "check that push https://billing.internal/jobs answers",
            ],
        ),
    ];
    for (gate, change, words) in cases {
        let mut facts = submitted();
        change(&mut facts);
        let explanation = explain_job(&facts);
        assert_eq!(closed(&explanation), [*gate], "{explanation:#?}");
        for part in *words {
            assert!(explanation.verdict.contains(part), "{part:?} in {:?}", explanation.verdict);
        }
    }
    let mut facts = submitted();
    facts.nodes.push(NodeFacts { name: "web-2".into(), ..facts.nodes[0].clone() });
    facts.nodes[0].submitters[0].takes = false;
    assert_eq!(closed(&explain_job(&facts)), [], "web-2 hands jobs over");
}

#[test]
fn a_job_that_is_pulled_waits_for_a_live_worker_of_its_kind() {
    let (routes, kinds) = (vec!["pull.thumb".into()], Some(vec!["thumb".into()]));
    let worker = NodeFacts { name: "mailer".into(), routes, kinds, ..node() };
    let pulled = |nodes| JobFacts { kind: "thumb".into(), route: Some("pull.thumb".into()), nodes, ..job() };
    let explanation = explain_job(&pulled(vec![worker.clone()]));
    assert_eq!(closed(&explanation), []);
    let gate = explanation.gates.iter().find(|gate| gate.name == GateName::Node).unwrap();
    assert_eq!(gate.why, "worker mailer pulls kind thumb");
    let gone = NodeFacts { live: false, seen_at: at(-300), ..worker };
    for (nodes, words) in [
        (
            vec![],
            "no worker for kind thumb: no live worker pulls it; start a remote worker that asks for this kind",
        ),
        (
            vec![gone],
            "no worker for kind thumb: mailer was the last one, heard of at 2025-12-31T23:55:00Z (5m ago); start",
        ),
    ] {
        let explanation = explain_job(&pulled(nodes));
        assert_eq!(closed(&explanation), [GateName::Node]);
        assert!(explanation.verdict.contains(words), "{words:?} in {:?}", explanation.verdict);
    }
}

#[test]
fn an_accepted_job_names_its_submitter_and_what_happens_next() {
    let facts = JobFacts {
        state: JobState::Running,
        node: Some((7, Some("billing".into()))),
        holder: HolderRole::Submitter,
        external_id: Some("inv-41".into()),
        claimed_at: Some(at(-60)),
        lease_ends_at: Some(at(600)),
        ..job()
    };
    let said = "is with submitter billing as inv-41 since 2025-12-31T23:59:00Z (1m ago); it reports before 2026-01-01T00:10:00Z (in 10m), or the job is sent again";
    assert_eq!(explain_job(&facts).verdict, said);
    let pulled = JobFacts { holder: HolderRole::Worker, ..facts };
    assert!(explain_job(&pulled).verdict.starts_with("is being run by worker billing since"));
}
