//! The benchmark still runs on both databases, and prints its figures. At this size its ratios mean nothing.

use lineclear_bench::{Database, Experiment, Scale, run};

const GROWTH: [Experiment; 5] =
    [Experiment::Plan, Experiment::Claim, Experiment::Cached, Experiment::InTheWay, Experiment::Pages];
const SPEED: [Experiment; 12] = [
    Experiment::Drain,
    Experiment::EnqueueBulk,
    Experiment::EnqueueSingle,
    Experiment::EnqueueHttp,
    Experiment::Latency,
    Experiment::Backlog,
    Experiment::Gate,
    Experiment::Lock,
    Experiment::Push,
    Experiment::Pull,
    Experiment::Outbox,
    Experiment::Events,
];

async fn figures_come_out(database: Database, experiments: &[Experiment], figures: usize) {
    let report = run(&[database], experiments, Scale(0.001)).await.expect("the benchmark runs");
    assert_eq!(report.figures.len(), figures, "{report}");
    assert!(report.figures.iter().all(|figure| figure.value > 0.0), "{report}");
    assert!(report.figures.iter().all(|figure| figure.ratio.is_none_or(|ratio| ratio > 0.0)), "{report}");
    assert!(!report.fails(), "bounds count at scale 1 only");
    let lines = report.to_string().lines().count();
    assert_eq!(lines, figures + 2, "a line for the machine, a head, and one for each figure");
}

#[tokio::test]
async fn every_figure_of_growth_comes_out_on_postgres() {
    figures_come_out(Database::Postgres, &GROWTH, 33).await;
}

#[tokio::test]
async fn every_figure_of_growth_comes_out_on_sqlite() {
    figures_come_out(Database::Sqlite, &GROWTH, 28).await;
}

#[tokio::test]
async fn every_figure_of_speed_comes_out_on_postgres() {
    figures_come_out(Database::Postgres, &SPEED, 21).await;
}

#[tokio::test]
async fn every_figure_of_speed_comes_out_on_sqlite() {
    figures_come_out(Database::Sqlite, &SPEED, 8).await;
}

#[tokio::test]
async fn speed_is_not_measured_on_a_server_that_does_not_sync() {
    // The server for tests does not.
    let refused = run(&[Database::Postgres], &[Experiment::Drain], Scale(1.0)).await.unwrap_err();
    assert!(refused.to_string().contains("does not sync"), "{refused}");
}
