//! Locks of MySQL and MariaDB: what ends a connection ends the lock on it, soon and noticed.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::{Locks, LostReason, Moment, mysql};
use lineclear_testkit::{Child, PrivateMysql, Program, Proxy, mysql_url};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, TxOpts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::kit::{Place, SOON, TTL, quick};
use crate::many::contend::{example, fifty_contenders_of_eight_processes};

/// A database of one test; it is dropped with this.
struct Database {
    server: String,
    name: String,
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // The test's runtime may be the one that is dropping us.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let dropped = run(&server, format!("drop database {name}"));
            drop(runtime.block_on(async { tokio::time::timeout(SOON, dropped).await }));
        });
        drop(dropping.join());
    }
}

async fn connect(url: &str) -> Conn {
    Conn::new(Opts::from_url(url).unwrap()).await.unwrap()
}

pub(crate) async fn run(url: &str, sql: String) {
    let mut connection = connect(url).await;
    connection.query_drop(sql).await.unwrap();
    connection.disconnect().await.unwrap();
}

impl Place {
    pub(crate) async fn mysql() -> Place {
        let (server, name) = (mysql_url(), format!("lineclear_test_{}", uuid::Uuid::new_v4().simple()));
        run(&server, format!("create database {name}")).await;
        let (start, _) = server.rsplit_once('/').unwrap();
        Place::at(format!("{start}/{name}"), Database { server, name })
    }
}

#[tokio::test]
async fn fifty_contenders_on_mysql() {
    fifty_contenders_of_eight_processes(&Place::mysql().await).await;
}

/// The server's number of the connection that holds the lock, found as the documentation says.
async fn holder_connection(url: &str, lock: &str) -> u64 {
    let ask = "select is_used_lock(concat('lineclear.', \
        left(sha2(concat('lineclear-lock/1', char(0), lower(database()), char(0), ?), 256), 48)))";
    let id: Option<Option<u64>> = connect(url).await.exec_first(ask, (lock,)).await.unwrap();
    id.flatten().expect("a connection holds it")
}

#[tokio::test]
async fn a_killed_connection_loses_its_lock_and_the_successor_has_it_soon() {
    let place = Place::mysql().await;
    // So long that no renewal can be what notices it.
    let patient = lineclear_lock::LockOptions::with_ttl(Duration::from_secs(60));
    let one = Locks::open_with(place.url.as_deref().unwrap(), patient).await.unwrap();
    let held = one.try_lock("report").await.unwrap().unwrap();
    let begun = std::time::Instant::now();
    run(
        place.url.as_deref().unwrap(),
        format!("kill {}", holder_connection(place.url.as_deref().unwrap(), "report").await),
    )
    .await;
    tokio::time::timeout(SOON, held.lost().cancelled()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "not by renewal: {:?}", begun.elapsed());
    assert_eq!(held.lost_reason(), Some(LostReason::ConnectionLost));
    assert!(held.trusted_for().is_zero());
    let next = place.locks().await.try_lock("report").await.unwrap().expect("free at once");
    assert!(next.epoch() > held.epoch());
}

