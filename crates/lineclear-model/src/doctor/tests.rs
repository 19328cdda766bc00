//! The result of each check for given facts.

use super::*;
use crate::Micros;
use crate::explain::GateName;

fn at(seconds: i64) -> Micros {
    Micros::EPOCH.offset(seconds * 1_000_000)
}

fn node(name: &str, seen: i64) -> NodeState {
    NodeState {
        id: 1,
        name: name.to_owned(),
        host: "h".to_owned(),
        version: "1".to_owned(),
        roles: ["planner", "dispatcher", "workers", "cleaner"].map(str::to_owned).to_vec(),
        slots: 4,
        live: seen > 970,
        drains: false,
        seen_at: at(seen),
        failing: Vec::new(),
        blocked_submitters: Vec::new(),
        abandoned: 0,
    }
}

fn leader(renewed: i64) -> Leader {
    Leader {
        node: "a".to_owned(),
        machine: "h".to_owned(),
        pid: 7,
        since: at(100),
        renewed_at: at(renewed),
        renew_ms: 10_000,
        released_at: None,
    }
}

/// The facts of a healthy cluster, at second 1000.
fn well() -> HealthFacts {
    HealthFacts {
        now: at(1000),
        count_max: 10_000,
        waiting: 0,
        due: 0,
        running: 0,
        dead_letters: 0,
        oldest_due_at: None,
        trouble: Trouble { has_ticks: true, ..Trouble::default() },
        nodes: vec![node("a", 995), node("b", 999)],
        workers: 0,
        worker_slots: 0,
        leader: Some(leader(995)),
        overdue: Vec::new(),
        not_checked: NotChecked::default(),
    }
}

fn judged(facts: &HealthFacts) -> Vec<Check> {
    let access =
        vec![tokens(facts.now, &[("ci".to_owned(), None), ("bot".to_owned(), Some(at(100 * 86_400)))])];
    [nodes(facts), work(facts), manifests(facts, &ManifestHealth::default()), access].concat()
}

/// The result of one check, and its sentence.
fn found(facts: &HealthFacts, name: CheckName) -> (Finding, String) {
    let check = judged(facts).into_iter().find(|check| check.check == name).unwrap();
    assert_eq!(check.remedy.is_some(), check.is_trouble(), "{check:?}");
    (check.finding, check.message)
}

#[test]
fn what_is_well_is_said_of_every_check_once() {
    let checks = judged(&well());
    assert!(checks.iter().all(|check| check.finding == Finding::Ok), "{checks:#?}");
    let names: std::collections::BTreeSet<_> = checks.iter().map(|check| check.check).collect();
    assert_eq!(names.len(), checks.len());
    let of_groups = CheckName::ALL.iter().filter(|name| name.group() >= Group::Nodes);
    assert_eq!(of_groups.count(), checks.len());
}

#[test]
fn a_token_that_expires_soon_is_a_warning() {
    let end = |name: &str, days: i64| (name.to_owned(), Some(at(1000 + days * 86_400)));
    let check =
        tokens(at(1000), &[end("later", 15), end("second", 14), end("first", 2), ("never".to_owned(), None)]);
    assert_eq!((check.finding, check.remedy.is_some()), (Finding::Warning, true));
    assert_eq!(check.message, "2 tokens expire within 14 days: first (in 2d), second (in 14d)");
}

#[test]
fn no_live_node_is_a_failure_only_if_there_is_work() {
    let mut facts = well();
    facts.nodes = vec![node("a", 900)];
    let (finding, message) = found(&facts, CheckName::Alive);
    assert_eq!(finding, Finding::Failure);
    assert!(message.contains("a was heard of last, 1m40s ago"), "{message}");
    facts.trouble.has_ticks = false;
    assert_eq!(found(&facts, CheckName::Alive).0, Finding::Warning);
    facts.waiting = 1;
    assert_eq!(found(&facts, CheckName::Alive).0, Finding::Failure);
    facts.nodes.clear();
    assert!(found(&facts, CheckName::Alive).1.contains("none was ever started"));
    facts.nodes = vec![NodeState { roles: vec!["planner".to_owned()], ..node("a", 999) }];
    let (finding, message) = found(&facts, CheckName::Alive);
    assert_eq!(
        (finding, message.as_str()),
        (Finding::Failure, "1 node is alive, and none of them runs jobs")
    );
}

