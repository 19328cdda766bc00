//! `lineclear token`, through the real binary.

use lineclear_testkit::fresh_postgres;
use serde_json::Value;

use crate::commands::serve::serve;
use crate::run::{at, command, lineclear, on_a_terminal};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Creates, lists and revokes a token.
fn is_made_listed_and_revoked(url: &str) {
    let made = lineclear(&["token", "create", "ci", "--scope", "operate", "--expires", "90d", "--db", url]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let token = made.out.trim();
    assert!(token.starts_with("lc_") && token.len() == 78, "only the token is printed: {}", made.out);
    assert!(made.err.contains("not shown again"), "{}", made.err);

    let taken = lineclear(&["token", "create", "ci", "--scope", "read", "--db", url]);
    assert!(taken.code == Some(5) && taken.err.contains("revoke it first"), "{}", taken.err);
    let more = json(
        &lineclear(&[
            "token",
            "create",
            "bot",
            "--scope",
            "read,worker",
            "--expires",
            "never",
            "--json",
            "--db",
            url,
        ])
        .out,
    );
    assert_eq!(
        (&more["scopes"], more["expires_at"].is_null()),
        (&serde_json::json!(["read", "worker"]), true)
    );
    let usual = json(&lineclear(&["token", "create", "usual", "--scope", "read", "--json", "--db", url]).out);
    let at = |name: &str| usual[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    assert_eq!(
        at("expires_at") - at("created_at"),
        90 * 86_400,
        "90 days, unless the creator says otherwise"
    );
    assert_eq!(lineclear(&["token", "revoke", "usual", "--db", url]).code, Some(0));
    let bound = ["token", "create", "mailer", "--scope", "worker", "--kinds", "refund, invoice", "--db", url];
    assert_eq!(lineclear(&bound).code, Some(0));
    let mailer = lineclear(&["token", "list", "--db", url]).out;
    assert!(mailer.contains("\tworker\tinvoice,refund\tlive\t"), "{mailer}");
    assert_eq!(lineclear(&["token", "revoke", "mailer", "--db", url]).code, Some(0));
    assert!(more["token"].as_str().unwrap().contains(more["prefix"].as_str().unwrap()));

    let listed = lineclear(&["token", "list", "--db", url]);
    assert!(listed.out.contains("ci") && listed.out.contains("live"), "{}", listed.out);
    let line = |name: &str, listed: &str| {
        let found = listed.lines().find(|line| line.trim_start().starts_with(name));
        found.unwrap_or_else(|| panic!("{name}: {listed}")).to_owned()
    };
    let fields = |name: &str, listed: &str| -> Vec<String> {
        line(name, listed).split('\t').map(str::to_owned).collect()
    };
    assert!(
        listed.out.starts_with("NAME\tPREFIX\tSCOPES\tKINDS\tSTATE\tCREATED\tBY\tLAST USED\tEXPIRES\n"),
        "{}",
        listed.out
    );
    assert_eq!(fields("bot", &listed.out)[7..], ["", ""], "not used, and without an expiry: {}", listed.out);
    let ci = fields("ci", &listed.out);
    assert!(ci[7].is_empty() && ci[8].ends_with('Z'), "not used, and with an expiry: {}", listed.out);
    assert!(!listed.out.contains("unknown"), "the creator has a name: {}", listed.out);
    assert!(!listed.out.contains(token.rsplit('_').next().unwrap()), "{}", listed.out);
    let revoked = lineclear(&["token", "revoke", "ci", "--db", url]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.err);
    let listed = lineclear(&["token", "list", "--db", url]).out;
    let ci = fields("ci", &listed);
    assert!(ci[4] == "revoked" && ci[8].starts_with("20") && ci[8].ends_with('Z'), "{listed}");
    let again = lineclear(&["token", "revoke", "ci", "--db", url]);
    assert!(again.code == Some(3) && again.err.contains("no live token"), "{}", again.err);
    let listed = json(&lineclear(&["token", "list", "--json", "--db", url]).out);
    let states: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|t| (t["name"].clone(), t["live"].clone())).collect();
    let expected = [
        ("mailer".into(), false.into()),
        ("usual".into(), false.into()),
        ("bot".into(), true.into()),
        ("ci".into(), false.into()),
    ];
    assert_eq!(states, expected, "newest first");
    assert!(!listed.to_string().contains("\"token\""), "{listed}");
}

#[test]
fn a_token_is_made_listed_and_revoked_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.db");
    let none = lineclear(&["token", "list", "--db", file.to_str().unwrap()]);
    assert!(none.code == Some(0) && none.out.lines().count() == 1, "{}", none.out);
    let seen = on_a_terminal(&dir, &["token", "list"], &[]);
    assert!(seen.out.contains("lineclear token create"), "{}", seen.out);
    assert_eq!(
        lineclear(&["token", "list", "--json", "--db", file.to_str().unwrap()]).out,
        "{\"items\":[],\"next\":null}\n"
    );
    assert!(!file.exists(), "looking makes no file");
    is_made_listed_and_revoked(file.to_str().unwrap());
}

