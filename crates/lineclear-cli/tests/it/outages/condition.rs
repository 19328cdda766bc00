//! PostgreSQL is read-only, frozen, behind a silent network, locked or gone: probes, commands and pages say so within seconds.

use std::time::{Duration, Instant};

use lineclear_testkit::Proxy;

use super::{Node, client, postgres};
use crate::commands::serve::ask;
use crate::run::at;

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_postgres_is_named_by_probe_status_doctor_and_page() {
    let server = postgres().await;
    let node = Node::start(&server.url()).await;
    let admin = client(&server).await;
    let set = async |value: &str| {
        admin
            .execute(&format!("alter system set default_transaction_read_only = {value}"), &[])
            .await
            .unwrap();
        admin.execute("select pg_reload_conf()", &[]).await.unwrap();
    };
    set("on").await;
    node.expect_named("read_only", "is read-only", false).await;
    let direct = at(&node.dir, &["status", "--db", &server.url()]);
    assert!(direct.out.contains("is read-only"), "without a server, too: {} {}", direct.out, direct.err);
    let refused = ask(&node.address, "POST /api/v1/jobs", r#"{"kind": "a"}"#);
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("the database is read-only"),
        "{refused}"
    );
    set("off").await;
    node.expect_healthy().await;
    node.expect_lines("the database is read-only");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_postgres_is_named_as_silent() {
    let server = postgres().await;
    let node = Node::start(&server.url()).await;
    server.freeze();
    node.expect_named("silent", "does not answer in time", true).await;
    server.thaw();
    node.expect_healthy().await;
    node.expect_lines("database lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_network_is_named_within_seconds_and_costs_no_minute() {
    let server = postgres().await;
    let proxy = Proxy::to_url(&server.url()).await.unwrap();
    let node = Node::start(&proxy.url_for(&server.url())).await;
    proxy.silence();
    node.expect_named("silent", "does not answer in time", true).await;
    proxy.heal();
    node.expect_healthy().await;
    node.expect_lines("database lost");
}

/// No loop of an idle node reads or writes this table.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_is_named_with_the_session_that_holds_it() {
    let server = postgres().await;
    let node = Node::start(&server.url()).await;
    let holder = client(&server).await;
    holder.batch_execute("begin; lock table lineclear.dead_letter in access exclusive mode").await.unwrap();
    node.until_ready("is locked by another session").await;
    let doctor = node.run(&["doctor"]);
    let check = doctor.out.lines().find(|line| line.contains("\tcondition\t")).unwrap();
    assert!(check.contains("dead_letter is locked by process "), "{check}");
    holder.batch_execute("rollback").await.unwrap();
    node.expect_healthy().await;
    node.expect_lines("the database is locked by another session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_is_gone_is_named_and_its_return_is_noticed() {
    let mut server = postgres().await;
    let node = Node::start(&server.url()).await;
    server.stop();
    node.expect_named("unreachable", "cannot be reached", true).await;
    server.start_again().await.unwrap();
    node.expect_healthy().await;
    node.expect_lines("database lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_waits_for_a_row_locks_no_table() {
    let server = postgres().await;
    let node = Node::start(&server.url()).await;
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let lock = "select from lineclear.migration where number = 1 for update";
    holder.batch_execute(&format!("begin; {lock}")).await.unwrap();
    let waiting = tokio::spawn(async move { waiter.batch_execute(&format!("begin; {lock}")).await });
    // Longer than a lock must last to count, and than the pause between two looks.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        let answer = node.ask("GET /readyz");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!waiting.is_finished(), "it waited all the time");
    holder.batch_execute("rollback").await.unwrap();
    waiting.await.unwrap().unwrap();
}
