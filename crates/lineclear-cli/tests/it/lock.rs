//! `lineclear lock`.

mod child;
mod faults;
mod inspect;
pub(crate) mod place;
mod run;
