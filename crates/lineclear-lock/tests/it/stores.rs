//! What is particular to a store.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redis")]
mod redis_times;
mod sqlite;
