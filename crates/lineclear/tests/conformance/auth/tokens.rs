//! Tokens: created once, found by their prefix, and invalid when they are revoked or expired.

use std::time::Duration;

use lineclear::model::Scopes;
use lineclear::store::{KnownToken, NewToken, Presented, StoreError, WhichToken};

use crate::kit::{TestDb, name};

fn token(label: &str) -> NewToken {
    let scopes = Scopes::parse("operate").unwrap();
    NewToken { name: name(label), scopes, kinds: None, lives: None, created_by: "a test".to_owned() }
}

/// The token of this secret, if it is valid.
async fn proved(db: &TestDb, text: &str) -> Option<KnownToken> {
    let shown = Presented::parse(text)?;
    let found = db.store.token(&shown).await.unwrap()?;
    found.is_proved_by(&shown).then_some(found)
}

conformance! {
    async fn a_token_is_shown_once_and_kept_as_a_hash(db) {
        let (view, secret) = db.store.create_token(token("ci")).await.unwrap();
        assert!(view.is_live() && view.last_used_at.is_none() && view.expires_at.is_none());
        let found = proved(db, secret.expose()).await.unwrap();
        assert_eq!((found.id, found.name.as_str(), found.scopes.to_string().as_str()), (view.id, "ci", "operate"));
        let (head, secret) = secret.expose().rsplit_once('_').unwrap();
        let other = format!("{head}_{}", "0".repeat(secret.len()));
        assert!(proved(db, &other).await.is_none(), "the prefix alone proves nothing");
        let rows = db.sql("select * from {t}access_token").await;
        assert!(rows.iter().flatten().flatten().all(|cell| !cell.contains(secret)), "{rows:?}");
        assert_eq!(db.store.tokens(None, 10).await.unwrap().items[0].name, "ci");
    }

    async fn a_name_belongs_to_one_living_token(db) {
        db.store.create_token(token("ci")).await.unwrap();
        let refused = db.store.create_token(token("ci")).await.err().unwrap();
        assert!(matches!(&refused, StoreError::Refused { rule, .. } if rule == "token_name"), "{refused}");
        db.store.revoke_token(WhichToken::Name("ci".to_owned())).await.unwrap().unwrap();
        db.store.create_token(token("ci")).await.unwrap();
        let listed = db.store.tokens(None, 10).await.unwrap().items;
        assert_eq!(listed.iter().map(|token| token.is_live()).collect::<Vec<_>>(), [true, false], "newest first");
    }

    async fn a_revoked_token_counts_no_more(db) {
        let (view, secret) = db.store.create_token(token("ci")).await.unwrap();
        let (_, other) = db.store.create_token(token("other")).await.unwrap();
        let revoked = db.store.revoke_token(WhichToken::Id(view.id)).await.unwrap().unwrap();
        assert!(!revoked.is_live());
        assert!(proved(db, secret.expose()).await.is_none());
        assert!(proved(db, other.expose()).await.is_some());
        assert_eq!(db.store.revoke_token(WhichToken::Id(view.id)).await.unwrap(), None, "once");
        assert_eq!(db.store.revoke_token(WhichToken::Name("missing".to_owned())).await.unwrap(), None);
    }

    async fn a_token_ends_by_itself(db) {
        let hour = NewToken { lives: Some(Duration::from_secs(3600)), ..token("ci") };
        let (_, secret) = db.store.create_token(hour).await.unwrap();
        let left = proved(db, secret.expose()).await.unwrap().left.unwrap();
        assert!(left > Duration::from_secs(3500) && left <= Duration::from_secs(3600), "{left:?}");
        db.age("access_token", "expires_at", 3601).await;
        assert!(proved(db, secret.expose()).await.is_none());
        assert!(!db.store.tokens(None, 10).await.unwrap().items[0].is_live());
        for lives in [Duration::ZERO, Duration::from_secs(86_400 * 5000)] {
            let refused = db.store.create_token(NewToken { lives: Some(lives), ..token("x") }).await;
            assert!(matches!(refused, Err(StoreError::Refused { .. })), "{lives:?}");
        }
    }

    async fn a_token_of_a_worker_may_be_bound_to_kinds(db) {
        let worker = |label: &str, kinds: Option<&[&str]>| NewToken {
            scopes: Scopes::parse("worker").unwrap(),
            kinds: kinds.map(|kinds| kinds.iter().map(|kind| name(kind)).collect()),
            ..token(label)
        };
        let bound = worker("mailer", Some(&["refund", "invoice", "refund"]));
        let (view, secret) = db.store.create_token(bound).await.unwrap();
        let kinds = Some(vec![name("invoice"), name("refund")]);
        assert_eq!((&view.kinds, &proved(db, secret.expose()).await.unwrap().kinds), (&kinds, &kinds));
        assert_eq!(db.store.token_of(view.id).await.unwrap().unwrap().kinds, kinds);
        let (_, secret) = db.store.create_token(worker("any", None)).await.unwrap();
        assert_eq!(proved(db, secret.expose()).await.unwrap().kinds, None, "all kinds");
        let of_others = NewToken { kinds: Some(vec![name("invoice")]), ..token("x") };
        let many: Vec<String> = (0..101).map(|n| format!("kind-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for bad in [of_others, worker("x", Some(&[])), worker("x", Some(&many))] {
            let refused = db.store.create_token(bad).await.err().unwrap();
            assert!(matches!(&refused, StoreError::Refused { rule, .. } if rule == "token_kinds"), "{refused}");
        }
    }

    pgbouncer async fn use_is_noted_once_a_minute(db) {
        let (view, secret) = db.store.create_token(token("ci")).await.unwrap();
        assert!(proved(db, secret.expose()).await.unwrap().unused);
        db.store.token_used(view.id).await.unwrap();
        let used = async || db.store.tokens(None, 1).await.unwrap().items[0].last_used_at.unwrap();
        let first = used().await;
        assert!(!proved(db, secret.expose()).await.unwrap().unused);
        db.store.token_used(view.id).await.unwrap();
        assert_eq!(used().await, first);
        db.age("access_token", "last_used_at", 61).await;
        db.store.token_used(view.id).await.unwrap();
        assert!(used().await >= first);
    }

    async fn tokens_are_listed_page_by_page(db) {
        for n in 0..5 {
            db.store.create_token(token(&format!("t{n}"))).await.unwrap();
        }
        let (mut before, mut seen) = (None, Vec::new());
        loop {
            let page = db.store.tokens(before, 2).await.unwrap();
            seen.extend(page.items.into_iter().map(|token| token.name));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["t4", "t3", "t2", "t1", "t0"]);
    }
}
