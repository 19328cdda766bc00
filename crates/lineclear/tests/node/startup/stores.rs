//! The ways to give a node its store, and what is shown of them.

use lineclear::model::JobState;
use lineclear::{Lineclear, Store, StoreOptions};

use crate::kit::{TestStore, until};

async fn nothing() {}

#[tokio::test]
async fn a_node_takes_a_url_or_options_or_a_store_that_is_open() {
    let db = TestStore::sqlite().await;
    let options = StoreOptions::new(&db.url).unwrap();
    let store = Store::open(options.clone()).await.unwrap();
    let in_memory = Store::open(StoreOptions::new(":memory:").unwrap()).await.unwrap();
    for builder in [
        Lineclear::builder().store(db.url.as_str()),
        Lineclear::builder().store(db.url.clone()),
        Lineclear::builder().store(options),
        Lineclear::builder().store(store),
        Lineclear::builder().store(&in_memory),
    ] {
        let node = builder.kind("nothing", nothing).start().await.unwrap();
        let job = node.enqueue("nothing", &()).await.unwrap().id;
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        node.stop().await;
    }
    assert_eq!(
        in_memory.jobs(&Default::default(), None, 10).await.unwrap().items.len(),
        1,
        "it was this one"
    );
}

#[tokio::test]
async fn no_password_is_ever_shown() {
    let shown = |url: &str| format!("{:?}", Lineclear::builder().store(url).kind("nothing", nothing));
    let builder = shown("postgres://me:hunter2@db/app");
    assert!(builder.contains("PostgreSQL database app on db:5432"), "{builder}");
    assert!(builder.contains("nothing"), "{builder}");
    for url in [
        "postgres://me:hunter2@db/app",
        "postgres://me:hunter2@db:nonsense/app",
        "postgres://db/app?password=hunter2&user=me",
        "mysql://me:hunter2@db/app",
    ] {
        assert!(!shown(url).contains("hunter2"), "{}", shown(url));
        let failed = Lineclear::builder().store(url).start().await.unwrap_err();
        assert!(!format!("{failed} {failed:?}").contains("hunter2"), "{failed:?}");
    }

    let db = TestStore::postgres().await;
    let url = db.url.replacen("postgres@", "postgres:hunter2@", 1);
    assert!(url.contains("hunter2"), "{url}");
    let node = Lineclear::builder().store(&url).start().await.unwrap();
    let all = format!("{node:?} {:?} {:?}", node.store(), node.client());
    assert!(all.contains("PostgreSQL database") && !all.contains("hunter2"), "{all}");
    node.stop().await;
}
