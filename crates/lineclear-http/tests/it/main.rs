//! The API over real sockets, on a running node.

// First: the others use its macro.
#[macro_use]
mod kit;

mod access;
mod pages;
mod api;
mod protocol;
