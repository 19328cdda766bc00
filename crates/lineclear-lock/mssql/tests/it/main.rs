//! Locks of SQL Server. The server is made up (`server.rs`) on top of a mock of its protocol: what these tests prove is what we
//! say and how we take what we are told, not what a real server does. Where `LINECLEAR_TEST_MSSQL_URL` names one, the
//! tests that every store must pass are run on it, too.

mod answers;
mod connections;
mod fence;
mod kit;
mod packets;
mod server;
#[macro_use]
#[path = "../../../tests/it/suite.rs"]
mod suite;

suite! {
    made_up_server => Place::made_up().await;
    real_server => Place::real().await;
}
