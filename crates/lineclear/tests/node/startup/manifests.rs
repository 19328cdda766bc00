//! What a program declares when it starts: manifests from code and files, groups, owners and releases.

use std::sync::{Arc, Mutex};

use lineclear::model::{GroupSpec, Manifest, Schedule, ScheduleFields};
use lineclear::store::{Prune, TriggerOptions};
use lineclear::{Dependents, Done, HandlerError, Input, Lineclear, Node, Parents, State};

use crate::kit::{TestStore, name, quick, until};

const FILE: &str = r#"
[group.etl]
limit = 4

[[manifest]]
key = "nightly"
kind = "load"
group = "etl"
schedule = { cron = "30 2 * * *" }
"#;

fn on_demand(key: &str) -> Manifest {
    Manifest::new(name(key), name("load"), Schedule::on_demand())
}

async fn keys(node: &Node) -> Vec<String> {
    let views = node.store().manifests(None, 10).await.unwrap().items;
    views.iter().map(|view| view.key.to_string()).collect()
}

async fn limits(node: &Node) -> Vec<(String, Option<u32>)> {
    let views = node.store().groups(None, 10).await.unwrap().items;
    views.into_iter().map(|view| (view.name, view.limit)).collect()
}

async fn files_and_code_declare_together(db: &TestStore) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.toml");
    std::fs::write(&path, FILE).unwrap();
    let start = || Lineclear::builder().store(&db.url).options(quick()).owner("billing").prune(Prune::All);
    let node = start()
        .release(2)
        .manifests_from(&path)
        .manifest(on_demand("by-hand"))
        .group("web", GroupSpec { limit: Some(2), ..GroupSpec::default() })
        .global_limit(50)
        .start()
        .await
        .unwrap();
    assert_eq!(keys(&node).await, ["by-hand", "nightly"]);
    let limit = |name: &str, limit| (name.to_owned(), Some(limit));
    assert_eq!(limits(&node).await, [limit("*", 50), limit("etl", 4), limit("web", 2)]);
    node.stop().await;

    let older = start().release(1).manifest(on_demand("old")).start().await.unwrap();
    assert_eq!(keys(&older).await, ["by-hand", "nightly"], "it runs, and declares nothing");
    older.stop().await;
    let newer = start().release(3).manifests_from_text(FILE).start().await.unwrap();
    assert_eq!(keys(&newer).await, ["nightly"]);
    newer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_code_declare_together_on_sqlite() {
    files_and_code_declare_together(&TestStore::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_code_declare_together_on_postgres() {
    files_and_code_declare_together(&TestStore::postgres().await).await;
}

#[tokio::test]
async fn a_bad_file_is_refused_with_its_name_the_manifest_and_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.toml");
    let memory = || Lineclear::builder().store(":memory:");
    let refused =
        async |builder: lineclear::node::Builder| builder.start().await.expect_err("refused").to_string();
    for (from, to, says) in [
        ("30 2 * * *", "61 2 * * *", vec!["line 9", "nightly", "schedule", "61"]),
        ("kind = \"load\"", "kind = \"load\"\npriority = 99", vec!["line 8", "nightly", "priority"]),
        ("limit = 4", "limit = 0", vec!["group.etl.limit"]),
        ("kind = \"load\"", "kidn = \"load\"", vec!["nightly", "kidn"]),
    ] {
        std::fs::write(&path, FILE.replace(from, to)).unwrap();
        let error = refused(memory().manifests_from(&path)).await;
        assert!(error.contains("jobs.toml") && says.iter().all(|word| error.contains(word)), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(refused(memory().manifests_from(&path)).await.contains("jobs.toml"));
    let twice = memory().manifests_from_text(FILE).group("etl", GroupSpec::default());
    assert!(refused(twice).await.contains("option group: etl is given twice"));
    assert!(refused(memory().prune(Prune::All)).await.contains("needs an owner"));
    let twice = memory().manifests_from_text(FILE).manifest(on_demand("nightly"));
    assert!(refused(twice).await.contains("nightly was given twice"));
}

type Seen = Arc<Mutex<Vec<String>>>;

fn after(key: &str, parent: &str, dormant: bool) -> Manifest {
    let fields = ScheduleFields { after: Some(vec![name(parent)]), dormant, ..ScheduleFields::default() };
    Manifest::new(name(key), name(key), Schedule::new(fields).unwrap())
}

async fn handlers_reach_their_parents_and_dormant_dependents(db: &TestStore) {
    async fn load(dependents: Dependents) -> Result<Done<u32>, HandlerError> {
        for part in ["x", "y"] {
            dependents.activate("repair", part).await?;
        }
        assert!(dependents.activate("report", "x").await.is_err(), "not dormant");
        Ok(Done(2_000))
    }
    async fn report(parents: Parents, seen: State<Seen>) -> Result<(), HandlerError> {
        let rows: Option<u32> = parents.output("load").await?;
        assert!(parents.output::<String>("load").await.is_err(), "another type");
        assert!(parents.output::<u32>("repair").await.is_err(), "not a parent");
        seen.lock().unwrap().push(format!("report {rows:?}"));
        Ok(())
    }
    async fn repair(Input(part): Input<String>, seen: State<Seen>) {
        seen.lock().unwrap().push(format!("repair {part}"));
    }
    let seen = Seen::default();
    let node = Lineclear::builder()
        .store(&db.url)
        .options(quick())
        .state(seen.clone())
        .kind("load", load)
        .kind("report", report)
        .kind("repair", repair)
        .manifest(on_demand("load"))
        .manifest(after("report", "load", false))
        .manifest(after("repair", "load", true))
        .start()
        .await
        .unwrap();
    node.client().trigger(name("load"), TriggerOptions::default()).await.unwrap().unwrap();
    until("all have run", async || seen.lock().unwrap().len() == 3).await;
    let mut all = seen.lock().unwrap().clone();
    all.sort();
    assert_eq!(all, ["repair x", "repair y", "report Some(2000)"]);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_reach_their_parents_and_dormant_dependents_on_sqlite() {
    handlers_reach_their_parents_and_dormant_dependents(&TestStore::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_reach_their_parents_and_dormant_dependents_on_postgres() {
    handlers_reach_their_parents_and_dormant_dependents(&TestStore::postgres().await).await;
}
