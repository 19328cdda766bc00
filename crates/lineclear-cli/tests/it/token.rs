//! `lineclear token`, through the real binary.

use lineclear_testkit::fresh_postgres;
use serde_json::Value;

use crate::run::{command, lineclear};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// From none to one that is revoked.
fn is_made_listed_and_revoked(url: &str) {
    let made = lineclear(&["token", "create", "ci", "--scope", "operate", "--expires", "90d", "--db", url]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let token = made.out.trim();
    assert!(token.starts_with("lc_") && token.len() == 78, "only the token is printed: {}", made.out);
    assert!(made.err.contains("not shown again"), "{}", made.err);

    let taken = lineclear(&["token", "create", "ci", "--scope", "read", "--db", url]);
    assert!(taken.code == Some(5) && taken.err.contains("revoke it first"), "{}", taken.err);
    let more =
        json(&lineclear(&["token", "create", "bot", "--scope", "read,worker", "--json", "--db", url]).out);
    assert_eq!(
        (&more["scopes"], more["expires_at"].is_null()),
        (&serde_json::json!(["read", "worker"]), true)
    );
    assert!(more["token"].as_str().unwrap().contains(more["prefix"].as_str().unwrap()));

    let listed = lineclear(&["token", "list", "--db", url]);
    assert!(listed.out.contains("ci") && listed.out.contains("live"), "{}", listed.out);
    let line = |name: &str, listed: &str| {
        let found = listed.lines().find(|line| line.trim_start().starts_with(name));
        found.unwrap_or_else(|| panic!("{name}: {listed}")).to_owned()
    };
    assert_eq!(
        line("bot", &listed.out).matches("never").count(),
        2,
        "not used, and without end: {}",
        listed.out
    );
    assert_eq!(line("ci", &listed.out).matches("never").count(), 1, "not used: {}", listed.out);
    assert!(!listed.out.contains("unknown"), "somebody has a name: {}", listed.out);
    assert!(!listed.out.contains(token.rsplit('_').next().unwrap()), "{}", listed.out);
    let revoked = lineclear(&["token", "revoke", "ci", "--db", url]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.err);
    let listed = lineclear(&["token", "list", "--db", url]).out;
    assert!(
        line("ci", &listed).contains("revoked") && line("ci", &listed).contains("  ended 20"),
        "{listed}"
    );
    let again = lineclear(&["token", "revoke", "ci", "--db", url]);
    assert!(again.code == Some(3) && again.err.contains("no living token"), "{}", again.err);
    let listed = json(&lineclear(&["token", "list", "--json", "--db", url]).out);
    let states: Vec<_> =
        listed.as_array().unwrap().iter().map(|t| (t["name"].clone(), t["live"].clone())).collect();
    assert_eq!(states, [("bot".into(), true.into()), ("ci".into(), false.into())], "newest first");
    assert!(!listed.to_string().contains("\"token\""), "{listed}");
}

#[test]
fn a_token_is_made_listed_and_revoked_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.db");
    let none = lineclear(&["token", "list", "--db", file.to_str().unwrap()]);
    assert!(none.code == Some(0) && none.out.contains("lineclear token create"), "{}", none.out);
    assert!(!file.exists(), "looking makes no file");
    is_made_listed_and_revoked(file.to_str().unwrap());
}

#[tokio::test]
async fn a_token_is_made_listed_and_revoked_on_postgres() {
    let database = fresh_postgres().await;
    is_made_listed_and_revoked(&format!("{}?schema=jobs", database.url()));
}

#[test]
fn what_the_command_does_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.db");
    let url = file.to_str().unwrap();
    lineclear(&["token", "create", "ci", "--scope", "read", "--db", url]);
    lineclear(&["token", "create", "ci", "--scope", "read", "--db", url]);
    lineclear(&["token", "revoke", "ci", "--db", url]);
    let database = rusqlite::Connection::open(&file).unwrap();
    let made = "select details from audit where action = 'create_token' and status = 201";
    let made: String = database.query_row(made, [], |row| row.get(0)).unwrap();
    assert_eq!(
        json(&made),
        serde_json::json!({"token": "1", "name": "ci", "scopes": "read", "expires_at": null})
    );
    let mut rows = database.prepare("select action, target, status, who from audit order by id").unwrap();
    let rows = rows.query_map([], |row| {
        let who: String = row.get(3)?;
        assert!(who.starts_with("cli:"), "{who}");
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    let row = |action: &str, status| (action.to_owned(), "ci".to_owned(), status);
    assert_eq!(rows, [row("create_token", 201), row("create_token", 409), row("revoke_token", 204)]);
}

#[test]
fn the_database_is_the_one_that_serve_would_take() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lineclear.toml"), "db = \"mine.db\"\n").unwrap();
    let made = command(&["token", "create", "first", "--scope", "admin"])
        .current_dir(dir.path())
        .env_remove("LINECLEAR_DB")
        .env("XDG_CONFIG_HOME", dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    assert!(dir.path().join("mine.db").exists());
}

#[test]
fn a_token_that_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.db");
    let url = file.to_str().unwrap();
    let cases = [
        (["Ci", "--scope", "read", "--expires", "1d"], "cannot stand"),
        (["ci", "--scope", "root", "--expires", "1d"], "read, operate, admin or worker"),
        (["ci", "--scope", "", "--expires", "1d"], "no scope is given"),
        (["ci", "--scope", "read", "--expires", "soon"], "--expires"),
    ];
    for (arguments, part) in cases {
        let arguments = [&["token", "create"], &arguments[..], &["--db", url]].concat();
        let run = lineclear(&arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(part), "{arguments:?}: {}", run.err);
    }
    assert!(!file.exists(), "nothing was made");
}

#[test]
fn somebody_without_a_name_in_the_environment_has_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.db");
    let mut command =
        command(&["token", "create", "ci", "--scope", "read", "--json", "--db", file.to_str().unwrap()]);
    for name in ["USER", "LOGNAME", "SUDO_USER"] {
        command.env_remove(name);
    }
    let made = command.output().unwrap();
    let by = json(std::str::from_utf8(&made.stdout).unwrap())["created_by"].as_str().unwrap().to_owned();
    assert!(by.starts_with("cli:") && by != "cli:unknown" && by != "cli:somebody", "{by}");
}
