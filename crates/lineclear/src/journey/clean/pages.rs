//! What the cleaner looks for among rows of which nearly all are right: page by page, so that a cleaning costs the same however many
//! there are. A page that had something is followed by the next at once; otherwise the next cleaning goes on there.

use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::store::{Store, StoreResult};

/// Keys that one page has: reading them costs little beside a cleaning that finds nothing.
const KEYS: u32 = 20;
/// Manifests with parked jobs that one page has.
const MANIFESTS: u32 = 25;
/// Jobs of each manifest that one page unparks.
const UNPARK_MAX: u32 = 1_000;

/// Where the cleaner goes on.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    /// Unique keys whose job is nowhere, after this key.
    UniqueKeys(String),
    /// Limit keys that no job uses, after this key.
    LimitKeys(String),
    /// Jobs that are parked although their manifest runs, after this manifest.
    Parked(i64),
}

impl Page {
    fn restart(&mut self) {
        match self {
            Page::UniqueKeys(after) | Page::LimitKeys(after) => after.clear(),
            Page::Parked(after) => *after = 0,
        }
    }
}

/// The pages of a cleaner.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    pub(crate) unique_keys: Page,
    pub(crate) limit_keys: Page,
    pub(crate) parked: Page,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages {
            unique_keys: Page::UniqueKeys(String::new()),
            limit_keys: Page::LimitKeys(String::new()),
            parked: Page::Parked(0),
        }
    }
}

impl Store {
    /// Cleans a page and turns to the next, or after the last one to the first; returns how many rows it changed.
    pub(crate) async fn turn_page(&self, page: &mut Page) -> StoreResult<u64> {
        let keys = |statement, after: &str| {
            Query::one(statement, values![after, KEYS], |row| {
                Ok((row.get::<u64>("cleaned")?, row.get::<Option<String>>("next")?))
            })
        };
        let (cleaned, goes_on) = match page {
            Page::UniqueKeys(after) => {
                let (cleaned, next) = self.run(keys(Statement::CleanLostKey, after)).await?;
                (cleaned, next.map(|next| *after = next))
            }
            Page::LimitKeys(after) => {
                let (cleaned, next) = self.run(keys(Statement::CleanLimitKey, after)).await?;
                (cleaned, next.map(|next| *after = next))
            }
            Page::Parked(after) => {
                let unpark =
                    Query::one(Statement::UnparkForgotten, values![*after, MANIFESTS, UNPARK_MAX], |row| {
                        Ok((row.get::<u64>("cleaned")?, row.get::<Option<i64>>("next")?))
                    });
                let (cleaned, next) = self.run(unpark).await?;
                // A manifest may have had more than one page unparks.
                let again = (cleaned >= u64::from(UNPARK_MAX)).then_some(*after);
                (cleaned, again.or(next).map(|next| *after = next))
            }
        };
        if goes_on.is_none() {
            page.restart();
        }
        Ok(cleaned)
    }
}
