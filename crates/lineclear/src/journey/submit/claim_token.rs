//! Tokens of claims: they let a worker report about one claim, and about nothing else.
//!
//! `lcc_<payload>.<signature>`: the job, the claim number, the possible holders of its lease and the moment at which it expires, signed
//! with a key that the nodes of a database share. A token needs no row: when its claim is over, it is of no use.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use lineclear_model::Micros;
use sha2_11::Sha256;
use tokio::sync::OnceCell;

use crate::auth::secret::hex_of_random;
use crate::db::statements::Statement;
use crate::db::{Session, Verb, values};
use crate::node::Shared;
use crate::store::{ClaimRef, JobId, NodeId, Store, StoreResult};

const SCHEME: &str = "lcc_";
/// Bytes of the id of a cluster.
const CLUSTER_ID_BYTES: usize = 8;
/// Longest token that is read.
const BYTES_MAX: usize = 512;

/// Why a token of a claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadClaimToken {
    /// This cluster did not issue it.
    #[error("this token was not issued here")]
    Forged,
    /// The time in which its claim could report is over.
    #[error("this token has expired")]
    Expired,
}

/// What a valid token is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenClaim {
    pub(crate) claim: ClaimRef,
    /// The node that submitted the job, and the submitter that may have accepted it.
    pub(crate) holders: [NodeId; 2],
}

/// Issues and checks tokens of claims; reads the key once.
#[derive(Default)]
pub(crate) struct ClaimTokens {
    key: OnceCell<Vec<u8>>,
}

/// The id of the cluster: 16 hexadecimal digits that follow from its key and do not tell it. Ids of jobs are unique within a cluster
/// only; with this one they are unique everywhere.
pub(crate) async fn cluster_id(store: &Store) -> StoreResult<String> {
    let key = store.run(ReadKey(hex_of_random::<32>()?)).await?;
    Ok(cluster_of(&key))
}

