//! How many round trips a lock takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use lineclear_lock::Locks;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::kit::Place;

/// A proxy that counts round trips: how often the client sends after it has received.
struct Counter {
    url: String,
    trips: Arc<AtomicU32>,
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    asks: bool,
    listening: Arc<AtomicBool>,
    trips: Arc<AtomicU32>,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        if listening.swap(!asks, Ordering::SeqCst) && asks {
            trips.fetch_add(1, Ordering::SeqCst);
        }
        if to.write_all(&bytes[..length]).await.is_err() {
            break;
        }
    }
    // The other direction ends, too.
    drop(to.shutdown().await);
}

impl Counter {
    async fn before(url: &str) -> Counter {
        let (start, rest) = url.split_once("://").unwrap();
        let (login, rest) = rest.split_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let (server, path) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, at) = (listener.local_addr().unwrap(), if login.is_empty() { "" } else { "@" });
        let url = format!("{start}://{login}{at}{address}/{path}");
        let (server, trips) = (server.to_owned(), Arc::new(AtomicU32::new(0)));
        let counted = trips.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                let ((up, down), (answers, questions)) = (client.into_split(), server.into_split());
                let listening = Arc::new(AtomicBool::new(true));
                tokio::spawn(carry(up, questions, true, listening.clone(), counted.clone()));
                tokio::spawn(carry(answers, down, false, listening, counted.clone()));
            }
        });
        Counter { url, trips }
    }

    /// How many since the last time.
    fn since(&self) -> u32 {
        self.trips.swap(0, Ordering::SeqCst)
    }
}

/// Takes and releases locks of many names; each is one trip there and one trip back.
async fn one_trip_each(place: Place) {
    let counter = Counter::before(place.url.as_deref().unwrap()).await;
    // With the usual times nothing is renewed meanwhile.
    let locks = Locks::open(&counter.url).await.unwrap();
    // Connections are made, and statements prepared.
    locks.try_lock("first").await.unwrap().unwrap().release().await.unwrap();
    counter.since();
    for no in 0..20 {
        // One that was never held, one that was, and one that is busy.
        let held = locks.try_lock(&format!("report-{}", no % 10)).await.unwrap().unwrap();
        assert_eq!(counter.since(), 1, "to take it, round {no}");
        assert!(locks.try_lock(&format!("report-{}", no % 10)).await.unwrap().is_none());
        assert!(counter.since() <= 1, "to find it busy, round {no}");
        held.release().await.unwrap();
        assert_eq!(counter.since(), 1, "to release it, round {no}");
    }
    // A first use costs one more.
    locks.read("report-1").await.unwrap();
    assert!(counter.since() <= 2, "to look");
}

#[tokio::test]
async fn a_lease_is_taken_and_released_in_one_round_trip_each() {
    one_trip_each(Place::postgres("lock=lease").await).await;
}

#[tokio::test]
async fn a_lease_is_taken_and_released_in_one_round_trip_each_through_pgbouncer() {
    one_trip_each(Place::pgbouncer().await).await;
}

#[tokio::test]
async fn a_session_lock_is_taken_and_released_in_one_round_trip_each() {
    one_trip_each(Place::postgres("lock=session").await).await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_lock_in_redis_is_taken_and_released_in_one_round_trip_each() {
    one_trip_each(Place::redis()).await;
}
