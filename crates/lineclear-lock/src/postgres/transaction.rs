//! Locks that last as long as a transaction of the caller, and fences for such transactions.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::classify;
use super::target::{checked, sql};
use crate::backend::FenceClass;
use crate::error::LockError;
use crate::lease::Fence;
use crate::name::LockName;

/// The advisory lock that a transaction acquires.
#[derive(Clone, Debug)]
pub enum TransactionKey {
    /// The 64-bit key of a name in a namespace, such as a schema.
    Name(LockName, String),
    /// This number.
    Raw(i64),
    /// `hashtext(name)`: 32 bits, so that names may collide; for sharing a lock with programs that use it.
    Hashtext(String),
}

/// Acquires an advisory lock that ends with the transaction; `false` if another transaction has it. `transaction` must be open: outside of a
/// transaction, the lock ends at once. It does not wait, and works through any pooler.
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

/// Fences an open transaction on the database that has the lock: until the transaction ends, no other process can acquire the lock. `false`:
/// the epoch is not current, and the transaction must be rolled back. Call it before reading what the transaction acts on.
///
/// From here on, the server ends the transaction when it idles for longer than the lock lasts, so that a frozen holder does not block others
/// for ever.
pub async fn fence(transaction: &impl GenericClient, fence: &Fence) -> Result<bool, LockError> {
    let FenceClass::Strict { scope } = &fence.class else {
        return Err(LockError::refused("fence", "the lock is not in PostgreSQL"));
    };
    // The scope of a lock in another kind of database is not a schema, and is refused here.
    let text = sql(include_str!("../../sql/postgres/lock_fence.sql"), &checked(scope)?);
    let (name, epoch) = (fence.name.as_str(), fence.epoch.get());
    let idle = fence.ttl.as_millis().to_string();
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&name, Type::TEXT), (&epoch, Type::INT8), (&idle, Type::TEXT)];
    Ok(transaction.query_typed_opt(&text, &params).await.map_err(classify)?.is_some())
}
