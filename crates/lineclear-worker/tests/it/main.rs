//! Workers without the scheduler, against a real server.

#[macro_use]
mod kit;
mod build;
mod examples;
mod faults;
mod locks;
mod pull;
mod push;
