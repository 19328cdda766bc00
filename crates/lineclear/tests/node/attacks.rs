//! What an application, an operator or a slow machine can do to a node without meaning to.

mod clocks;
mod foreign_locks;
mod many_rows;
mod silent_connection;
mod slow_database;
