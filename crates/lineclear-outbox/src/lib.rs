//! A transactional outbox: a program writes messages in its own transaction, and one runner delivers them, at least once and in order. And an
//! event log: a program appends events in its own transaction, and [subscriptions](#events-and-subscriptions) read all of them in order.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! use lineclear_outbox::{Delivery, DeliveryError, Message, Outbox};
//! use rusqlite::TransactionBehavior;
//! use serde_json::json;
//!
//! let outbox = Outbox::open(file.to_str().unwrap()).await?;
//!
//! // The order and its message are written together, or not at all.
//! let mut shop = rusqlite::Connection::open(&file)?;
//! shop.execute_batch("create table orders (id integer primary key, item text)")?;
//! let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! transaction.execute("insert into orders (id, item) values (42, 'tea')", [])?;
//! outbox.write_sqlite(&transaction, &[Message::new("order.placed", &json!({"order": 42}))?.key("order-42")])?;
//! transaction.commit()?;
//!
//! // On every node; one of them delivers.
//! let runner = outbox.start(|message: Delivery| async move {
//!     println!("{} {}", message.topic, message.payload);
//!     Ok::<(), DeliveryError>(())
//! }).await?;
//! # while outbox.counts().await?.ready > 0 {
//! #     tokio::time::sleep(std::time::Duration::from_millis(10)).await;
//! # }
//! runner.stop().await?;
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))] fn main() {}
//! ```
//!
//! - A message is delivered at least once. Its [`Delivery::delivery_id`] is the same each time: receivers use it to notice a message that comes
//!   twice, for instance with [`inbox`].
//! - Messages of one [key](Message::key) are delivered one after the other, in the order of their ids. A message that fails holds up its key
//!   until its next attempt, and nothing else. A message that is dead does not hold up its key.
//! - An attempt that is cut off by the end of its node is not charged.
//! - The runner records results only while it holds its lock: the transaction is [fenced](lineclear_lock::Fence).
//!
//! On PostgreSQL, an outbox can be [partitioned](Outbox::partitioned): by their keys its messages are spread over several runners, which nodes share.
//!
//! Not promised: the order of messages without a key; the order of messages of one key that two transactions write at the same time, or that are
//! written past a change of the number of partitions, as the guide says; that a message which ends the whole process is found out.
//!
//! # Events and subscriptions
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! # let mut shop = rusqlite::Connection::open(&file)?;
//! use lineclear_outbox::{EventLog, ExpectedVersion, NewEvent, Page, SubscriptionOptions};
//! use rusqlite::TransactionBehavior;
//! use serde_json::json;
//!
//! let log = EventLog::open(file.to_str().unwrap()).await?;
//! shop.execute_batch("create table totals (item text primary key, orders integer)")?;
//! let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! let placed = NewEvent::new("order.placed", &json!({"item": "tea"}))?;
//! log.append_sqlite(&transaction, "order-42", ExpectedVersion::NoStream, &[placed])?;
//! transaction.commit()?;
//!
//! // On every node; one of them handles events. The checkpoint is committed with the effects: each happens exactly once.
//! let count = |page: &Page, transaction: &rusqlite::Transaction<'_>| {
//!     for event in &page.events {
//!         let order: serde_json::Value = event.payload()?;
//!         let sql = "insert into totals values (?1, 1) on conflict do update set orders = orders + 1";
//!         transaction.execute(sql, [order["item"].as_str()])?;
//!     }
//!     Ok(())
//! };
//! let totals = log.subscribe_sqlite("totals", SubscriptionOptions::default(), count).await?;
//! # assert!(log.wait_until_caught_up("totals", std::time::Duration::from_secs(30)).await?);
//! totals.stop().await?;
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))] fn main() {}
//! ```
//!
//! No event is skipped, in whatever order transactions commit: a reader waits for the open transactions that have drawn positions, and for no other
//! ones. The log needs PostgreSQL or SQLite.
//!
//! | file | content |
//! |---|---|
//! | `message.rs` | a message to write |
//! | `postgres.rs`, `sqlite.rs`, `mysql.rs` | writing in your transaction; the statements of a runner |
//! | `runner.rs`, `window.rs` | one runner: reads, delivers, records; order per key |
//! | `partitions.rs`, `runner/partitions.rs`, `runner/balance.rs` | partitions of an outbox, and the nodes that share them |
//! | `delivery.rs` | what a sink gets, and its errors |
//! | `inspect.rs` | list, show, replay, discard |
//! | `inbox.rs` | for receivers: each delivery once |
//! | `events/` | the event log: append, read, tap; `mark.rs` says up to which position it is complete |
//! | `subscriptions/` | subscriptions: `supervisor.rs` has the term of a node, `reader.rs` and `step.rs` the work, `rebuild.rs`, `parked.rs` and `operate.rs` the rest |
//! | `database.rs` | statements that exist as twins, and transactions with a handler in them |

mod database;
mod delivery;
mod error;
mod events;
mod gaps;
mod inspect;
mod message;
mod options;
mod outbox;
mod partitions;
mod runner;
mod runner_task;
mod sending;
mod store;
mod subscriptions;
mod window;

pub mod inbox;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use delivery::{Delivery, DeliveryError};
pub use error::OutboxError;
pub use events::{
    APPEND_MAX, Appended, Event, EventLog, ExpectedVersion, FILTER_MAX, Filter, Holder, NewEvent, Tap, Tapped,
};
pub use inspect::{Counts, MessageState, MessageView, Outboxes, Swept};
pub use message::{HEADERS_BYTES_MAX, Message, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX};
pub use options::OutboxOptions;
pub use outbox::Outbox;
pub use partitions::PARTITIONS_MAX;
pub use runner::{Runner, Sink};
#[cfg(feature = "postgres")]
pub use subscriptions::PostgresHandler;
#[cfg(feature = "sqlite")]
pub use subscriptions::SqliteHandler;
pub use subscriptions::{
    EventHandler, HandlerError, OnPoison, Page, ParkedEvent, RebuildView, Start, Subscription,
    SubscriptionOptions, SubscriptionState, SubscriptionView, Swap,
};

/// The examples of `docs/subscriptions.md`, compiled.
#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../../docs/subscriptions.md")]
struct SubscriptionsGuide;

/// The examples of `docs/outbox.md`, compiled.
#[cfg(all(doctest, feature = "postgres"))]
#[doc = include_str!("../../../docs/outbox.md")]
struct Guide;
