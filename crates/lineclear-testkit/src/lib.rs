//! For Lineclear's own tests: private servers, a fresh database per test, child processes that stop and die
//! on command, and a network that fails on command.
//!
//! It knows nothing of the engine: tests see processes, sockets and tables, as a user does.
//!
//! | to have | use |
//! |---|---|
//! | an empty PostgreSQL database | [`fresh_postgres`] |
//! | a database that is migrated already | [`Template`] |
//! | a network that is slow, cut or silent | [`Proxy`] |
//! | a port on which nothing listens | [`free_port`] |
//! | a server that receives calls | [`HttpEndpoint`] |
//! | a process to kill, pause or freeze at a crash point | [`Program`], [`Child`] |
//! | a PostgreSQL to stop and start again | [`PrivatePostgres`] |
//! | the MySQL for tests; one to stop and start again | [`mysql_url`], [`PrivateMysql`] |
//! | the Redis for tests; one to stop and start again | [`redis_url`], [`PrivateRedis`] |
//! | private servers | [`servers::Servers`], or the binary `lineclear-testkit` |
#![forbid(unsafe_code)]

pub mod child;
pub mod servers;

mod database;
mod http_endpoint;
mod pg;
mod port;
mod procfs;
mod proxy;
mod template;
mod url;

pub use child::{Child, Program};
pub use database::{PostgresDatabase, fresh_postgres, mysql_url, redis_url};
pub use http_endpoint::{HttpCall, HttpEndpoint, HttpReply};
pub use port::free_port;
pub use proxy::Proxy;
pub use servers::{mysql::PrivateMysql, postgres::PrivatePostgres, redis::PrivateRedis};
pub use template::Template;
