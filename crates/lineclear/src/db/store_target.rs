//! The store that a node uses: a URL, options, or an open store.

use std::fmt;

use crate::store::{Store, StoreOptions, StoreResult};

/// The store of a node without one of its own.
const DEFAULT: &str = "lineclear.db";

/// A store to open, or an open one. Converts from a URL or path, from [`StoreOptions`], and from a [`Store`].
#[derive(Clone)]
pub struct StoreTarget(Target);

#[derive(Clone)]
enum Target {
    Url(String),
    Options(Box<StoreOptions>),
    Open(Store),
}

impl StoreTarget {
    /// The store, opened if it is not.
    pub(crate) async fn open(self) -> StoreResult<Store> {
        match self.0 {
            Target::Url(url) => Store::open(StoreOptions::new(&url)?).await,
            Target::Options(options) => Store::open(*options).await,
            Target::Open(store) => Ok(store),
        }
    }
}

impl Default for StoreTarget {
    fn default() -> StoreTarget {
        StoreTarget::from(DEFAULT)
    }
}

macro_rules! store_target_from {
    ($($ty:ty => $make:expr,)+) => { $(impl From<$ty> for StoreTarget {
        fn from(value: $ty) -> StoreTarget {
            StoreTarget(($make)(value))
        }
    })+ };
}
store_target_from! {
    &str => |url: &str| Target::Url(url.to_owned()),
    &String => |url: &String| Target::Url(url.clone()),
    String => Target::Url,
    StoreOptions => |options| Target::Options(Box::new(options)),
    Store => Target::Open,
    &Store => |store: &Store| Target::Open(store.clone()),
}

impl fmt::Debug for StoreTarget {
    /// Without the password: a URL that cannot be parsed may hold it anywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Target::Url(url) => match StoreOptions::new(url) {
                Ok(options) => options.fmt(f),
                Err(_) => f.write_str("a URL that cannot be parsed"),
            },
            Target::Options(options) => options.fmt(f),
            Target::Open(store) => store.fmt(f),
        }
    }
}
