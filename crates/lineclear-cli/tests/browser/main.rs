//! The dashboard of the real binary, in a real Chromium: what only a browser can show.
//!
//! `lineclear-http` tests the responses of a server. There are few tests here, and each covers a lot, because each starts its own browser.

mod cluster;
mod door;
mod follow;
mod kit;
mod pages;
mod submitters;
mod triage;
