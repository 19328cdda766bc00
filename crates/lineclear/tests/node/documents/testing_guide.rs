//! A small program, and its tests.

use std::time::Duration;

use lineclear::model::{Backoff, Manifest, Name, Schedule};
use lineclear::node::Builder;
use lineclear::testing::TestNode;
use lineclear::{Client, HandlerError, Input, KindOptions, Lineclear};

async fn invoice(Input(order): Input<u64>, client: Client) -> Result<(), HandlerError> {
    if order == 13 {
        return Err("the printer is out of paper".into());
    }
    client.enqueue("mail", &order).await?;
    Ok(())
}

async fn mail() {}

async fn report() {}

/// What the program starts, and what its tests start: the same.
fn program() -> Result<Builder, HandlerError> {
    let nightly = Schedule::cron("0 3 * * *", "Europe/Berlin")?;
    let twice = KindOptions { retry: Backoff::default().policy(1), ..KindOptions::default() };
    Ok(Lineclear::builder()
        .kind_with("invoice", twice, invoice)
        .kind("mail", mail)
        .kind("report", report)
        .manifest(Manifest::new(Name::new("nightly-report")?, Name::new("report")?, nightly)))
}

#[tokio::test]
async fn an_invoice_is_mailed() -> Result<(), HandlerError> {
    let node = TestNode::start(program()?).await?;
    let job = node.enqueue("invoice", &7).await?.id;
    node.run_one().await;
    node.assert_completed(job).await;
    let mail = node.assert_enqueued("mail", |order: u64| order == 7).await;
    node.drain().await;
    node.assert_completed(mail).await;
    node.assert_nothing_enqueued().await;
    Ok(())
}

#[tokio::test]
async fn a_failing_invoice_is_tried_again_after_five_minutes_and_then_dead() -> Result<(), HandlerError> {
    let node = TestNode::start(program()?).await?;
    let job = node.enqueue("invoice", &13).await?.id;
    assert_eq!(node.drain().await.len(), 1);
    node.clock().advance(Duration::from_secs(299));
    assert!(node.drain().await.is_empty());
    node.clock().advance(Duration::from_secs(1));
    assert_eq!(node.drain().await.len(), 1);
    node.assert_dead(job).await;
    Ok(())
}

#[tokio::test]
async fn the_report_is_made_at_three_in_the_morning_in_berlin() -> Result<(), HandlerError> {
    // In the night in which summer time begins: there is no half past two.
    let node = TestNode::start_at("2026-03-28T12:00:00Z", program()?).await?;
    node.clock().set("2026-03-29T01:59:59+01:00[Europe/Berlin]");
    assert!(node.drain().await.is_empty());
    node.clock().advance(Duration::from_secs(1));
    assert_eq!(node.clock().now().timestamp().to_string(), "2026-03-29T01:00:00Z");
    let ran = node.drain().await;
    assert_eq!(ran.len(), 1);
    node.assert_completed(ran[0].job).await;
    Ok(())
}
