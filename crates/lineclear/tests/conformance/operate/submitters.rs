//! Remote workers and submitters have rows among the nodes: what operators see of them, and who counts them.

use lineclear::model::explain::{Explanation, GateName, HolderRole};
use lineclear::model::{Manifest, Schedule};
use lineclear::store::{About, Dispatch, JobId, NewJob, NodeId, NodeInfo, Retention};

use crate::kit::{TestDb, lease, name, payload};

const TARGET: &str = "push https://billing.internal/jobs";

/// A row of `node`.
async fn beat(db: &TestDb, label: &str, role: &str, route: &str, runners: &str) -> NodeId {
    let (roles, routes) = (format!(r#"["{role}"]"#), format!(r#"["main","{route}"]"#));
    let routes = if role == "workers" { routes } else { format!(r#"["{route}"]"#) };
    let kinds = if role == "workers" { r#"["work"]"# } else { r#"["invoice"]"# };
    let node = NodeInfo {
        name: label.to_owned(),
        host: if role == "submitter" { TARGET } else { "test" }.to_owned(),
        pid: 1,
        incarnation: if role == "workers" { label.to_owned() } else { format!("{role}:{label}") },
        version: "0".to_owned(),
        roles,
        routes,
        kinds: kinds.to_owned(),
        slots: if role == "submitter" { 0 } else { 4 },
        runners: runners.to_owned(),
    };
    db.store.heartbeat(node).await.unwrap().id
}

/// A job of kind `invoice`, whose jobs take this route.
async fn routed(db: &TestDb, route: &str) -> JobId {
    db.store.route_kinds(&[(name("invoice"), name(route))]).await.unwrap();
    db.enqueue(NewJob::new(name("invoice"), payload("{}"))).await
}

fn closed(explanation: &Explanation) -> Vec<GateName> {
    explanation.gates.iter().filter(|gate| gate.open == Some(false)).map(|gate| gate.name).collect()
}

async fn explained(db: &TestDb, id: JobId, gates: &[GateName], words: &str) {
    let explanation = db.store.explain_job(id).await.unwrap().expect("it is there");
    assert_eq!(closed(&explanation), gates, "{explanation:#?}");
    assert!(explanation.verdict.contains(words), "{words:?} in {:?}", explanation.verdict);
}

fn report(capacity: u32, state: &str) -> String {
    format!(
        r#"{{"submitters":[{{"name":"billing","target":"{TARGET}","state":"{state}","detail":"connection refused","retry_in_ms":12000,"in_flight":1,"capacity":{capacity}}}]}}"#
    )
}

async fn named(db: &TestDb) -> Vec<String> {
    db.store.nodes(100).await.unwrap().into_iter().map(|node| node.name).collect()
}

conformance! {
    pgbouncer async fn a_job_that_is_pulled_waits_for_a_live_worker_of_its_kind(db) {
        db.node("web-1").await;
        let id = routed(db, "pull.invoice").await;
        explained(db, id, &[GateName::Node], "no worker for kind invoice: no live worker pulls it; start a remote worker").await;
        beat(db, "other", "worker", "pull.other", "{}").await;
        explained(db, id, &[GateName::Node], "no live worker pulls it").await;
        let worker = beat(db, "mailer", "worker", "pull.invoice", "{}").await;
        explained(db, id, &[], "mailer has a free slot").await;
        let manifest = Manifest::new(name("monthly"), name("invoice"), Schedule::on_demand());
        db.declare(manifest).await;
        let manifest = db.store.explain_manifest(name("monthly")).await.unwrap().unwrap();
        assert_eq!(closed(&manifest), [], "its jobs take the route of their kind: {manifest:#?}");
        db.age("node", "seen_at", 300).await;
        db.node("web-1").await;
        explained(db, id, &[GateName::Node], "no worker for kind invoice: mailer was the last one, heard of at").await;
        let claim = db.store.dispatch_into_lease(Dispatch::new(name("pull.invoice"), 1), lease(worker)).await.unwrap();
        assert_eq!(claim.len(), 1);
        explained(db, id, &[GateName::Taken], "is being run by worker mailer since").await;
    }

    pgbouncer async fn a_job_for_a_submitter_waits_for_a_node_that_has_it_and_for_its_breaker(db) {
        db.node("web-1").await;
        let id = routed(db, "billing").await;
        let billing = beat(db, "billing", "submitter", "billing", "{}").await;
        explained(db, id, &[GateName::Node], &format!("no live node has submitter billing ({TARGET}), which gets kind invoice")).await;
        beat(db, "web-2", "workers", "billing", &report(16, "ready")).await;
        explained(db, id, &[], "web-2 has a free slot").await;
        beat(db, "web-2", "workers", "billing", &report(0, "breaker open")).await;
        explained(db, id, &[GateName::Submitter], "submitter billing takes no jobs from web-2: breaker open (connection refused); it tries again at").await;
        let facts = db.store.health_facts(5).await.unwrap();
        let web = facts.nodes.iter().find(|node| node.name == "web-2").unwrap();
        assert_eq!(web.blocked_submitters, [("billing".to_owned(), "breaker open: connection refused".to_owned())]);

        let claims = db.store.dispatch_into_lease(Dispatch::new(name("billing"), 1), lease(billing)).await.unwrap();
        db.sql(&format!("update {{t}}background_job set external_id = 'inv-41' where id = {}", claims[0].job)).await;
        explained(db, id, &[GateName::Taken], "is with submitter billing as inv-41 since").await;
        let detail = db.store.job(id).await.unwrap().unwrap();
        assert_eq!((detail.holder, detail.external_id.as_deref()), (HolderRole::Submitter, Some("inv-41")));
        assert_eq!(detail.job.node_name.as_deref(), Some("billing"));
        let submitters = db.store.submitters(10).await.unwrap();
        assert_eq!((submitters.len(), submitters[0].name.as_str(), submitters[0].target.as_str(), submitters[0].holds), (1, "billing", TARGET, 1));
    }

    pgbouncer async fn submitters_are_no_nodes_and_remote_workers_are_counted_beside_them(db) {
        beat(db, "web", "workers", "billing", "{}").await;
        beat(db, "mailer", "worker", "pull.invoice", "{}").await;
        beat(db, "billing", "submitter", "billing", "{}").await;
        assert_eq!(named(db).await, ["web", "mailer"], "nodes come first");
        let now = db.store.stat_now().await.unwrap();
        assert_eq!((now.nodes, now.workers, now.worker_slots), (1, 1, 4));
        let facts = db.store.health_facts(5).await.unwrap();
        let nodes: Vec<&str> = facts.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!((nodes, facts.workers, facts.worker_slots), (vec!["web"], 1, 4));
        db.age("node", "seen_at", 60).await;
        beat(db, "web", "workers", "billing", "{}").await;
        let facts = db.store.health_facts(5).await.unwrap();
        assert_eq!((facts.nodes.len(), facts.workers), (1, 0), "a worker that has gone is no dead node");
        let events = db.store.events(lineclear::model::Micros::EPOCH).await.unwrap();
        let nodes: Vec<&str> = events.items.iter().filter_map(|event| match &event.about {
            About::Node { name, .. } => Some(name.as_str()),
            _ => None,
        }).collect();
        assert!(nodes.contains(&"mailer") && !nodes.contains(&"billing"), "{nodes:?}");
    }

    pgbouncer async fn the_cleaner_keeps_submitters_that_nodes_have_or_that_hold_a_job(db) {
        for submitter in ["billing", "mail", "retired"] {
            beat(db, submitter, "submitter", submitter, "{}").await;
        }
        let id = routed(db, "mail").await;
        let mail = beat(db, "mail", "submitter", "mail", "{}").await;
        db.store.dispatch_into_lease(Dispatch::new(name("mail"), 1), lease(mail)).await.unwrap();
        db.node("gone").await;
        db.age("node", "seen_at", 400 * 86_400).await;
        beat(db, "web", "workers", "billing", "{}").await;
        while !db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing() {}
        let kept: Vec<String> = db.store.submitters(10).await.unwrap().into_iter().map(|submitter| submitter.name).collect();
        assert_eq!(kept, ["billing", "mail"]);
        assert_eq!(named(db).await, ["web"]);
        assert!(db.state(id).await.is_some());
    }

    async fn a_submitter_says_its_target_anew_with_each_start_of_a_node(db) {
        beat(db, "billing", "submitter", "billing", "{}").await;
        db.sql("update {t}node set host = 'push http://old', kinds = '[]'").await;
        beat(db, "billing", "submitter", "billing", "{}").await;
        assert_eq!(db.store.submitters(10).await.unwrap()[0].target, TARGET);
    }

    async fn many_remote_workers_hide_no_node(db) {
        beat(db, "web", "workers", "billing", "{}").await;
        let id = routed(db, "pull.invoice").await;
        beat(db, "mailer", "worker", "pull.invoice", "{}").await;
        let columns = "name, host, pid, incarnation, version, roles, routes, slots, runners, kinds, started_at, seen_at";
        let numbers = "with recursive n (n) as (select 1 union all select n + 1 from n where n < 1200)";
        let select = "select 'w' || n.n, host, pid, 'w' || n.n, version, roles, '[\"pull.other\"]', slots, runners, kinds, started_at, seen_at from n, {t}node m where m.name = 'mailer'";
        db.sql(&format!("{numbers} insert into {{t}}node ({columns}) {select}")).await;
        let nodes = db.store.nodes(1_000).await.unwrap();
        assert_eq!((nodes.len(), nodes[0].name.as_str()), (1_000, "web"));
        explained(db, id, &[], "mailer has a free slot").await;
        assert_eq!(db.store.health_facts(5).await.unwrap().workers, 1_201);
    }
}