/// A process that holds the lock for as long as it can.
async fn holder(url: &str, ttl: Duration) -> Child {
    let ttl = ttl.as_millis().to_string();
    let child =
        Program::at(example("contender")).args([url, "report", "1", "600", &ttl, "600000"]).start().unwrap();
    child.wait_for_line("lock held", SOON).await.unwrap();
    child
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_at_once() {
    let place = Place::mysql().await;
    let mut child = holder(place.url.as_deref().unwrap(), Duration::from_secs(600)).await;
    let locks = place.locks().await;
    assert!(locks.try_lock("report").await.unwrap().is_none());
    child.kill().unwrap();
    let begun = std::time::Instant::now();
    assert!(locks.acquire("report", SOON).await.unwrap().is_some());
    println!("after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(2), "long before its time: {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_frozen_process_loses_its_lock_after_its_time_and_learns_it_when_it_wakes() {
    let place = Place::mysql().await;
    let mut child = holder(place.url.as_deref().unwrap(), TTL).await;
    let locks = place.locks().await;
    child.pause().await.unwrap();
    let begun = std::time::Instant::now();
    // The kernel keeps its connection open; the server ends it for its silence.
    let held = locks.acquire("report", SOON).await.unwrap().expect("the server ends it");
    println!("after {:?}", begun.elapsed());
    // It may have been frozen just before a renewal, a third of its time after the last.
    assert!(begun.elapsed() > TTL / 2 && held.epoch().get() > 1);
    child.resume().unwrap();
    child.wait_for_line("lock ended 1 ", SOON).await.unwrap();
    tokio::time::sleep(TTL).await;
    assert_eq!(held.lost_reason(), None);
    assert!(
        !child
            .stdout()
            .iter()
            .any(|line| line.starts_with("lock held ") && !line.starts_with("lock held 1 "))
    );
}

#[tokio::test]
async fn a_server_that_is_killed_loses_all_locks_and_keeps_their_epochs() {
    let mut server = PrivateMysql::start(&["--innodb-flush-log-at-trx-commit=1"]).await.unwrap();
    let patient = lineclear_lock::LockOptions::with_ttl(Duration::from_secs(60));
    let locks = Locks::open_with(&server.url(), patient).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    // The watch looks a few times.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    server.stop();
    tokio::time::timeout(Duration::from_secs(10), held.lost().cancelled()).await.expect("not by renewal");
    assert_eq!(held.lost_reason(), Some(LostReason::ConnectionLost));
    let error = locks.try_lock("report").await.unwrap_err();
    assert!(error.is_unavailable(), "down is not busy: {error}");
    server.start_again().await.unwrap();
    let next = locks.acquire("report", SOON).await.unwrap().unwrap();
    assert!(next.epoch() > held.epoch(), "{} after {}", next.epoch(), held.epoch());
}

#[tokio::test]
async fn a_holder_behind_a_silent_network_gives_up_before_the_server_frees_its_lock() {
    let place = Place::mysql().await;
    let url = place.url.clone().unwrap();
    let proxy = Proxy::to_url(&url).await.unwrap();
    let cut_off = Locks::open_with(&proxy.url_for(&url), quick()).await.unwrap();
    let locks = place.locks().await;
    let held = cut_off.try_lock("report").await.unwrap().unwrap();
    let waiting = tokio::spawn(async move {
        let held = locks.acquire("report", SOON).await.unwrap();
        (held, Moment::now())
    });
    tokio::time::sleep(TTL).await;
    proxy.silence();
    tokio::time::timeout(SOON, held.lost().cancelled()).await.unwrap();
    let lost_at = Moment::now();
    assert_eq!(held.lost_reason(), Some(LostReason::TrustExpired));
    assert!(cut_off.try_lock("report").await.unwrap_err().is_unavailable(), "silence is not busy");
    let (next, taken_at) = waiting.await.unwrap();
    assert!(next.unwrap().epoch() > held.epoch());
    assert!(taken_at > lost_at, "the successor had it only after the first knew of its loss");
}

#[tokio::test]
async fn a_stale_holder_s_transaction_cannot_commit() {
    let place = Place::mysql().await;
    // The server waits for a row for a second, which is longer than those in a hurry wait for it.
    let locks = Locks::open(place.url.as_deref().unwrap()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    let stale = held.fence().clone();
    let mut connection = connect(place.url.as_deref().unwrap()).await;
    let mut transaction = connection.start_transaction(TxOpts::default()).await.unwrap();
    assert!(mysql::fence(&mut transaction, &stale).await.unwrap());

    // While the transaction is open, the lock cannot be taken, even after its release.
    held.release().await.unwrap();
    assert!(locks.try_lock("report").await.unwrap().is_none(), "the open transaction is in the way");
    transaction.commit().await.unwrap();
    let next = locks.acquire("report", SOON).await.unwrap().unwrap();
    assert!(next.epoch() > stale.epoch);

    let mut transaction = connection.start_transaction(TxOpts::default()).await.unwrap();
    assert!(!mysql::fence(&mut transaction, &stale).await.unwrap(), "its epoch is over");
    assert!(mysql::fence(&mut transaction, next.fence()).await.unwrap());
    transaction.rollback().await.unwrap();
}

#[tokio::test]
async fn a_galera_cluster_is_refused() {
    let library = "/usr/lib/galera/libgalera_smm.so";
    if !std::path::Path::new(library).exists() {
        println!("{library} is not there: nothing to try");
        return;
    }
    let provider = format!("--wsrep-provider={library}");
    let cluster = ["--wsrep-on=ON", &provider, "--wsrep-cluster-address=gcomm://", "--binlog-format=ROW"];
    let own = ["--innodb-autoinc-lock-mode=2", "--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=rsync"];
    let server = PrivateMysql::start(&[cluster.as_slice(), own.as_slice()].concat()).await.unwrap();
    let error = Locks::open_with(&server.url(), quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("refused by galera: "), "{error}");
}

#[tokio::test]
async fn what_cannot_keep_epochs_is_refused() {
    let place = Place::mysql().await;
    let url = place.url.clone().unwrap();
    run(&url, "create table lock_epoch (name varbinary(255) primary key) engine = MyISAM".to_owned()).await;
    let error = Locks::open_with(&url, quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("refused by engine: "), "{error}");
    let (server, _) = url.rsplit_once('/').unwrap();
    let error = Locks::open_with(server, quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("refused by lock_url: "), "{error}");
}

#[tokio::test]
async fn two_databases_of_one_server_have_their_own_locks() {
    let (one, other) = (Place::mysql().await, Place::mysql().await);
    let held = one.locks().await.try_lock("report").await.unwrap();
    assert!(held.is_some() && other.locks().await.try_lock("report").await.unwrap().is_some());
}

#[tokio::test]
async fn a_server_that_can_only_be_read_is_refused() {
    let server = PrivateMysql::start(&["--read-only"]).await.unwrap();
    let error = Locks::open_with(&server.url(), quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("refused by read_only: "), "{error}");
}

/// A proxy that logs each client in on its own connection, and then sends the statements of all clients over the first one.
async fn share_one_connection(listener: TcpListener, server: String) {
    let shared: Arc<Mutex<Option<TcpStream>>> = Arc::default();
    while let Ok((mut client, _)) = listener.accept().await {
        let (server, shared) = (server.clone(), shared.clone());
        tokio::spawn(async move {
            let mut own = TcpStream::connect(server).await.unwrap();
            let mut packet = vec![0; 64 * 1024];
            // The handshake ends with an OK packet: a zero after the packet's header.
            loop {
                let length = own.read(&mut packet).await.unwrap();
                client.write_all(&packet[..length]).await.unwrap();
                if packet[4] == 0 {
                    break;
                }
                let length = client.read(&mut packet).await.unwrap();
                own.write_all(&packet[..length]).await.unwrap();
            }
            shared.lock().await.get_or_insert(own);
            loop {
                let length = client.read(&mut packet).await.unwrap_or(0);
                // The end, or a COM_QUIT, which must not close the connection of the others.
                if length == 0 || packet[4] == 1 {
                    return;
                }
                let mut server = shared.lock().await;
                let server = server.as_mut().unwrap();
                server.write_all(&packet[..length]).await.unwrap();
                let mut patience = SOON;
                while let Ok(Ok(length)) = tokio::time::timeout(patience, server.read(&mut packet)).await {
                    client.write_all(&packet[..length]).await.unwrap();
                    patience = Duration::from_millis(100);
                }
            }
        });
    }
}

#[tokio::test]
async fn a_proxy_that_shares_connections_is_refused() {
    let place = Place::mysql().await;
    let url = place.url.clone().unwrap();
    let (start, end) = url.split_once('@').unwrap();
    let (server, database) = end.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shared = format!("{start}@{}/{database}", listener.local_addr().unwrap());
    tokio::spawn(share_one_connection(listener, server.to_owned()));
    let error = Locks::open_with(&shared, quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("refused by session_locks: "), "{error}");
}
