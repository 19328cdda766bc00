//! Locks that last as long as a transaction of the caller's, and fences for such transactions.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::classify;
use super::target::{checked, sql};
use crate::backend::FenceClass;
use crate::error::LockError;
use crate::lease::Fence;
use crate::name::LockName;

/// Which advisory lock a transaction takes.
#[derive(Clone, Debug)]
pub enum TransactionKey {
    /// Our own 64-bit key of a name in a space of names, a schema say.
    Name(LockName, String),
    /// This number.
    Raw(i64),
    /// `hashtext(name)`: 32 bits, so that names may collide; for sharing a lock with programs that use it.
    Hashtext(String),
}

/// Takes an advisory lock that ends with the transaction; `false` if another has it. `transaction` must be one that is open:
/// outside of a transaction the lock ends at once. It waits for nobody, and works through any pooler.
pub async fn try_transaction_lock(
    transaction: &impl GenericClient,
    key: &TransactionKey,
) -> Result<bool, LockError> {
    let row = match key {
        TransactionKey::Hashtext(name) => {
            let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 1] = [(name, Type::TEXT)];
            transaction.query_typed_one("select pg_try_advisory_xact_lock(hashtext($1))", &params).await
        }
        TransactionKey::Name(..) | TransactionKey::Raw(_) => {
            let number = match key {
                TransactionKey::Name(name, space) => name.key(space),
                TransactionKey::Raw(number) => *number,
                TransactionKey::Hashtext(_) => 0,
            };
            transaction
                .query_typed_one("select pg_try_advisory_xact_lock($1)", &[(&number, Type::INT8)])
                .await
        }
    };
    row.map(|row| row.get(0)).map_err(classify)
}

/// Fences an open transaction on the database that holds the lock: until it ends, nobody can take the lock. `false`: the epoch is
/// not current, and the transaction must be rolled back. Call it before you read what you act upon.
///
/// From here on the transaction may idle for as long as the lock lasts; then the server ends it, so that a frozen holder is not in
/// the way for ever.
pub async fn fence(transaction: &impl GenericClient, fence: &Fence) -> Result<bool, LockError> {
    let FenceClass::Strict { scope } = &fence.class else {
        return Err(LockError::refused("fence", "the lock is not in PostgreSQL"));
    };
    // One of another database, whose place is no schema, is refused here.
    let text = sql(include_str!("../../sql/postgres/lock_fence.sql"), &checked(scope)?);
    let (name, epoch) = (fence.name.as_str(), fence.epoch.get());
    let idle = fence.ttl.as_millis().to_string();
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&name, Type::TEXT), (&epoch, Type::INT8), (&idle, Type::TEXT)];
    Ok(transaction.query_typed_opt(&text, &params).await.map_err(classify)?.is_some())
}
