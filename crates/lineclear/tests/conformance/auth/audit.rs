//! The audit: actions and their outcomes are recorded, read page by page, and cleaned when they are old.

use lineclear::model::Scopes;
use lineclear::store::{
    AuditEnd, AuditFilter, AuditId, AuditView, NewAudit, NewSession, NewToken, Retention, SessionId,
    SessionSecret, StoreError, WhichToken,
};

use crate::kit::{TestDb, name};

const DAYS_401: i64 = 401 * 86_400;

fn entry(who: &str, action: &str) -> NewAudit {
    NewAudit {
        who: who.to_owned(),
        token: None,
        action: action.to_owned(),
        target: "nightly".to_owned(),
        request_id: "r1".to_owned(),
    }
}

async fn all(db: &TestDb, filter: &AuditFilter) -> Vec<AuditView> {
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = db.store.audit(filter, before, 2).await.unwrap();
        seen.extend(page.items);
        before = page.next;
        if before.is_none() {
            return seen;
        }
    }
}

async fn token(db: &TestDb) -> lineclear::store::TokenView {
    let scopes = Scopes::parse("read").unwrap();
    let token =
        NewToken { name: name("ci"), scopes, kinds: None, lives: None, created_by: "a test".to_owned() };
    db.store.create_token(token).await.unwrap().0
}