#[test]
fn nodes_that_all_drain_are_told_from_nodes_that_are_not_there() {
    let mut facts = well();
    facts.nodes =
        vec![NodeState { drains: true, ..node("a", 999) }, NodeState { drains: true, ..node("b", 999) }];
    facts.trouble.has_ticks = true;
    let (finding, message) = found(&facts, CheckName::Alive);
    assert_eq!(
        (finding, message.as_str()),
        (Finding::Failure, "2 nodes are alive, and all that run jobs drain")
    );
    let (finding, message) = found(&facts, CheckName::Leader);
    assert_eq!(
        (finding, message.as_str()),
        (Finding::Failure, "all nodes that plan drain, so manifests make no jobs")
    );
    facts.nodes[1].drains = false;
    let (finding, message) = found(&facts, CheckName::Alive);
    assert_eq!((finding, message.as_str()), (Finding::Ok, "2 nodes are alive, with 4 slots"));
}

#[test]
fn a_leader_is_missed_only_where_manifests_are_late() {
    let mut facts = well();
    facts.leader = Some(leader(900));
    let (finding, message) = found(&facts, CheckName::Leader);
    assert_eq!(finding, Finding::Ok, "{message}");
    assert!(message.contains("went silent 1m40s ago"), "{message}");
    facts.trouble.late = 1;
    facts.trouble.late_since = Some(at(880));
    assert_eq!(found(&facts, CheckName::Leader).0, Finding::Failure);
    let (finding, message) = found(&facts, CheckName::Late);
    assert_eq!(
        (finding, message.as_str()),
        (Finding::Failure, "1 manifest was due and not planned, the first 2m ago")
    );
    facts.leader = None;
    assert_eq!(found(&facts, CheckName::Leader).0, Finding::Failure);
    facts.trouble.late = 0;
    assert_eq!(found(&facts, CheckName::Leader).0, Finding::Ok);
    for node in &mut facts.nodes {
        node.roles = vec!["workers".to_owned()];
    }
    assert_eq!(
        found(&facts, CheckName::Leader).0,
        Finding::Failure,
        "manifests have ticks, and no node plans"
    );
}

#[test]
fn a_node_is_lost_if_it_went_with_jobs_in_hand() {
    let mut facts = well();
    facts.nodes.push(node("c", 100));
    assert_eq!(found(&facts, CheckName::Lost).0, Finding::Ok);
    facts.nodes[2].abandoned = 2;
    let (finding, message) = found(&facts, CheckName::Lost);
    assert_eq!(finding, Finding::Failure);
    assert!(message.contains("c (silent for 15m, holds 2 jobs)"), "{message}");
    facts.nodes[1].version = "2".to_owned();
    assert_eq!(found(&facts, CheckName::Versions).0, Finding::Warning);
    facts.nodes[2].version = "3".to_owned();
    assert!(!found(&facts, CheckName::Versions).1.contains('3'), "it is not alive");
    facts.nodes[0].failing.push(("planner".to_owned(), "no".to_owned()));
    assert_eq!(
        found(&facts, CheckName::Runners),
        (Finding::Warning, "the last pass failed: planner of a: no".to_owned())
    );
}

#[test]
fn the_gate_that_blocks_most_of_the_overdue_jobs_is_named() {
    let job = |job, gate| Overdue {
        job,
        due_at: at(900 + job),
        gate,
        why: "because".to_owned(),
        free: 1,
        moves: false,
    };
    let mut facts = well();
    facts.overdue =
        vec![job(1, Some(GateName::KeyLimit)), job(2, Some(GateName::Node)), job(3, Some(GateName::Node))];
    let (finding, message) = found(&facts, CheckName::Overdue);
    assert_eq!(finding, Finding::Failure);
    assert!(message.contains("`node` blocks 2 of the 3") && message.contains("job 2: because"), "{message}");
    assert!(message.contains("waited for 1m39s"), "{message}");
    // A job that no node can run is worse than jobs that a limit holds.
    facts.overdue = vec![
        job(1, Some(GateName::KeyLimit)),
        job(2, Some(GateName::Node)),
        job(3, Some(GateName::KeyLimit)),
    ];
    let (finding, message) = found(&facts, CheckName::Overdue);
    assert_eq!(finding, Finding::Failure);
    assert!(
        message.contains("`key_limit` blocks 2 of the 3") && message.ends_with("and the gate `node` 1"),
        "{message}"
    );
    facts.overdue.truncate(1);
    assert_eq!(found(&facts, CheckName::Overdue).0, Finding::Warning, "an operator chose the limit");
    facts.overdue = vec![job(1, None)];
    assert_eq!(
        found(&facts, CheckName::Overdue).0,
        Finding::Failure,
        "slots are free, and no node claims it"
    );
    facts.overdue[0].free = 0;
    assert_eq!(found(&facts, CheckName::Overdue).0, Finding::Warning, "all slots are taken");
}