#[tokio::test]
async fn a_token_is_made_listed_and_revoked_on_postgres() {
    let database = fresh_postgres().await;
    is_made_listed_and_revoked(&format!("{}?schema=jobs", database.url()));
}

#[test]
fn token_commands_leave_audit_rows() {
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
        serde_json::json!({"token": "1", "name": "ci", "scopes": "read", "expires_in_ms": 90 * 86_400_000_i64})
    );
    let mut rows = database.prepare("select action, target, status, who from audit order by id").unwrap();
    let rows = rows.query_map([], |row| {
        let who: String = row.get(3)?;
        assert!(who.starts_with("cli:"), "{who}");
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    let row = |action: &str, target: &str, status| (action.to_owned(), target.to_owned(), status);
    let made = [row("create_token", "", 201), row("create_token", "", 409), row("revoke_token", "1", 204)];
    assert_eq!(rows, made, "as a server writes it down");
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
fn an_invalid_new_token_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.db");
    let url = file.to_str().unwrap();
    let cases = [
        (["Ci", "--scope", "read", "--expires", "1d"], "cannot stand"),
        (["ci", "--scope", "root", "--expires", "1d"], "read, operate, admin or worker"),
        (["ci", "--scope", "", "--expires", "1d"], "read, operate, admin or worker"),
        (["ci", "--scope", "read", "--expires", "soon"], "--expires"),
    ];
    for (arguments, part) in cases {
        let arguments = [&["token", "create"], &arguments[..], &["--db", url]].concat();
        let run = lineclear(&arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(part), "{arguments:?}: {}", run.err);
    }
    assert!(!file.exists(), "no file was created");
}

#[test]
fn the_creator_is_named_without_a_user_in_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.db");
    let mut command =
        command(&["token", "create", "ci", "--scope", "read", "--json", "--db", file.to_str().unwrap()]);
    for name in ["USER", "LOGNAME", "SUDO_USER"] {
        command.env_remove(name);
    }
    let made = command.output().unwrap();
    let by = json(std::str::from_utf8(&made.stdout).unwrap())["created_by"].as_str().unwrap().to_owned();
    assert!(by.starts_with("cli:") && by != "cli:unknown" && by != "cli:", "{by}");
}

#[tokio::test]
async fn with_server_the_command_uses_the_api_of_that_server() {
    let dir = tempfile::tempdir().unwrap();
    let made = at(&dir, &["token", "create", "boss", "--scope", "admin"]);
    let (_server, address) = serve(&dir, &["--auth", "token"]).await;
    let (server, boss) = (format!("http://{address}"), made.out.trim().to_owned());
    let asked = ["--server", server.as_str(), "--token", boss.as_str()];
    let run = |args: &[&str]| at(&dir, &[args, &asked].concat());
    assert_eq!(at(&dir, &["token", "list", "--server", &server]).code, Some(4), "a token is required");
    let made = run(&["token", "create", "ci", "--scope", "read,worker", "--json"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let reader = json(&made.out);
    assert_eq!(reader["created_by"], "token:boss", "{reader}");
    let reader = reader["token"].as_str().unwrap();
    let listed_jobs = at(&dir, &["job", "list", "--server", &server, "--token", reader]);
    assert_eq!(listed_jobs.code, Some(0), "{}", listed_jobs.err);
    let listed = run(&["token", "list", "--json"]).out;
    assert_eq!(json(&listed), json(&run(&["api", "GET", "/tokens"]).out), "the response of the API");
    assert_eq!(json(&listed)["items"].as_array().unwrap().len(), 2);
    let near = run(&["token", "revoke", "cj"]);
    assert!(near.code == Some(3) && near.err.contains("did you mean ci?"), "{}", near.err);
    assert_eq!(run(&["token", "revoke", "ci"]).code, Some(0));
    assert_eq!(at(&dir, &["job", "list", "--server", &server, "--token", reader]).code, Some(4));

    // The variable replaces the flag, and --db overrides the variable.
    let mut by_variable = command(&["token", "list", "--json"]);
    let by_variable = crate::run::ran(
        by_variable.env("LINECLEAR_SERVER", &server).env("LINECLEAR_TOKEN", &boss).current_dir(dir.path()),
    );
    assert_eq!(json(&by_variable.out)["items"].as_array().unwrap().len(), 2, "{}", by_variable.err);
    let mut straight = command(&["job", "list", "--db", "lineclear.db"]);
    let straight =
        crate::run::ran(straight.env("LINECLEAR_SERVER", "http://127.0.0.1:9").current_dir(dir.path()));
    assert_eq!(straight.code, Some(0), "{}", straight.err);
    assert_eq!(
        at(&dir, &["job", "list", "--db", "lineclear.db", "--server", &server]).code,
        Some(2),
        "the two flags exclude each other"
    );
}
