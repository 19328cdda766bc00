//! Locks on every kind of store.

mod kit;
#[macro_use]
mod suite;
mod contend;
mod election;
mod faults;
mod keeping;
mod postgres;
mod sqlite;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_faults;
#[cfg(feature = "redis")]
mod redis_times;

suite! {
    in_process => Place::in_process();
    sqlite_file => Place::sqlite();
    postgres_lease => Place::postgres("lock=lease").await;
    postgres_lease_pgbouncer => Place::pgbouncer().await;
    postgres_session => Place::postgres("lock=session").await;
}

#[cfg(feature = "mysql")]
suite! {
    mysql_server => Place::mysql().await;
}

#[cfg(feature = "redis")]
suite! {
    redis_server => Place::redis();
}
