//! What a runner on PostgreSQL reads does not grow with messages that are not ready, or belong to other outboxes.

use crate::kit::{TestStore, connect_postgres};

/// Messages of each kind that stand before those that are ready.
const OTHERS: u32 = 20_000;

/// The statement, the types of its parameters, their values, and the indexes that it may read.
const STATEMENTS: [(&str, &str, &str, &[&str]); 6] = [
    (
        include_str!("../../sql/postgres/outbox_waits.sql"),
        "text, bigint",
        "'main', 0",
        &["outbox_message_ready", "outbox_message_due"],
    ),
    (
        include_str!("../../sql/postgres/outbox_fetch.sql"),
        "text, bigint, bigint[], bigint",
        "'main', 0, '{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}', 1000",
        &["outbox_message_ready", "outbox_message_retrying"],
    ),
    (
        include_str!("../../sql/postgres/outbox_fetch_gaps.sql"),
        "text, bigint[], bigint[], bigint[], bigint",
        "'main', '{1, 50000}', '{40000, 60000}', '{7}', 1000",
        &["outbox_message_ready", "outbox_message_retrying"],
    ),
    (
        include_str!("../../sql/postgres/outbox_counts.sql"),
        "text, bigint",
        "'main', 1000",
        &["outbox_message_ready", "outbox_message_due", "outbox_message_dead"],
    ),
    (
        include_str!("../../sql/postgres/outbox_partition_numbers.sql"),
        "text, bigint",
        "'main', 63",
        &["outbox_message_ready", "outbox_message_due"],
    ),
    (
        include_str!("../../sql/postgres/outbox_partition_empty.sql"),
        "text[]",
        "'{main, main/0, main/1}'",
        &["outbox_message_ready", "outbox_message_due", "outbox_message_dead"],
    ),
];

#[tokio::test]
async fn a_runner_reads_ready_messages_by_their_index_wherever_they_stand() {
    let db = TestStore::postgres().await;
    drop(db.outbox().await);
    let client = connect_postgres(&db.url).await;
    let insert = |columns: &str, values: &str, count: u32| {
        format!(
            "insert into lineclear.outbox_message (topic, key, payload, {columns})
             select 't', 'k' || n % 100, '{{}}', {values} from generate_series(1, {count}) n"
        )
    };
    let later = insert("ready, due_at", "false, now() + interval '1 day'", OTHERS);
    let dead = insert("ready, attempts, dead_at", "false, 25, now()", OTHERS);
    let foreign = insert("outbox", "'other'", OTHERS);
    for (ready, what) in [(500, "few are ready"), (2 * OTHERS, "many are ready")] {
        let ready = insert("ready", "true", ready);
        client.batch_execute(&format!("{later}; {dead}; {foreign}; {ready}")).await.unwrap();
        client.batch_execute("vacuum analyze lineclear.outbox_message").await.unwrap();
        client.batch_execute("set plan_cache_mode = force_custom_plan").await.unwrap();
        for (statement, types, values, indexes) in STATEMENTS {
            let statement = statement.replace("{schema}", "lineclear");
            client
                .batch_execute(&format!("deallocate all; prepare s ({types}) as {statement}"))
                .await
                .unwrap();
            let lines = client.query(&format!("explain execute s ({values})"), &[]).await.unwrap();
            let plan: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
            let plan = plan.join("\n");
            let scans =
                || plan.lines().filter(|line| line.contains("Scan") && line.contains("outbox_message"));
            assert!(scans().count() > 0, "{what}:\n{plan}");
            for scan in scans() {
                let by_index = indexes.iter().any(|index| scan.contains(&format!("using {index} ")));
                assert!(by_index, "{what}, {scan}:\n{statement}\n{plan}");
            }
        }
    }
}
