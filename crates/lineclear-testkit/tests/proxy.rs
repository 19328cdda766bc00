//! The faulty network, in front of a server that sends back what it gets.

use std::time::{Duration, Instant};

use lineclear_testkit::{Proxy, fresh_postgres};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(10);
/// Long enough to tell "not at all" from "at once" on loopback.
const A_WHILE: Duration = Duration::from_millis(100);

async fn proxy_to_echo() -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = socket.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    Proxy::to(&address.to_string()).await.unwrap()
}

async fn call(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn answer(socket: &mut TcpStream) -> String {
    let mut bytes = [0; 4];
    timeout(SOON, socket.read_exact(&mut bytes)).await.expect("an answer").unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn is_closed(socket: &mut TcpStream) -> bool {
    matches!(timeout(SOON, socket.read(&mut [0])).await, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn bytes_pass_both_ways_and_so_does_the_end() {
    let proxy = proxy_to_echo().await;
    let mut socket = call(&proxy).await;
    socket.write_all(b"ping").await.unwrap();
    assert_eq!(answer(&mut socket).await, "ping");
    assert_eq!(proxy.connections(), 1);

    // Our half is closed; what was sent before still comes back, and then the end.
    socket.write_all(b"last").await.unwrap();
    socket.shutdown().await.unwrap();
    assert_eq!(answer(&mut socket).await, "last");
    assert!(is_closed(&mut socket).await);
}

#[tokio::test]
async fn a_delay_holds_each_direction() {
    let proxy = proxy_to_echo().await;
    let mut socket = call(&proxy).await;
    proxy.delay(A_WHILE);
    let began = Instant::now();
    socket.write_all(b"slow").await.unwrap();
    assert_eq!(answer(&mut socket).await, "slow");
    assert!(began.elapsed() >= 2 * A_WHILE);
}

#[tokio::test]
async fn a_cut_closes_what_is_open_and_what_comes_after() {
    let proxy = proxy_to_echo().await;
    let mut before = call(&proxy).await;
    before.write_all(b"ping").await.unwrap();
    answer(&mut before).await;

    proxy.cut().await;
    assert_eq!(proxy.connections(), 0);
    assert!(is_closed(&mut before).await);
    assert!(is_closed(&mut call(&proxy).await).await);

    proxy.heal();
    let mut after = call(&proxy).await;
    after.write_all(b"back").await.unwrap();
    assert_eq!(answer(&mut after).await, "back");
}

#[tokio::test]
async fn silence_carries_nothing_and_closes_nothing_until_it_heals() {
    let proxy = proxy_to_echo().await;
    let mut before = call(&proxy).await;
    before.write_all(b"ping").await.unwrap();
    answer(&mut before).await;

    proxy.silence();
    let mut during = call(&proxy).await;
    for socket in [&mut before, &mut during] {
        socket.write_all(b"lost").await.unwrap();
        assert!(timeout(A_WHILE, socket.read(&mut [0])).await.is_err(), "silence neither answers nor closes");
    }
    proxy.heal();
    assert_eq!(answer(&mut before).await, "lost");
    assert_eq!(answer(&mut during).await, "lost");
}

#[tokio::test]
async fn connections_that_are_silenced_stay_so_and_new_ones_work() {
    let proxy = proxy_to_echo().await;
    let mut before = call(&proxy).await;
    before.write_all(b"ping").await.unwrap();
    answer(&mut before).await;

    proxy.silence_open();
    before.write_all(b"lost").await.unwrap();
    let mut after = call(&proxy).await;
    after.write_all(b"here").await.unwrap();
    assert_eq!(answer(&mut after).await, "here");
    assert!(timeout(A_WHILE, before.read(&mut [0])).await.is_err(), "it is neither answered nor closed");
    proxy.heal();
    assert!(timeout(A_WHILE, before.read(&mut [0])).await.is_err());
    assert_eq!(proxy.swallowed(), b"lost");
    assert_eq!(proxy.connections(), 2);
    drop(before);
    while proxy.connections() > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_proxy_closes_its_connections() {
    let proxy = proxy_to_echo().await;
    let mut socket = call(&proxy).await;
    socket.write_all(b"ping").await.unwrap();
    answer(&mut socket).await;
    drop(proxy);
    assert!(is_closed(&mut socket).await);
}

#[tokio::test]
async fn a_database_can_be_reached_through_it_and_lost() {
    let database = fresh_postgres().await;
    let proxy = Proxy::to_url(database.url()).await.unwrap();
    let url = proxy.url_for(database.url());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("select 1").await.unwrap();
    proxy.cut().await;
    connection.await.unwrap().ok();
    assert!(client.batch_execute("select 1").await.is_err());
}
