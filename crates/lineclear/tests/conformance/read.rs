//! Lists, details, search, events and figures.

mod events;
mod search;
mod stats;
mod views;
