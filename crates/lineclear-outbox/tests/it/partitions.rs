//! An outbox that is partitioned over several leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use lineclear_lock::{Epoch, RunnerState, RunnerStatus};
use lineclear_outbox::{
    Counts, Delivery, DeliveryError, Message, MessageState, Outbox, OutboxError, OutboxOptions, Outboxes,
    PARTITIONS_MAX, Runner, Sink,
};

use crate::kit::{Receiver, TestStore, connect_postgres, message, messages, order, quick, until};

const KEYS: i64 = 20;

/// An outbox with four partitions.
async fn four(db: &TestStore) -> Outbox {
    let outbox = db.outbox().await;
    outbox.partitioned(4).await.unwrap();
    outbox
}

/// Messages that are not delivered, in the outbox and its partitions.
async fn left(db: &TestStore) -> i64 {
    db.number("select count(*) from {t}outbox_message").await
}

fn has(status: &RunnerStatus) -> bool {
    matches!(status.state, RunnerState::Running | RunnerState::Failing)
}

/// Partitions that this node has, with the numbers of its terms.
fn held(runner: &Runner) -> Vec<(String, Option<Epoch>)> {
    let all = runner.partitions().into_iter();
    all.filter(|(_, status)| has(status)).map(|(name, status)| (name, status.epoch)).collect()
}

fn keyed(numbers: std::ops::Range<i64>) -> Vec<Message> {
    numbers.map(|n| message(n).key(format!("k{}", n % KEYS))).collect()
}

/// The partition of a key, of four.
async fn partition_of(db: &TestStore, key: &str) -> i64 {
    db.number(&format!("select (hashtextextended('{key}', 0) & 9223372036854775807) % 4")).await
}

fn refused(done: Result<(), OutboxError>) -> String {
    let error = done.unwrap_err();
    assert!(matches!(error, OutboxError::Refused { .. }), "{error}");
    error.to_string()
}

