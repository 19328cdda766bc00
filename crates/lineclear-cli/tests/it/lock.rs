//! `lineclear lock`.

mod child;
mod faults;
mod inspect;
pub(crate) mod test_locks;
mod run;
