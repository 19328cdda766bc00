//! Tests that take a minute, on purpose: `make test-slow` and `make test-all` run them, `make test` does not.

mod deadlock;
mod idle;
mod outage;
mod pollers;
mod recovery;
