//! The database itself: migrations, a faulty network, TLS.

mod faults;
mod lock_tables;
mod migrate;
#[cfg(feature = "tls")]
mod tls;
