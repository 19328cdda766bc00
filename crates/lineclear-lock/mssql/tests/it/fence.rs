//! Fenced transactions.

use lineclear_lock::{Locks, mssql};

use crate::kit::{SOON, connect, quick};
use crate::server::Server;

#[tokio::test]
async fn an_open_fenced_transaction_blocks_the_lock_and_a_stale_fence_is_refused() {
    let server = Server::start().await;
    let locks = Locks::open_with(&server.url(), quick()).await.unwrap();
    let held = locks.try_lock("report").await.unwrap().unwrap();
    let stale = held.fence().clone();
    let mut client = connect(&server.url()).await;
    client.begin_transaction().await.unwrap();
    assert!(mssql::fence(&mut client, &stale).await.unwrap());
    held.release().await.unwrap();
    assert!(locks.try_lock("report").await.unwrap().is_none(), "the open transaction is in the way");
    assert_eq!(server.state().locks.len(), 0, "the lock that it took was released");
    client.commit_transaction().await.unwrap();
    let next = locks.acquire("report", SOON).await.unwrap().unwrap();
    assert!(!mssql::fence(&mut client, &stale).await.unwrap(), "its epoch is over");
    assert!(mssql::fence(&mut client, next.fence()).await.unwrap());
}
