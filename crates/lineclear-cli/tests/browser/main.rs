//! The dashboard of the real binary, in a real Chromium: what only a browser can show.
//!
//! What a server answers is tested in `lineclear-http`. Here are few tests, each of which goes a long way, because each has a browser of its own.

mod cluster;
mod door;
mod follow;
mod kit;
mod pages;
mod triage;
