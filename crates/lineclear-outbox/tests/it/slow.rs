//! Tests that take a minute on purpose.

use std::time::Duration;

use crate::events::writers::{Load, writers_lose_nothing};
use crate::kills::nodes_that_are_killed_and_frozen_lose_and_repeat_nothing;
use crate::kit::TestStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_killed_for_half_a_minute_on_postgres() {
    let db = TestStore::postgres().await;
    nodes_that_are_killed_and_frozen_lose_and_repeat_nothing(&db, 20_000, Duration::from_secs(30)).await;
}

/// 16 writers × 280 transactions × 25 events, of which a tenth is rolled back: 100,800 events.
const HUNDRED_THOUSAND: Load = Load { transactions: 280, events: 25, open_ms: 20 };
const LIMIT: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_events_of_sixteen_writers_on_postgres() {
    writers_lose_nothing(&TestStore::postgres().await, HUNDRED_THOUSAND, LIMIT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_events_of_sixteen_writers_through_pgbouncer() {
    writers_lose_nothing(&TestStore::pgbouncer().await, HUNDRED_THOUSAND, LIMIT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_events_of_sixteen_writers_on_sqlite() {
    writers_lose_nothing(&TestStore::sqlite(), HUNDRED_THOUSAND, LIMIT).await;
}