#[test]
fn a_line_that_gets_on_is_no_failure_and_one_that_does_not_is_not_hidden_by_others() {
    let job = |job, gate| Overdue {
        job,
        due_at: at(900 + job),
        gate,
        why: "because".to_owned(),
        free: 1,
        moves: true,
    };
    let mut facts = well();
    facts.overdue = vec![job(1, None)];
    let (finding, message) = found(&facts, CheckName::Overdue);
    assert_eq!(finding, Finding::Warning, "one slot is free between two jobs of a busy line");
    assert!(message.ends_with("its queue moves: more jobs arrive than are done"), "{message}");
    facts.overdue = vec![job(1, Some(GateName::KeyLimit)), job(2, Some(GateName::KeyLimit)), job(3, None)];
    assert_eq!(found(&facts, CheckName::Overdue).0, Finding::Warning);
    facts.overdue[2].moves = false;
    let (finding, message) = found(&facts, CheckName::Overdue);
    assert_eq!(finding, Finding::Failure);
    assert!(
        message.contains("nothing blocks 1 of the 3 that were checked, 1 free slot, and no node dispatches"),
        "{message}"
    );
}

#[test]
fn what_could_not_be_looked_at_in_time_is_said_of_each_check_that_needs_it() {
    let mut facts = well();
    facts.not_checked = NotChecked { trouble: Some("slow".to_owned()), overdue: None };
    let unseen = |facts: &HealthFacts| -> Vec<CheckName> {
        let checks =
            judged(facts).into_iter().filter(|check| check.message == "could not be checked in time: slow");
        checks.map(|check| check.check).collect()
    };
    assert_eq!(unseen(&facts), [CheckName::Leader, CheckName::Leases, CheckName::Kinds, CheckName::Late]);
    facts.not_checked = NotChecked { trouble: None, overdue: Some("slow".to_owned()) };
    assert_eq!(unseen(&facts), [CheckName::Overdue]);
    assert!(is_healthy(&judged(&facts)), "to be slow is not to be broken");
}

#[test]
fn what_is_left_lying_is_counted_up_to_the_bound() {
    let mut facts = well();
    facts.trouble.leases_over = 10_000;
    facts.trouble.lease_over_at = Some(at(940));
    let (finding, message) = found(&facts, CheckName::Leases);
    assert_eq!(finding, Finding::Failure);
    assert!(message.starts_with("10000 or more jobs with an expired lease"), "{message}");
    facts.trouble.unknown = 1;
    facts.trouble.unknown_kinds = vec!["mail".to_owned()];
    assert_eq!(found(&facts, CheckName::Kinds).0, Finding::Failure);
    facts.dead_letters = 1;
    facts.trouble.dead_at = Some(at(0));
    assert_eq!(
        found(&facts, CheckName::DeadLetters),
        (Finding::Warning, "1 dead letter waits for a person, the oldest for 16m40s".to_owned())
    );
    assert!(!is_healthy(&judged(&facts)));
}

#[test]
fn manifests_that_make_no_jobs_are_named() {
    let orders_of = |never: usize, unreadable: usize| {
        let named = |n: usize| (0..n).map(|n| (format!("m{n}"), "why".to_owned())).collect();
        ManifestHealth {
            looked_at: 9,
            more: true,
            never: named(never),
            unsure: 3,
            unreadable: named(unreadable),
        }
    };
    let checks = manifests(&well(), &orders_of(7, 1));
    assert_eq!(checks[1].finding, Finding::Warning);
    assert!(
        checks[1].message.contains("m4 (why) and 2 more; 3 others with exclusions could not"),
        "{}",
        checks[1].message
    );
    assert_eq!(checks[2].finding, Finding::Failure);
    assert!(checks[2].message.contains("newest 9"), "{}", checks[2].message);
}

#[test]
fn remote_workers_are_counted_beside_the_nodes() {
    let mut facts = well();
    facts.nodes = vec![NodeState { roles: vec!["planner".to_owned()], ..node("a", 999) }];
    (facts.workers, facts.worker_slots) = (2, 40);
    let (finding, message) = found(&facts, CheckName::Alive);
    let said = "1 node is alive, with 0 slots; and 2 remote workers, with 40 slots";
    assert_eq!((finding, message.as_str()), (Finding::Ok, said));
}

#[test]
fn a_submitter_that_takes_no_jobs_is_a_warning_and_names_its_node() {
    let mut facts = well();
    assert_eq!(found(&facts, CheckName::Submitters).0, Finding::Ok);
    let blocked = vec![("billing".to_owned(), "breaker open: connection refused".to_owned())];
    facts.nodes = vec![NodeState { blocked_submitters: blocked, ..node("a", 999) }];
    let (finding, message) = found(&facts, CheckName::Submitters);
    let said = "takes no jobs now: billing on a (breaker open: connection refused)";
    assert_eq!((finding, message.as_str()), (Finding::Warning, said));
    facts.nodes[0].live = false;
    assert_eq!(
        found(&facts, CheckName::Submitters).0,
        Finding::Ok,
        "what a node said that is gone does not count"
    );
}
