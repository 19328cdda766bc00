//! How a program says which store it means: by URL, with options, or by one that is open.

use std::fmt;

use crate::store::{Store, StoreOptions, StoreResult};

/// Where nobody says otherwise.
const DEFAULT: &str = "lineclear.db";

/// A store to be opened, or one that is open. Made from a URL or path, from [`StoreOptions`], or from a [`Store`].
#[derive(Clone)]
pub struct StoreChoice(Choice);

#[derive(Clone)]
enum Choice {
    Url(String),
    Options(Box<StoreOptions>),
    Open(Store),
}

impl StoreChoice {
    /// The store, opened if it is not.
    pub(crate) async fn open(self) -> StoreResult<Store> {
        match self.0 {
            Choice::Url(url) => Store::open(StoreOptions::new(&url)?).await,
            Choice::Options(options) => Store::open(*options).await,
            Choice::Open(store) => Ok(store),
        }
    }
}

impl Default for StoreChoice {
    fn default() -> StoreChoice {
        StoreChoice::from(DEFAULT)
    }
}

impl From<&str> for StoreChoice {
    fn from(url: &str) -> StoreChoice {
        StoreChoice(Choice::Url(url.to_owned()))
    }
}

impl From<&String> for StoreChoice {
    fn from(url: &String) -> StoreChoice {
        StoreChoice(Choice::Url(url.clone()))
    }
}

impl From<String> for StoreChoice {
    fn from(url: String) -> StoreChoice {
        StoreChoice(Choice::Url(url))
    }
}

impl From<StoreOptions> for StoreChoice {
    fn from(options: StoreOptions) -> StoreChoice {
        StoreChoice(Choice::Options(Box::new(options)))
    }
}

impl From<Store> for StoreChoice {
    fn from(store: Store) -> StoreChoice {
        StoreChoice(Choice::Open(store))
    }
}

impl From<&Store> for StoreChoice {
    fn from(store: &Store) -> StoreChoice {
        StoreChoice(Choice::Open(store.clone()))
    }
}

impl fmt::Debug for StoreChoice {
    /// As for people: a URL may hold a password, and one that cannot be read may hold it anywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Choice::Url(url) => match StoreOptions::new(url) {
                Ok(options) => options.fmt(f),
                Err(_) => f.write_str("a URL that cannot be read"),
            },
            Choice::Options(options) => options.fmt(f),
            Choice::Open(store) => store.fmt(f),
        }
    }
}
