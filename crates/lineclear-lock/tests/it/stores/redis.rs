//! Locks in Redis: what other programs see of them, and what this store alone has.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::redis::{AUTO_REFRESH_LOCK, Redis, Warning, auto_refresh};
use lineclear_lock::{Locks, Released};
use lineclear_testkit::PrivateRedis;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Script, cmd};
use uuid::Uuid;

use crate::kit::{Place, SOON, TTL, quick};

/// As an operator would look at it.
pub(crate) async fn client(url: &str) -> MultiplexedConnection {
    let address = url.split('?').next().unwrap();
    redis::Client::open(address).unwrap().get_multiplexed_async_connection().await.unwrap()
}

/// How often Redis was asked to do this.
pub(crate) async fn calls(redis: &mut MultiplexedConnection, command: &str) -> u64 {
    let info: String = cmd("INFO").arg("commandstats").query_async(redis).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn the_key_is_the_name_and_its_value_a_fresh_uuid_v4() {
    let server = PrivateRedis::start(&[]).await.unwrap();
    let locks = Locks::open_with(&server.url(), auto_refresh()).await.unwrap();
    let mut redis = client(&server.url()).await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let held = locks.try_lock(AUTO_REFRESH_LOCK).await.unwrap().unwrap();
        let value: String = redis.get("scheduler:auto-refresh:lock").await.unwrap();
        let token = Uuid::parse_str(&value).unwrap();
        assert_eq!((token.get_version_num(), token.to_string()), (4, value));
        let left: u64 = redis.pttl(AUTO_REFRESH_LOCK).await.unwrap();
        assert!((500_000..=600_000).contains(&left), "{left} ms");
        tokens.push(token);
        held.release().await.unwrap();
        let there: bool = redis.exists(AUTO_REFRESH_LOCK).await.unwrap();
        assert!(!there);
    }
    assert_ne!(tokens[0], tokens[1]);
    let beside: i64 = redis.pttl(format!("lineclear:lock:{AUTO_REFRESH_LOCK}")).await.unwrap();
    assert_eq!(beside, -1, "what is known of a lock does not end");
}

#[tokio::test]
async fn another_program_that_locks_the_same_way_and_ours_keep_each_other_out() {
    let server = PrivateRedis::start(&[]).await.unwrap();
    let locks = Locks::open_with(&server.url(), auto_refresh()).await.unwrap();
    let mut redis = client(&server.url()).await;
    let token = Uuid::new_v4().to_string();
    let mut set = cmd("SET");
    set.arg(AUTO_REFRESH_LOCK).arg(&token).arg("NX").arg("PX").arg(600_000);
    let guarded = |verb: &str| {
        Script::new(&format!("if redis.call('get', KEYS[1]) == ARGV[1] then return {verb} else return 0 end"))
    };
    let theirs: Option<String> = set.query_async(&mut redis).await.unwrap();
    assert_eq!(theirs.as_deref(), Some("OK"));
    assert!(locks.try_lock(AUTO_REFRESH_LOCK).await.unwrap().is_none(), "theirs keeps ours out");
    let seen = locks.read(AUTO_REFRESH_LOCK).await.unwrap().unwrap();
    assert_eq!(seen.holder, format!("unknown, with token {token}"));
    assert!(seen.ends_in.is_some());
    let release = guarded("redis.call('del', KEYS[1])");
    let mut release = release.key(AUTO_REFRESH_LOCK);
    release.arg(&token);
    assert_eq!(release.invoke_async::<i64>(&mut redis).await.unwrap(), 1);

    let held = locks.try_lock(AUTO_REFRESH_LOCK).await.unwrap().unwrap();
    let theirs: Option<String> = set.query_async(&mut redis).await.unwrap();
    assert_eq!(theirs, None, "ours keeps theirs out");
    assert_eq!(release.invoke_async::<i64>(&mut redis).await.unwrap(), 0, "nor can they release ours");
    let extend = guarded("redis.call('expire', KEYS[1], ARGV[2])");
    let extended: i64 =
        extend.key(AUTO_REFRESH_LOCK).arg(&token).arg(1).invoke_async(&mut redis).await.unwrap();
    assert_eq!(extended, 0);
    assert_eq!(held.confirm().await.unwrap(), Ok(()));
    assert_eq!(held.release().await.unwrap(), Released::Clean);
}