fn cluster_of(key: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(b"lineclear cluster v1");
    mac.finalize().into_bytes().iter().take(CLUSTER_ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

impl ClaimTokens {
    async fn key(&self, shared: &Shared) -> StoreResult<&[u8]> {
        let read = || async { shared.store.run(ReadKey(hex_of_random::<32>()?)).await };
        self.key.get_or_try_init(read).await.map(Vec::as_slice)
    }

    /// A token for a claim, valid for so long from now.
    pub(crate) async fn issue(
        &self,
        shared: &Shared,
        claim: ClaimRef,
        holders: [NodeId; 2],
        valid: Duration,
    ) -> StoreResult<String> {
        let expires_at = now(shared).saturating_add_unsigned(valid.as_secs() + 1);
        let payload = format!("{}.{}.{}.{}.{expires_at}", claim.job, claim.no, holders[0], holders[1]);
        let signature = sign(self.key(shared).await?, payload.as_bytes());
        Ok(format!("{SCHEME}{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode(signature)))
    }

    /// What a token is about, or why it is refused.
    pub(crate) async fn check(
        &self,
        shared: &Shared,
        token: &str,
    ) -> StoreResult<Result<TokenClaim, BadClaimToken>> {
        Ok(read(self.key(shared).await?, token, now(shared)))
    }
}

/// The database's clock, in seconds: the clocks of the node that issues a token and of the one that checks it may differ. A client
/// without a node knows only that of its machine.
fn now(shared: &Shared) -> i64 {
    let clock = shared.caution.database_clock().unwrap_or_else(|| Micros::from(jiff::Timestamp::now()));
    clock.get() / 1_000_000
}

fn mac(key: &[u8], payload: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(b"lineclear claim v1.");
    mac.update(payload);
    mac
}

fn sign(key: &[u8], payload: &[u8]) -> Vec<u8> {
    mac(key, payload).finalize().into_bytes().to_vec()
}

fn read(key: &[u8], token: &str, now: i64) -> Result<TokenClaim, BadClaimToken> {
    let parts = || {
        let (payload, signature) =
            token.strip_prefix(SCHEME).filter(|_| token.len() <= BYTES_MAX)?.split_once('.')?;
        let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
        // Compares in constant time.
        mac(key, &payload).verify_slice(&URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let text = String::from_utf8(payload).ok()?;
        let numbers: Vec<i64> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [job, no, submitted_by, accepted_by, expires_at] = numbers.try_into().ok()?;
        let claim = ClaimRef { job: JobId(job), no: u32::try_from(no).ok()? };
        Some((TokenClaim { claim, holders: [NodeId(submitted_by), NodeId(accepted_by)] }, expires_at))
    };
    let (about, expires_at) = parts().ok_or(BadClaimToken::Forged)?;
    if now > expires_at { Err(BadClaimToken::Expired) } else { Ok(about) }
}

/// Verb: the key of the cluster; if there is none, this one becomes it.
struct ReadKey(String);

impl Verb for ReadKey {
    type Answer = Vec<u8>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<u8>> {
        let mut rows = session.rows(Statement::ClaimKeyRead, values![]).await?;
        if rows.is_empty() {
            session.rows(Statement::ClaimKeyWrite, values![self.0.clone()]).await?;
            rows = session.rows(Statement::ClaimKeyRead, values![]).await?;
        }
        let row = rows.first().ok_or_else(|| crate::error::no_answer("claim_key_read"))?;
        Ok(row.get::<String>("secret")?.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Lineclear;
    use crate::handler::Kinds;
    use crate::store::StoreOptions;
    use crate::testing::Clock;

    /// The machine's clock is months away from it.
    #[tokio::test]
    async fn a_token_expires_by_the_clock_of_the_database() {
        let clock = Clock::new(crate::db::clock::parse("2026-01-01T00:00:00Z"));
        let store = Store::open(StoreOptions::in_memory(clock.clone())).await.unwrap();
        let shared = Lineclear::builder().share(Kinds::default(), Default::default(), store).await.unwrap();
        let about = TokenClaim { claim: ClaimRef { job: JobId(7), no: 2 }, holders: [shared.id, shared.id] };
        let issued = shared.claim_tokens.issue(&shared, about.claim, about.holders, Duration::from_secs(600));
        let token = issued.await.unwrap();
        assert_eq!(shared.claim_tokens.check(&shared, &token).await.unwrap(), Ok(about));
        clock.advance(Duration::from_secs(700));
        shared.note_clock(Instant::now(), clock.now());
        let late = shared.claim_tokens.check(&shared, &token).await.unwrap();
        assert_eq!(late, Err(BadClaimToken::Expired), "a heartbeat told the node");
    }

    fn token(key: &[u8], payload: &str) -> String {
        let signature = URL_SAFE_NO_PAD.encode(sign(key, payload.as_bytes()));
        format!("{SCHEME}{}.{signature}", URL_SAFE_NO_PAD.encode(payload))
    }

    #[test]
    fn a_token_is_about_its_claim_alone_and_expires() {
        let good = token(b"key", "7.2.40.41.1000");
        let claim = ClaimRef { job: JobId(7), no: 2 };
        let about = TokenClaim { claim, holders: [NodeId(40), NodeId(41)] };
        assert_eq!(read(b"key", &good, 1_000), Ok(about));
        assert_eq!(read(b"key", &good, 1_001), Err(BadClaimToken::Expired));
        assert_eq!(read(b"other key", &good, 1_000), Err(BadClaimToken::Forged));
    }

    #[test]
    fn each_key_has_a_cluster_id_of_its_own() {
        let id = cluster_of(b"key");
        assert_eq!((id.len(), id.clone()), (16, cluster_of(b"key")));
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id != cluster_of(b"other key"), "{id}");
    }

    #[test]
    fn a_changed_token_is_forged() {
        let good = token(b"key", "7.2.40.41.1000");
        let other_claim = URL_SAFE_NO_PAD.encode("8.2.40.41.1000");
        let signature = good.split_once('.').unwrap().1;
        let longer = format!("{good}{}", "A".repeat(600));
        for bad in [
            String::new(),
            SCHEME.to_owned(),
            "lcc_.".to_owned(),
            good.replace("lcc_", "lc_"),
            format!("{SCHEME}{other_claim}.{signature}"),
            format!("{good}A"),
            good[..good.len() - 2].to_owned(),
            longer,
            token(b"key", "7.2.40.1000"),
            token(b"key", "7.-2.40.41.1000"),
            token(b"key", "7.two.40.41.1000"),
        ] {
            assert_eq!(read(b"key", &bad, 1), Err(BadClaimToken::Forged), "{bad}");
        }
    }
}
