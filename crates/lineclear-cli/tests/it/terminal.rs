//! Output on terminals, for scripts, and for readers that are gone.

mod closed_output;
mod confirm;
mod environment;
mod frozen_server;
mod help;
mod json;
mod passwords;
mod progress;
mod token_target;