conformance! {
    async fn a_change_is_written_down_before_and_its_outcome_after(db) {
        let entries: Vec<NewAudit> = (0..5).map(|n| entry(&format!("token:t{n}"), "put_manifest")).collect();
        let ids = db.store.audit_begin(entries.clone()).await.unwrap();
        assert_eq!(ids.len(), 5);
        let begun = all(db, &AuditFilter::default()).await;
        assert!(begun.iter().all(|row| row.status.is_none() && row.finished_at.is_none()));
        let order: Vec<(AuditId, NewAudit)> = begun.into_iter().rev().map(|row| (row.id, row.entry)).collect();
        assert_eq!(order, ids.iter().copied().zip(entries).collect::<Vec<_>>(), "each id is of its entry");

        let end = |id, status: u16| AuditEnd { id, status, details: Some(format!("{{\"status\":{status}}}")) };
        db.store.audit_end(vec![end(ids[0], 201), end(ids[3], 409)]).await.unwrap();
        db.store.audit_end(vec![end(ids[0], 500)]).await.unwrap();
        let rows = all(db, &AuditFilter::default()).await;
        let statuses: Vec<Option<u16>> = rows.iter().rev().map(|row| row.status).collect();
        assert_eq!(statuses, [Some(201), None, None, Some(409), None], "the first word stays");
        assert_eq!(rows[4].details.as_deref(), Some("{\"status\":201}"));
        assert!(rows[4].finished_at.unwrap() >= rows[4].at);
    }

    pgbouncer async fn the_audit_is_filtered_by_who_what_and_when(db) {
        for (who, action) in [("token:a", "put_group"), ("token:b", "put_group"), ("token:a", "cancel_job")] {
            db.store.audit_begin(vec![entry(who, action)]).await.unwrap();
        }
        let of = async |filter: AuditFilter| all(db, &filter).await.into_iter().map(|row| row.entry.action).collect::<Vec<_>>();
        let who = |who: &str| AuditFilter { who: Some(who.to_owned()), ..AuditFilter::default() };
        assert_eq!(of(who("token:a")).await, ["cancel_job", "put_group"], "newest first");
        let both = AuditFilter { action: Some("put_group".to_owned()), ..who("token:a") };
        assert_eq!(of(both).await, ["put_group"]);
        assert!(of(who("token:' or 1=1 --")).await.is_empty());
        let now = all(db, &AuditFilter::default()).await[0].at;
        let since = |at| AuditFilter { since: Some(at), ..AuditFilter::default() };
        assert_eq!(of(since(now)).await.len(), 1);
        assert!(of(since(now.offset(1))).await.is_empty());
    }

    async fn what_was_done_is_kept_for_400_days(db) {
        db.store.audit_begin(vec![entry("local", "put_group")]).await.unwrap();
        assert!(db.store.clean(&Retention::default(), 100).await.unwrap().is_nothing());
        db.age("audit", "at", DAYS_401).await;
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().audit, 1);
        assert_eq!(db.count("audit").await, 0);
    }

    async fn text_that_is_too_long_is_refused(db) {
        let refused = db.store.audit_begin(vec![entry(&"x".repeat(2000), "a")]).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
        assert_eq!(db.store.audit_begin(Vec::new()).await.unwrap(), []);
    }

    async fn a_session_lives_twelve_hours_and_not_longer_than_its_token(db) {
        let token = token(db).await;
        let (secret, ends) = db.store.begin_session(NewSession::of(token.id)).await.unwrap().unwrap();
        assert!(ends > token.now.offset(11 * 3_600_000_000) && ends <= token.now.offset(12 * 3_600_000_000 + 60_000_000));
        let found = async |text: &str| db.store.session(&SessionSecret::parse(text).unwrap()).await.unwrap();
        assert_eq!(found(secret.expose()).await.unwrap().token.name, "ci");
        assert!(found(&"0".repeat(64)).await.is_none());
        let rows = db.sql("select * from {t}browser_session").await;
        assert!(rows.iter().flatten().flatten().all(|cell| !cell.contains(secret.expose())), "{rows:?}");
        db.age("browser_session", "expires_at", 12 * 3600 + 60).await;
        assert!(found(secret.expose()).await.is_none());
        assert_eq!(db.store.clean(&Retention::default(), 100).await.unwrap().sessions, 1);
        assert_eq!(db.count("browser_session").await, 0);
    }

    pgbouncer async fn a_session_ends_with_its_token_or_when_its_browser_logs_out(db) {
        let token = token(db).await;
        let (one, _) = db.store.begin_session(NewSession::of(token.id)).await.unwrap().unwrap();
        let (two, _) = db.store.begin_session(NewSession::of(token.id)).await.unwrap().unwrap();
        assert_ne!(one.expose(), two.expose());
        let found = async |text: &str| db.store.session(&SessionSecret::parse(text).unwrap()).await.unwrap();
        db.store.end_session(&SessionSecret::parse(one.expose()).unwrap()).await.unwrap();
        assert!(found(one.expose()).await.is_none() && found(two.expose()).await.is_some());
        db.store.revoke_token(WhichToken::Id(token.id)).await.unwrap().unwrap();
        assert!(found(two.expose()).await.is_none());
        assert_eq!(db.count("browser_session").await, 0);
        assert!(db.store.begin_session(NewSession::of(token.id)).await.unwrap().is_none(), "a revoked token starts no session");
    }

    pgbouncer async fn sessions_are_listed_and_revoked_by_an_id_that_is_no_secret(db) {
        let token = token(db).await;
        let begin = async |n: i64| {
            let address = Some(format!("192.0.2.{n}"));
            let session = NewSession { address, ..NewSession::of(token.id) };
            db.store.begin_session(session).await.unwrap().unwrap().0
        };
        let (one, two, three) = (begin(1).await, begin(2).await, begin(3).await);
        let (mut listed, mut cursor) = (Vec::new(), None);
        loop {
            let page = db.store.sessions(cursor.as_ref(), 1).await.unwrap();
            listed.extend(page.items);
            let Some(next) = page.next else { break };
            cursor = Some(next);
        }
        let mut addresses: Vec<_> = listed.iter().map(|session| session.address.clone().unwrap()).collect();
        addresses.sort();
        assert_eq!(addresses, ["192.0.2.1", "192.0.2.2", "192.0.2.3"], "each once, page by page");
        assert!(listed.iter().all(|session| session.token_name == "ci" && session.expires_at > session.created_at));
        assert!(listed.is_sorted_by(|one, next| one.expires_at >= next.expires_at));
        let secrets = [&one, &two, &three].map(|secret| secret.expose().to_owned());
        assert!(!secrets.iter().any(|secret| format!("{listed:?}").contains(&secret[..8])));
        let second = listed.iter().find(|session| session.address.as_deref() == Some("192.0.2.2")).unwrap();
        let revoked = db.store.revoke_session(&second.id).await.unwrap().unwrap();
        assert_eq!(&revoked, second);
        assert!(db.store.revoke_session(&second.id).await.unwrap().is_none(), "it is over");
        let found = async |text: &str| db.store.session(&SessionSecret::parse(text).unwrap()).await.unwrap().is_some();
        assert_eq!((found(one.expose()).await, found(two.expose()).await, found(three.expose()).await), (true, false, true));
        for text in ["", "0", "%", "g000000000000000", "0000000000000000'", "ABCDEF0123456789"] {
            assert!(SessionId::parse(text).is_none(), "{text}");
        }
    }

    pgbouncer async fn a_new_session_replaces_the_one_that_the_browser_has(db) {
        let token = token(db).await;
        let (old, _) = db.store.begin_session(NewSession::of(token.id)).await.unwrap().unwrap();
        let (other, _) = db.store.begin_session(NewSession::of(token.id)).await.unwrap().unwrap();
        let found = async |text: &str| db.store.session(&SessionSecret::parse(text).unwrap()).await.unwrap().is_some();
        let again = NewSession { replaces: SessionSecret::parse(old.expose()), ..NewSession::of(token.id) };
        let (new, _) = db.store.begin_session(again).await.unwrap().unwrap();
        assert_eq!((found(old.expose()).await, found(new.expose()).await, found(other.expose()).await), (false, true, true));
        let gone = NewSession { replaces: SessionSecret::parse(new.expose()), ..NewSession::of(lineclear::store::TokenId(999)) };
        assert!(db.store.begin_session(gone).await.unwrap().is_none());
        assert!(found(new.expose()).await, "a session that does not begin replaces none");
    }
}
