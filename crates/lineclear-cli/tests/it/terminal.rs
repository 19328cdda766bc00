//! What is printed, to people, scripts and readers that are gone.

mod closed_output;
mod confirm;
mod environment;
mod frozen_server;
mod help;
mod json;
mod progress;