#[tokio::test]
async fn acquire_and_release_take_one_round_trip_each() {
    let server = PrivateRedis::start(&[]).await.unwrap();
    let locks = Locks::open_with(&server.url(), auto_refresh()).await.unwrap();
    let mut redis = client(&server.url()).await;
    // Connected, and the scripts are there.
    locks.try_lock("report").await.unwrap().unwrap().release().await.unwrap();
    let _: () = cmd("CONFIG").arg("RESETSTAT").query_async(&mut redis).await.unwrap();
    locks.try_lock("report").await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(calls(&mut redis, "evalsha").await, 2);
    for command in ["eval", "script|load", "ping", "wait", "client|setinfo", "hello"] {
        assert_eq!(calls(&mut redis, command).await, 0, "{command}");
    }
}

#[tokio::test]
async fn scripts_that_redis_has_forgotten_are_sent_again() {
    let server = PrivateRedis::start(&[]).await.unwrap();
    let locks = Locks::open_with(&server.url(), quick()).await.unwrap();
    let mut redis = client(&server.url()).await;
    let mut forget = async || cmd("SCRIPT").arg("FLUSH").exec_async(&mut redis).await.unwrap();
    for _ in 0..2 {
        forget().await;
        let held = locks.try_lock("report").await.unwrap().unwrap();
        forget().await;
        assert_eq!(held.confirm().await.unwrap(), Ok(()));
        forget().await;
        assert_eq!(held.release().await.unwrap(), Released::Clean);
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_cycle() {
    let server = PrivateRedis::start(&[]).await.unwrap();
    let locks = Locks::open_with(&server.url(), auto_refresh()).await.unwrap();
    let mut redis = client(&server.url()).await;
    let mut last = 0;
    for _ in 0..5 {
        let held = locks.try_lock("report").await.unwrap().unwrap();
        assert!(held.epoch().get() > last);
        last = held.epoch().get();
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
        let killed: i64 = kill.query_async(&mut redis).await.unwrap();
        assert_eq!(killed, 1);
        held.release().await.unwrap();
        assert!(locks.try_lock("report").await.unwrap().is_some());
        locks.flush().await;
    }
}

#[tokio::test]
async fn a_name_that_is_another_lock_s_memory_is_refused() {
    let locks = Locks::open_with(&lineclear_testkit::redis_url(), quick()).await.unwrap();
    let error = locks.try_lock("lineclear:lock:report").await.unwrap_err().to_string();
    assert!(error.starts_with("refused by lock_name: "), "{error}");
    for (url, rule) in [
        ("rediss://127.0.0.1:1", "lock_url"),
        ("redis://127.0.0.1:1?colour=red", "lock_url"),
        ("redis://127.0.0.1:1?replicas=1&replicas_timeout=5000", "replicas_timeout"),
    ] {
        let error = Locks::open_with(url, quick()).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("refused by {rule}: ")), "{error}");
    }
}

