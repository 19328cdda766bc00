//! Tests that take a minute, on purpose: `make test-slow` and `make test-all` run them, `make test` does not.

mod hour;
mod imported_line;
