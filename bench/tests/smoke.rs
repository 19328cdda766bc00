//! The benchmark still runs on both databases, and says what it should. At this size its ratios mean nothing.

use lineclear_bench::{Database, Experiment, Scale, run};

const ALL: [Experiment; 3] = [Experiment::Plan, Experiment::Claim, Experiment::Cached];

async fn figures_come_out(database: Database, figures: usize) {
    let report = run(&[database], &ALL, Scale(0.001)).await.expect("the benchmark runs");
    assert_eq!(report.figures.len(), figures, "{report}");
    assert!(report.figures.iter().all(|figure| figure.small_ms > 0.0 && figure.ratio > 0.0), "{report}");
    assert!(!report.fails(), "bounds count at scale 1 only");
    let lines = report.to_string().lines().count();
    assert_eq!(lines, figures + 2, "a line for the machine, a head, and one for each figure");
}

#[tokio::test]
async fn every_figure_comes_out_on_postgres() {
    figures_come_out(Database::Postgres, 7).await;
}

#[tokio::test]
async fn every_figure_comes_out_on_sqlite() {
    figures_come_out(Database::Sqlite, 6).await;
}
