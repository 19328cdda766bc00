//! Very many workers that wait for jobs.

use std::time::Duration;

use crate::submitters::pull::workers_that_wait_cost_no_statement_each;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_workers_that_wait_cost_no_statement_each() {
    workers_that_wait_cost_no_statement_each(10_000, Duration::from_secs(120)).await;
}