#[tokio::test]
async fn a_redis_that_may_throw_locks_away_is_told_of() {
    let server =
        PrivateRedis::start(&["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]).await.unwrap();
    let redis = Redis::new(&server.url(), &quick()).unwrap();
    Locks::new(Arc::new(redis.clone()), quick()).await.unwrap();
    let evicts = Warning::MayEvict { policy: "allkeys-lru".to_owned() };
    assert_eq!(redis.warnings(), [evicts, Warning::MayForget]);
}

#[tokio::test]
async fn a_lock_that_replicas_do_not_know_of_is_not_granted() {
    let primary = PrivateRedis::start(&["--repl-diskless-sync-delay", "0"]).await.unwrap();
    let port = primary.port().to_string();
    let mut replica = PrivateRedis::start(&["--replicaof", "127.0.0.1", &port]).await.unwrap();
    let mut redis = client(&primary.url()).await;
    tokio::time::timeout(SOON, async {
        loop {
            let know: u32 = cmd("WAIT").arg(1).arg(100).query_async(&mut redis).await.unwrap();
            if know == 1 {
                return;
            }
        }
    })
    .await
    .expect("the replica follows");

    let careless = Redis::new(&primary.url(), &quick()).unwrap();
    Locks::new(Arc::new(careless.clone()), quick()).await.unwrap();
    assert!(careless.warnings().contains(&Warning::ReplicasNotWaitedFor { replicas: 1 }));
    let error = Locks::open_with(&replica.url(), quick()).await.unwrap_err().to_string();
    assert!(error.starts_with("refused by redis_role: "), "{error}");

    let url = format!("{}?replicas=1&replicas_timeout=200", primary.url());
    let careful = Redis::new(&url, &quick()).unwrap();
    let locks = Locks::new(Arc::new(careful.clone()), quick()).await.unwrap();
    assert_eq!(careful.warnings(), [Warning::MayForget]);
    let held = locks.acquire("report", SOON).await.unwrap().unwrap();
    let there: bool = client(&replica.url()).await.exists("report").await.unwrap();
    assert!(there, "the replica knew of it before we did");
    held.release().await.unwrap();

    replica.stop();
    let error = locks.try_lock("report").await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("only 0 of 1 replicas"), "{error}");
    locks.flush().await;
    let there: bool = redis.exists("report").await.unwrap();
    assert!(!there, "what was not granted is not left behind");
}

/// Both versions of a program ask for the lock at every cycle; the one that holds it keeps the other out.
#[tokio::test]
async fn two_versions_that_overlap_for_ten_cycles_run_each_once() {
    let place = Place::redis();
    let (blue, green) = (place.locks().await, place.locks().await);
    let mut ran = Vec::new();
    for cycle in 0..10 {
        let asked = Arc::new(tokio::sync::Barrier::new(2));
        let run = async |version: &'static str, locks: &Locks| {
            let asked = asked.clone();
            let work = async |_| {
                // The cycle's work takes until the other version has asked, too.
                asked.wait().await;
                version
            };
            let done = locks.run_exclusive(AUTO_REFRESH_LOCK, Duration::ZERO, work).await.unwrap();
            if let lineclear_lock::Exclusive::Busy = done {
                asked.wait().await;
            }
            done
        };
        let (first, second) = tokio::join!(run("blue", &blue), run("green", &green));
        for done in [first, second] {
            match done {
                lineclear_lock::Exclusive::Done(version) => ran.push((cycle, version)),
                lineclear_lock::Exclusive::Busy => {}
                lineclear_lock::Exclusive::Lost { reason, .. } => panic!("{reason}"),
            }
        }
    }
    let cycles: Vec<i32> = ran.iter().map(|(cycle, _)| *cycle).collect();
    assert_eq!(cycles, (0..10).collect::<Vec<_>>(), "{ran:?}");
}

/// A lock keeps two from running at once, and no more: a version whose timer is late finds the lock free again. The cycle
/// must be marked where it cannot be marked twice.
#[tokio::test]
async fn versions_whose_timers_differ_need_a_mark_for_each_cycle() {
    let place = Place::redis();
    let (blue, green) = (place.locks().await, place.locks().await);
    let (mut without_mark, mut with_mark) = (0, 0);
    let mut marked = std::collections::BTreeSet::new();
    for cycle in 0..10 {
        for locks in [&blue, &green] {
            let held = locks.try_lock(AUTO_REFRESH_LOCK).await.unwrap().expect("the other is done");
            without_mark += 1;
            with_mark += i32::from(marked.insert(cycle));
            held.release().await.unwrap();
        }
    }
    assert_eq!((without_mark, with_mark), (20, 10));
}

#[tokio::test]
async fn a_deleted_lock_is_lost_at_the_next_renewal() {
    let place = Place::redis();
    let held = place.locks().await.try_lock("report").await.unwrap().unwrap();
    let url = place.url.clone().unwrap();
    let key = format!("{}report", url.split_once("prefix=").unwrap().1);
    let deleted: i64 = client(&url).await.del(key).await.unwrap();
    assert_eq!(deleted, 1);
    tokio::time::timeout(TTL, held.lost().cancelled()).await.expect("long before it would have ended");
    assert_eq!(held.lost_reason(), Some(lineclear_lock::LostReason::TakenOver));
}
