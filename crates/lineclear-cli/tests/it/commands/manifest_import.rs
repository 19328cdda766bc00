//! `lineclear manifest import`: a crontab becomes manifests that fire when cron would have.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;

use lineclear_model::{Manifest, ManifestFile, Micros, text::parse_moment};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::commands::serve::serve;
use crate::run::{Run, at, command};

/// Imports this text.
fn import(text: &[u8], args: &[&str]) -> Run {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tab"), text).unwrap();
    at(&dir, &[&["manifest", "import", "--crontab", "tab", "--tz", "UTC"], args].concat())
}

fn moment(text: &str) -> Micros {
    parse_moment(text).unwrap()
}

/// The ticks of a stored manifest in 2025, one per line.
fn fires(manifest: &Manifest) -> Vec<String> {
    let (from, to) = (moment("2025-01-01T00:00:00Z"), moment("2026-01-01T00:00:00Z"));
    manifest.schedule.ticks_between(from, to, usize::MAX).iter().map(ToString::to_string).collect()
}

fn sha256(lines: &[String]) -> String {
    Sha256::digest(lines.join("\n")).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Manifests of a crontab that was imported, applied and read from the database again, by the last word of their command.
fn stored(crontab: &str, zone: &str) -> BTreeMap<String, Manifest> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tab"), crontab).unwrap();
    let made = at(&dir, &["manifest", "import", "--crontab", "tab", "--tz", zone, "--out", "jobs.toml"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert_eq!(at(&dir, &["db", "migrate"]).code, Some(0));
    let applied = at(&dir, &["manifest", "apply", "-f", "jobs.toml", "--db", "lineclear.db"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let listed: Value =
        serde_json::from_str(&at(&dir, &["manifest", "list", "--all", "--json", "--db", "lineclear.db"]).out)
            .unwrap();
    let items = listed["items"].as_array().unwrap().iter();
    let manifests = items.map(|item| serde_json::from_value::<Manifest>(item["manifest"].clone()).unwrap());
    let last = |manifest: &Manifest| {
        let input: Value = manifest.input.read().unwrap();
        input["argv"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned()
    };
    manifests.map(|manifest| (last(&manifest), manifest)).collect()
}

#[test]
fn steps_longer_than_their_field_are_imported_with_a_note() {
    let made = import(b"0 0 1 */15 * backup\n", &["--json"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(
        made.err.contains("notes:\n  line 1: month: a step of 15 is longer than the field"),
        "{}",
        made.err
    );
    let json: serde_json::Value = serde_json::from_str(&made.out).unwrap();
    assert!(json["notes"][0]["why"].as_str().unwrap().starts_with("month: a step of 15"), "{json}");
    assert_eq!(json["manifests"][0]["schedule"]["cron"], "0 0 1 */15 *", "{json}");
}

#[test]
fn fifty_lines_fire_when_cronsim_says_over_a_year_of_changing_clocks() {
    let crontab = include_str!("../cron/fifty.crontab");
    let manifests = stored(crontab, "Australia/Sydney");
    let oracle: Vec<Value> = serde_json::from_str(include_str!("../cron/fifty.json")).unwrap();
    assert_eq!((manifests.len(), oracle.len()), (50, 50));
    for said in oracle {
        let number = usize::try_from(said["line"].as_u64().unwrap()).unwrap();
        let line = crontab.lines().nth(number - 1).unwrap();
        let manifest = &manifests[line.split_whitespace().last().unwrap()];
        let fired = fires(manifest);
        let around: Vec<&str> = said["around"].as_str().unwrap().split_whitespace().collect();
        let missing: Vec<&&str> =
            around.iter().filter(|at| !fired.iter().any(|fired| fired == **at)).collect();
        assert!(
            missing.is_empty(),
            "line {number}, {line} in {}: cron also fires at {missing:?}",
            said["zone"]
        );
        assert_eq!(
            (fired.len() as u64, Value::from(sha256(&fired))),
            (said["count"].as_u64().unwrap(), said["sha256"].clone()),
            "line {number}, {line} in {}: cron fires around changes of the clock at {around:?}",
            said["zone"]
        );
    }
}

#[test]
fn a_line_that_cannot_fire_as_with_cron_is_named() {
    let text = b"CRON_TZ=Europe/Berlin\n15 0-23 * * * a\n15 * * * * b\n";
    let made = import(text, &[]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(
        made.err.contains("line 2: its hours are all 24") && !made.err.contains("line 3"),
        "{}",
        made.err
    );
    // It fires every hour, like the line below.
    let manifests = stored(std::str::from_utf8(text).unwrap(), "UTC");
    assert_eq!(fires(&manifests["a"]), fires(&manifests["b"]));
}

const MESSY: &[u8] = b"# nightly things\r\nSHELL=/bin/bash\nPATH=/opt/bin:/bin\nMAILTO=ops\nAPI_TOKEN=s3cret\n\n\
# the first\n30 2 * * * /opt/bin/backup --to \"\\%F\" 'x'\n@reboot /opt/start\n0 0 * * * mail ops%hi\n61 * * * * bad\n\
0 0 30 2 * never\nCRON_TZ=Europe/Belin\n@daily lost\nCRON_TZ=\n@daily root thing\n0 0 * * * a \xff b\n@daily \x1b[31mred\n@daily bin/here";

#[test]
fn skipped_lines_are_noted_and_the_others_are_converted() {
    let made = import(MESSY, &[]);
    assert_eq!(made.code, Some(1), "{}", made.err);
    for part in [
        "4 manifests converted, 8 lines left out; default time zone UTC (from --tz)",
        "line 9: @reboot",
        "line 10: unescaped %",
        "line 11: minute: 61 is not between 0 and 59\n    | 61 * * * *\n    | ^^\n",
        "line 12: \"0 0 30 2 *\" never fires",
        "line 13: CRON_TZ: ",
        "Europe/Berlin",
        "line 14: CRON_TZ on line 13 is not a time zone",
        "line 17: contains bytes that are not UTF-8",
        "line 5: API_TOKEN: looks like a secret",
        "line 4: MAILTO: nothing is mailed",
        "line 16: root is a user of this machine",
        "line 19: uses a relative path",
        "commands = [\n",
        "\"/usr/bin/env\", \"SHELL=/bin/bash\", \"PATH=/opt/bin:/bin\", \"/bin/bash\", \"-c\"",
        "--dry-run",
    ] {
        assert!(made.err.contains(part), "{part}:\n{}", made.err);
    }
    assert!(!made.err.contains("s3cret") && !made.out.contains("s3cret"), "{}{}", made.out, made.err);
    assert!(!made.err.contains('\x1b') && !made.out.contains('\x1b'));
    assert!(made.out.contains("# line 8\n# the first\n[[manifest]]\nkey = \"backup\"\n"), "{}", made.out);
    let file = ManifestFile::from_toml(&made.out).unwrap();
    let keys: Vec<&str> = file.manifest.iter().map(|manifest| manifest.key.as_str()).collect();
    assert_eq!(keys, ["backup", "root", "31mred", "here"], "{}", made.out);
}

#[test]
fn a_first_word_that_may_be_a_user_of_another_machine_is_noted() {
    let crontab = b"0 0 * * * deploy-7 /usr/bin/foo\n@daily deploy-7 /usr/bin/bar\n0 1 * * * deploy-7 now\n\
        0 2 * * * cd /srv && ./x\n0 3 * * * find /tmp -delete\n0 4 * * * X=1 /bin/true\n0 5 * * * /bin/ls /\n";
    let made = import(crontab, &[]);
    assert_eq!(made.code, Some(0), "it is taken, and nothing is guessed: {}", made.err);
    assert!(
        made.err.contains("lines 1, 2: deploy-7 is not a program of this machine and a path follows"),
        "{}",
        made.err
    );
    assert!(
        made.err.contains("add --system") && made.err.matches("a path follows").count() == 1,
        "{}",
        made.err
    );
    assert!(made.out.contains("deploy-7 /usr/bin/foo"), "{}", made.out);
    let said = import(crontab, &["--json"]);
    let notes: Value = serde_json::from_str(&said.out).unwrap();
    let lines: Vec<u64> =
        notes["notes"].as_array().unwrap().iter().filter_map(|note| note["line"].as_u64()).collect();
    assert!(lines.contains(&1) && lines.contains(&2), "{notes}");
    assert!(!import(b"0 0 * * * deploy-7 /usr/bin/foo\n", &["--system"]).err.contains("a path follows"));
}

#[test]
fn the_plan_is_available_as_json() {
    let made = import(MESSY, &["--json"]);
    let plan: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(plan["zone"], "UTC");
    assert_eq!(plan["manifests"][0]["key"], "backup");
    assert_eq!(plan["manifests"][0]["input"]["argv"], plan["commands"][0]);
    let lines = |name: &str| -> Vec<u64> {
        plan[name].as_array().unwrap().iter().map(|one| one["line"].as_u64().unwrap()).collect()
    };
    assert_eq!(lines("left_out"), [5, 9, 10, 11, 12, 13, 14, 17]);
    assert!(lines("notes").contains(&4), "{plan}");
}

/// The crontab that Debian ships.
const DEBIAN: &str = "SHELL=/bin/sh\nPATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin\n
17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }
52 6\t1 * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }
0 4 * * * www-data /usr/bin/php /srv/tidy.php\n#\n";

#[test]
fn users_of_a_system_crontab_are_noted() {
    let made = import(DEBIAN.as_bytes(), &["--system"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(made.err.contains("lines 4, 5, 6, 7: cron ran this as root;"), "{}", made.err);
    assert!(made.err.contains("line 8: cron ran this as www-data;"), "{}", made.err);
    let file = ManifestFile::from_toml(&made.out).unwrap();
    let keys: Vec<&str> = file.manifest.iter().map(|manifest| manifest.key.as_str()).collect();
    assert_eq!(keys, ["cron.hourly", "cron.daily", "cron.weekly", "cron.monthly", "tidy"]);
    let mine = import(DEBIAN.as_bytes(), &["--system", "--user", "www-data"]);
    assert_eq!(mine.code, Some(1), "{}", mine.err);
    assert!(mine.err.contains("lines 4, 5, 6, 7: belongs to user root, not www-data"), "{}", mine.err);
    assert_eq!(ManifestFile::from_toml(&mine.out).unwrap().manifest.len(), 1);
}

#[test]
fn ten_thousand_lines_are_one_declaration_and_too_many_are_refused() {
    let lines = |n: usize| -> String {
        (0..n).map(|n| format!("{} {} * * * /opt/job {n}\r\n", n % 60, n / 60 % 24)).collect()
    };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tab"), lines(10_000)).unwrap();
    let made = at(&dir, &["manifest", "import", "--crontab", "tab", "--tz", "UTC", "--out", "jobs.toml"]);
    assert_eq!(made.code, Some(0), "{}", &made.err[..500]);
    at(&dir, &["db", "migrate"]);
    let applied = at(&dir, &["manifest", "apply", "-f", "jobs.toml", "--db", "lineclear.db"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    assert!(applied.out.ends_with("\n0 unchanged\n"), "{}", &applied.out[applied.out.len() - 100..]);
    let long: String = (0..3_700).map(|n| format!("@daily job{n} {}\n", "x".repeat(1_080))).collect();
    for many in [lines(10_001), long] {
        let many = import(many.as_bytes(), &[]);
        assert!(many.code == Some(2) && many.err.contains("split the crontab"), "{}", many.err);
    }
    let large = import(&vec![b'#'; 5 * 1024 * 1024], &[]);
    assert!(large.code == Some(2) && large.err.contains("bytes"), "{}", large.err);
}

#[test]
fn files_are_written_once_and_standard_input_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let import = |args: &[&str]| {
        let mut child = command(&[&["manifest", "import", "--crontab", "-"], args].concat())
            .current_dir(dir.path())
            .env("TZ", "Europe/Berlin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"@daily date").unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    };
    let made = import(&["--out", "made/"]);
    assert!(made.code == Some(0) && made.out.is_empty(), "{}{}", made.out, made.err);
    assert!(made.err.contains("default time zone Europe/Berlin (from TZ)"), "{}", made.err);
    let written = std::fs::read_to_string(dir.path().join("made/crontab.toml")).unwrap();
    assert!(
        written.contains("tz = \"Europe/Berlin\"") && written.contains("overlap = \"allow\""),
        "{written}"
    );
    let again = import(&["--out", "made"]);
    assert!(again.code == Some(5) && again.err.contains("--force"), "{}", again.err);
    assert_eq!(import(&["--out", "made", "--force"]).code, Some(0));
    assert_eq!(
        std::fs::read_to_string(dir.path().join("made/crontab.toml")).unwrap(),
        written,
        "keys are the same again"
    );
    assert_eq!(import(&[]).out, written);
    let odd =
        command(&["manifest", "import", "--crontab", "/dev/null"]).env("TZ", "CET-1CEST").output().unwrap();
    assert_eq!(odd.status.code(), Some(2), "a zone without a name is not guessed");
    for (args, part) in [
        (&["manifest", "import"][..], "--crontab"),
        (&["manifest", "import", "--crontab", "none"], "none"),
        (&["manifest", "import", "--crontab", "."], "directory"),
        (&["manifest", "import", "--crontab", "-", "--tz", "Mars/Base"], "Mars/Base"),
    ] {
        let refused = at(&dir, args);
        assert!(refused.code == Some(2) && refused.err.contains(part), "{args:?}: {}", refused.err);
    }
}

#[test]
fn an_empty_environment_a_closed_pipe_and_a_read_only_folder_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..5_000).map(|n| format!("@daily job{n}\n")).collect();
    std::fs::write(dir.path().join("tab"), lines).unwrap();
    let line = format!(
        "env -i LC_ALL=C TZ=UTC {} manifest import --crontab tab | head -c 10",
        env!("CARGO_BIN_EXE_lineclear")
    );
    let output = std::process::Command::new("bash")
        .args(["-o", "pipefail", "-c", &line])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"# Converte");
    let into_file =
        at(&dir, &["manifest", "import", "--crontab", "tab", "--tz", "UTC", "--out", "tab/x.toml"]);
    assert!(into_file.code == Some(2) && into_file.err.contains("tab/x.toml"), "{}", into_file.err);
}

/// The whole migration: the printed settings are what a server needs, and a command gets the variables of the crontab.
#[tokio::test]
async fn an_imported_line_runs_with_the_printed_settings_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let crontab = "GREETING=good morning\n0 5 * * * echo \"$GREETING, 100\\%: $0\"\n";
    std::fs::write(dir.path().join("tab"), crontab).unwrap();
    let made = at(&dir, &["manifest", "import", "--crontab", "tab", "--tz", "UTC", "--out", "jobs.toml"]);
    let settings = made.err.split("extend that:\n\n").nth(1).unwrap().split("\n\nthen").next().unwrap();
    std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    let server = format!("http://{address}");
    let applied = at(&dir, &["manifest", "apply", "-f", "jobs.toml", "--server", &server]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let run = at(&dir, &["manifest", "run", "echo", "--server", &server, "--json"]);
    let id = serde_json::from_str::<Value>(&run.out).unwrap()["id"].as_str().unwrap().to_owned();
    let watched = at(&dir, &["job", "watch", &id, "--wait-timeout", "30s", "--server", &server]);
    assert_eq!(
        (watched.code, watched.out.as_str()),
        (Some(0), "good morning, 100%: /bin/sh\n"),
        "{}",
        watched.err
    );
    let other = r#"{"argv": ["/bin/sh", "-c", "id"]}"#;
    let refused = at(
        &dir,
        &["job", "enqueue", "command", "--input", other, "--retries", "0", "--wait", "--server", &server],
    );
    assert_eq!(refused.code, Some(8), "{}", refused.err);
}

#[test]
fn a_line_that_no_system_would_run_is_left_out() {
    let made = import(format!("@daily a {}\n@daily b\n", "x".repeat(131_070)).as_bytes(), &[]);
    assert!(
        made.code == Some(1) && made.err.contains("line 1: `argv` has an argument of 131072 bytes"),
        "{}",
        made.err
    );
    assert_eq!(ManifestFile::from_toml(&made.out).unwrap().manifest.len(), 1);
    let most = import(format!("@daily a {}\n", "x".repeat(131_069)).as_bytes(), &[]);
    assert_eq!(most.code, Some(0), "{}", most.err);
}

#[test]
fn an_import_does_not_overwrite_its_crontab() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.toml");
    std::fs::write(&path, "@daily date\n").unwrap();
    std::os::unix::fs::symlink("a.toml", dir.path().join("other")).unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    std::fs::hard_link(&path, dir.path().join("in/a.toml.toml")).unwrap();
    let lineclear = env!("CARGO_BIN_EXE_lineclear");
    for line in [
        "--crontab a.toml --out a.toml",
        "--crontab other --out a.toml",
        "--crontab a.toml --out in/",
        "--crontab - --out other < a.toml",
    ] {
        let line = format!("{lineclear} manifest import --tz UTC --force {line}");
        let output =
            std::process::Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("the crontab itself"), "{line}: {said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "@daily date\n", "{line}");
    }
}

/// Runs an import of this text.
fn of(dir: &tempfile::TempDir, text: &str, args: &[&str]) -> Run {
    std::fs::write(dir.path().join("a.cron"), text).unwrap();
    at(dir, &[&["manifest", "import", "--crontab", "a.cron", "--tz", "UTC"], args].concat())
}

#[test]
fn the_printed_list_allows_exactly_the_imported_commands() {
    let dir = tempfile::tempdir().unwrap();
    let odd = "cut -d\"\t\" '\u{7f}' \u{1}é \\n";
    let made = of(&dir, &format!("@daily {odd}\n"), &[]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let list = made.err.split("commands = [").nth(1).unwrap().split("\n]").next().unwrap();
    let settings: toml::Table = format!("commands = [{list}\n]").parse().unwrap();
    assert_eq!(settings["commands"][0][2].as_str(), Some(odd), "{}", made.err);
    let file = ManifestFile::from_toml(&made.out).unwrap();
    assert!(file.manifest[0].input.as_str().contains("\\t"), "{}", made.out);
}

#[test]
fn two_crontabs_do_not_overwrite_each_others_manifests() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["db", "migrate"]).code, Some(0));
    let apply = |file: &str, owner: &str| {
        at(&dir, &["manifest", "apply", "-f", file, "--owner", owner, "--db", "lineclear.db"])
    };
    for (name, command) in [("php8.1", "/opt/a/backup one"), ("php8.2", "/opt/b/backup two")] {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("@daily {command}\n")).unwrap();
        let made = at(&dir, &["manifest", "import", "--crontab", name, "--tz", "UTC", "--out", "made/"]);
        assert_eq!(made.code, Some(0), "{}", made.err);
        assert!(made.err.contains(&format!("made/{name}.toml --owner {name} --dry-run")), "{}", made.err);
    }
    assert_eq!(apply("made/php8.1.toml", "php8.1").out, "+ manifest backup\n0 unchanged\n");
    let taken = apply("made/php8.2.toml", "php8.2");
    assert!(taken.code == Some(5) && taken.err.contains("belongs to"), "{}", taken.err);
    let args = ["manifest", "import", "--crontab", "php8.2", "--tz", "UTC", "--out", "made/", "--force"];
    assert_eq!(at(&dir, &[&args[..], &["--prefix", "b"]].concat()).code, Some(0));
    assert_eq!(apply("made/php8.2.toml", "b").out, "+ manifest b-backup\n0 unchanged\n");
}

#[test]
fn an_implausible_import_is_refused_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let user = of(&dir, "*/5 * * * * /usr/bin/backup --all\n", &["--system"]);
    assert!(user.code == Some(1) && user.err.contains("/usr/bin/backup is not a user"), "{}", user.err);
    let system = at(&dir, &["manifest", "import", "--crontab", "/etc/cron.d/x"]);
    assert!(system.code == Some(2) && system.err.contains("--system"), "{}", system.err);
    std::fs::write(dir.path().join("jobs.toml"), "kept").unwrap();
    let empty = of(&dir, "# nothing\n", &["--out", "jobs.toml", "--force"]);
    assert!(empty.code == Some(3) && empty.err.contains("nothing was written"), "{}", empty.err);
    assert_eq!(std::fs::read_to_string(dir.path().join("jobs.toml")).unwrap(), "kept");
    let nowhere = of(&dir, "@daily x\n", &["--out", "no/where.toml"]);
    assert!(nowhere.code == Some(2) && nowhere.err.contains("no/where.toml"), "{}", nowhere.err);
    let secrets = of(&dir, "DB=postgres://a:hunter2@db/x\n@daily PGPASSWORD=x pg_dump\n", &[]);
    assert!(secrets.code == Some(1) && !(secrets.out + &secrets.err).contains("hunter2"));
    assert!(secrets.err.contains("line 2: contains what looks like a password"), "{}", secrets.err);
}
