//! Tokens, sessions and the audit.

mod audit;
mod tokens;