/// A sink of one node, which counts what it gets.
fn counted(count: &Arc<AtomicU32>, receiver: &Receiver) -> impl Sink {
    let (count, sink) = (count.clone(), receiver.sink());
    move |delivery: Delivery| {
        count.fetch_add(1, Ordering::SeqCst);
        sink(delivery)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_the_partitions_and_each_message_comes_once_and_in_order() {
    let db = TestStore::postgres().await;
    let (outbox, other) = (four(&db).await, db.outbox().await);
    // Both nodes deliver to one receiver, which sees the order.
    let (receiver, counts) = (Receiver::default(), [Arc::<AtomicU32>::default(), Arc::default()]);
    let one = outbox.start_with(quick(), counted(&counts[0], &receiver)).await.unwrap();
    until("the first node has all", async || held(&one).len() == 4).await;
    // Messages are written all the time.
    let (ends, written) = (AtomicBool::new(false), AtomicU32::new(0));
    let write = async {
        while !ends.load(Ordering::SeqCst) {
            let from = i64::from(written.fetch_add(40, Ordering::SeqCst));
            db.write(&outbox, &keyed(from..from + 40), true).await.unwrap();
        }
    };
    let share = async {
        let two = other.start_with(quick(), counted(&counts[1], &receiver)).await.unwrap();
        until("both have two", async || held(&one).len() == 2 && held(&two).len() == 2).await;
        let settled = (held(&one), held(&two));
        let before = counts.each_ref().map(|count| count.load(Ordering::SeqCst));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!((held(&one), held(&two)), settled, "nothing moves any more");
        for (count, before) in counts.iter().zip(before) {
            assert!(count.load(Ordering::SeqCst) > before, "both deliver");
        }
        one.stop().await.unwrap();
        until("the other node has all", async || held(&two).len() == 4).await;
        ends.store(true, Ordering::SeqCst);
        two
    };
    let ((), two) = tokio::join!(write, share);
    until("all are recorded", async || left(&db).await == 0).await;
    two.stop().await.unwrap();
    let got = receiver.got();
    assert_eq!(got.len(), written.load(Ordering::SeqCst) as usize, "each came once");
    for key in 0..KEYS {
        let of_key: Vec<i64> = got.iter().map(order).filter(|n| n % KEYS == key).collect();
        assert!(of_key.is_sorted() && !of_key.is_empty(), "{key}: {of_key:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_receiver_fails_holds_up_no_other() {
    let db = TestStore::postgres().await;
    let (outbox, receiver) = (four(&db).await, Receiver::default());
    let bad = partition_of(&db, "k0").await;
    let mut bad_orders = Vec::new();
    for n in 0..KEYS {
        if partition_of(&db, &format!("k{n}")).await == bad {
            receiver.answers(n, vec![Err(DeliveryError::unavailable("it is away"))]);
            bad_orders.push(n);
        }
    }
    db.write(&outbox, &keyed(0..KEYS), true).await.unwrap();
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    let stuck = i64::try_from(bad_orders.len()).unwrap();
    until("the others are delivered", async || left(&db).await == stuck).await;
    db.write(&outbox, &keyed(KEYS..KEYS * 2), true).await.unwrap();
    until("and those behind them", async || left(&db).await == stuck * 2).await;
    let partitions = outbox.partitions().await.unwrap();
    assert_eq!(partitions.len(), 4);
    let name = format!("main/{bad}");
    let stuck_one = partitions.iter().find(|partition| partition.name() == name).unwrap();
    assert_eq!(stuck_one.counts().await.unwrap().ready, bad_orders.len() as u64 * 2);
    let failing = |(_, status): &(String, RunnerStatus)| status.state == RunnerState::Failing;
    until("it is failing", async || runner.partitions().iter().filter(|one| failing(one)).count() == 1).await;
    assert_eq!(runner.partitions().into_iter().find(failing).unwrap().0, name);
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn the_library_and_the_function_find_the_same_partition() {
    let db = TestStore::postgres().await;
    let outbox = four(&db).await;
    let client = connect_postgres(&db.url).await;
    let keys: Vec<String> = (0..50).map(|n| format!("Straße-{n}-\u{1F682}")).collect();
    let written: Vec<Message> = keys.iter().map(|key| message(1).key(key.clone())).collect();
    outbox.write_postgres(&client, &written).await.unwrap();
    for key in &keys {
        let sql =
            format!("select lineclear.outbox_write('order.placed', '{{\"order\": 2}}', key => '{key}')");
        client.batch_execute(&sql).await.unwrap();
    }
    let split = "select count(*) from (select from {t}outbox_message group by key having count(distinct outbox) > 1) k";
    assert_eq!((db.number(split).await, left(&db).await), (0, 100));
    let used = "select count(distinct outbox) from {t}outbox_message where outbox like 'main/_'";
    assert_eq!(db.number(used).await, 4);
    // Those without a key are spread.
    client.batch_execute("delete from lineclear.outbox_message").await.unwrap();
    outbox.write_postgres(&client, &messages(0..100)).await.unwrap();
    assert_eq!(db.number(used).await, 4);
    client.batch_execute("delete from lineclear.outbox_message").await.unwrap();
    let many = "select lineclear.outbox_write('order.placed', '{}') from generate_series(1, 100)";
    client.batch_execute(many).await.unwrap();
    assert_eq!(db.number(used).await, 4);
    // An outbox beside it has none.
    let mail = Outbox::open_named(&db.url, "mail").await.unwrap();
    mail.write_postgres(&client, &keyed(0..5)).await.unwrap();
    assert_eq!(mail.counts().await.unwrap().ready, 5);
}

async fn another_number_is_refused_while_there_are_messages(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let delayed = message(0).delay(Duration::from_secs(600));
    for waiting in [message(0), delayed] {
        db.write(&outbox, &[waiting], true).await.unwrap();
        let why = refused(outbox.partitioned(4).await);
        assert!(why.contains("from 1 to 4") && why.contains("try again"), "{why}");
        db.sql("delete from {t}outbox_message").await;
    }
    outbox.partitioned(4).await.unwrap();
    db.write(&outbox, &keyed(0..40), true).await.unwrap();
    outbox.partitioned(4).await.unwrap();
    refused(outbox.partitioned(8).await);
    refused(outbox.partitioned(1).await);
    assert_eq!((outbox.partitions().await.unwrap().len(), left(db).await), (4, 40));

    receiver.answers(7, vec![Err(DeliveryError::reject("never"))]);
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    until("one is dead, and others are delivered", async || left(db).await == 1).await;
    refused(outbox.partitioned(8).await);
    for partition in outbox.partitions().await.unwrap() {
        partition.discard_after(0).await.unwrap();
    }
    // Two nodes at once.
    let other = db.outbox().await;
    let (one, two) = tokio::join!(outbox.partitioned(8), other.partitioned(8));
    one.unwrap();
    two.unwrap();
    // The runner was there before.
    until("the runner follows", async || held(&runner).len() == 8).await;
    db.write(&outbox, &keyed(40..80), true).await.unwrap();
    receiver.wait_for(80).await;
    until("all are recorded", async || left(db).await == 0).await;

    outbox.partitioned(1).await.unwrap();
    assert!(outbox.partitions().await.unwrap().is_empty());
    until("their runners stop", async || runner.partitions().is_empty()).await;
    db.write(&outbox, &keyed(80..90), true).await.unwrap();
    assert_eq!(db.number("select count(*) from {t}outbox_message where outbox <> 'main'").await, 0);
    receiver.wait_for(90).await;
    runner.stop().await.unwrap();
    let mut orders = receiver.orders();
    orders.sort_unstable();
    assert_eq!(orders, (0..90).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_is_refused_while_there_are_messages_and_runners_follow_it() {
    another_number_is_refused_while_there_are_messages(&TestStore::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_is_refused_while_there_are_messages_behind_pgbouncer() {
    another_number_is_refused_while_there_are_messages(&TestStore::pgbouncer().await).await;
}

/// A change excludes open transactions that have written, and a writer that waits for it sees the new number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_a_change_of_the_number_exclude_each_other() {
    let db = TestStore::postgres().await;
    let outbox = db.outbox().await;
    let pending = db.begin(&outbox, &keyed(0..1)).await.unwrap();
    let late = outbox.partitioned(4).await.unwrap_err();
    assert!(matches!(late, OutboxError::Unavailable(_)) && late.to_string().contains("try again"), "{late}");
    pending.roll_back().await;

    let change = connect_postgres(&db.url).await;
    let sql = "begin; lock table lineclear.outbox_message in share row exclusive mode; \
               insert into lineclear.outbox_partition values ('main', 4)";
    change.batch_execute(sql).await.unwrap();
    let (library, function) = (connect_postgres(&db.url).await, connect_postgres(&db.url).await);
    let writes = async { outbox.write_postgres(&library, &keyed(0..10)).await.unwrap() };
    let calls = async {
        let sql = "select lineclear.outbox_write('a', '1', key => 'k' || n) from generate_series(1, 10) n";
        function.batch_execute(sql).await.unwrap();
    };
    let commits = async {
        let waiting = "select count(*) from pg_locks where not granted and relation = 'lineclear.outbox_message'::regclass";
        until("both wait", async || db.number(waiting).await == 2).await;
        change.batch_execute("commit").await.unwrap();
    };
    tokio::join!(writes, calls, commits);
    let whole = "select count(*) from {t}outbox_message where outbox = 'main'";
    assert_eq!((db.number(whole).await, left(&db).await), (0, 20), "they went to partitions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dedup_key_is_that_of_the_whole_outbox() {
    let db = TestStore::postgres().await;
    let (outbox, receiver) = (four(&db).await, Receiver::default());
    for n in 0..20 {
        let again = message(n).key(format!("k{n}")).dedup_key("a");
        assert_eq!(db.write(&outbox, &[again], true).await.unwrap()[0].is_some(), n == 0);
    }
    let options = OutboxOptions { keep_dedup_keys: Duration::ZERO, ..quick() };
    let runner = outbox.start_with(options, receiver.sink()).await.unwrap();
    receiver.wait_for(1).await;
    let keys = "select count(*) from {t}outbox_dedup";
    until("it is forgotten", async || db.number(keys).await == 0).await;
    runner.stop().await.unwrap();
    assert_eq!(receiver.orders(), [0]);
}

/// Rows that a program wrote itself, or a transaction that saw the number before a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_beside_the_partitions_are_delivered() {
    let db = TestStore::postgres().await;
    let (outbox, receiver) = (four(&db).await, Receiver::default());
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    for name in ["main", "main/63"] {
        db.sql(&format!(
            "insert into {{t}}outbox_message (topic, payload, outbox) values ('a', '{{\"order\": 1}}', '{name}')"
        ))
        .await;
    }
    receiver.wait_for(2).await;
    until("the runner of the one that is gone ends", async || runner.partitions().len() == 4).await;
    runner.stop().await.unwrap();
}

#[tokio::test]
async fn partitions_are_looked_at_by_their_names_and_not_written_or_run() {
    let db = TestStore::postgres().await;
    let outbox = four(&db).await;
    db.write(&outbox, &keyed(0..40), true).await.unwrap();
    let all = Outboxes::new(&db.url).unwrap();
    assert_eq!(all.names().await.unwrap(), ["main/0", "main/1", "main/2", "main/3"]);
    let mut ready = 0;
    for name in all.names().await.unwrap() {
        let partition = all.outbox(&name).unwrap();
        let listed = partition.list(MessageState::Ready, None, 100).await.unwrap();
        assert!(listed.iter().all(|message| message.outbox == name));
        assert!(partition.show(listed[0].id).await.unwrap().is_some());
        assert!(outbox.show(listed[0].id).await.unwrap().is_none(), "it is shown under its name");
        ready += partition.counts().await.unwrap().ready;
    }
    assert_eq!((ready, outbox.counts().await.unwrap()), (40, Counts::default()));
    let partition = all.outbox("main/0").unwrap();
    refused(partition.partitioned(2).await);
    refused(partition.start(Receiver::default().sink()).await.map(drop));
    let client = connect_postgres(&db.url).await;
    refused(partition.write_postgres(&client, &messages(0..1)).await.map(drop));
    for bad in [0, PARTITIONS_MAX + 1] {
        assert!(refused(outbox.partitioned(bad).await).contains("1 to 64"));
    }
    assert!(Outbox::open_named(&db.url, "main/0").await.is_err() && all.outbox("main/64").is_err());
}

#[tokio::test]
async fn a_database_of_an_earlier_version_gets_the_table_when_an_outbox_is_opened() {
    let db = TestStore::postgres().await;
    db.outbox().await;
    db.sql("drop table {t}outbox_partition").await;
    assert!(Outboxes::new(&db.url).unwrap().tables_exist().await.unwrap(), "people see its outboxes");
    four(&db).await;
}

#[tokio::test]
async fn other_databases_refuse_and_say_what_to_do() {
    for db in [TestStore::sqlite(), TestStore::mysql().await] {
        let outbox = db.outbox().await;
        let why = refused(outbox.partitioned(4).await);
        assert!(why.contains("PostgreSQL") && why.contains("several outboxes"), "{why}");
        assert!(outbox.partitions().await.unwrap().is_empty());
        let runner = outbox.start_with(quick(), Receiver::default().sink()).await.unwrap();
        assert!(runner.partitions().is_empty());
        runner.stop().await.unwrap();
    }
}
