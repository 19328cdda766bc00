//! Parsing crontabs.

use super::*;

fn entries(text: &str) -> Vec<(usize, String, String)> {
    let read = read(text.as_bytes(), false);
    assert_eq!(read.left_out, [], "{text}");
    read.entries.into_iter().map(|entry| (entry.line, entry.when, entry.command)).collect()
}

fn left_out(text: &[u8]) -> Vec<(usize, String)> {
    read(text, false).left_out.into_iter().map(|remark| (remark.line, remark.why)).collect()
}

#[test]
fn lines_are_read_as_cron_reads_them() {
    let line = |n: usize, when: &str, command: &str| (n, when.to_owned(), command.to_owned());
    assert_eq!(
        entries("# c\n\n \t0  2\t* * *   tar c  / \n@daily date +\\%F\n*/5 * * * * echo 'a\\\\b'"),
        [
            line(3, "0 2 * * *", "tar c  / "),
            line(4, "@daily", "date +%F"),
            line(5, "*/5 * * * *", "echo 'a\\b'")
        ]
    );
    assert_eq!(
        entries("0 2 * * * date\r\n\r\n@weekly id\r\n"),
        [line(1, "0 2 * * *", "date"), line(3, "@weekly", "id")]
    );
    assert_eq!(entries("\u{feff}@daily id"), [line(1, "@daily", "id")]);
    assert_eq!(entries(""), []);
    assert_eq!(entries("0 0 * * * héllo €"), [line(1, "0 0 * * *", "héllo €")]);
}

#[test]
fn comments_right_above_a_line_belong_to_it() {
    let read = read(b"# head\n\n# one\n#two\n@daily a\n@daily b\n", false);
    let comments: Vec<Vec<String>> = read.entries.into_iter().map(|entry| entry.comment).collect();
    assert_eq!(comments, [vec!["one".to_owned(), "two".to_owned()], vec![]]);
}

#[test]
fn lines_that_cannot_be_converted_are_left_out_with_their_numbers() {
    for (text, part) in [
        (&b"@reboot /bin/start"[..], "@reboot"),
        (b"0 0 * * * mail ops%hello", "%"),
        (b"0 0 * * * a \\\\% b", "%"),
        (b"0 0 * *", "five fields"),
        (b"0 0 * * *", "five fields"),
        (b"0 0 * * *   ", "five fields"),
        (b"@daily", "five fields"),
        (b"hello", "five fields"),
        (b"0 0 * * * a \xff b", "UTF-8"),
        (b"0 0 * * * a \x00 b", "zero byte"),
    ] {
        let with_others = [b"@daily a\n", text, b"\n@daily b\n"].concat();
        let found = left_out(&with_others);
        assert!(found.len() == 1 && found[0].0 == 2 && found[0].1.contains(part), "{found:?}");
        assert_eq!(read(&with_others, false).entries.len(), 2);
    }
}

#[test]
fn a_crontab_of_the_system_has_users() {
    let read = super::read(
        b"17 *\t* * *\troot    cd / && run-parts --report /etc/cron.hourly\n0 0 * * * root\n",
        true,
    );
    assert_eq!(read.entries[0].user.as_deref(), Some("root"));
    assert_eq!(read.entries[0].command, "cd / && run-parts --report /etc/cron.hourly");
    assert_eq!(read.left_out.len(), 1);
}

#[test]
fn variables_hold_from_their_line_on() {
    let read = super::read(b"@daily a\nA=1\n@daily b\nA=2\n@daily c\n", false);
    let argv: Vec<Vec<String>> =
        read.entries.iter().map(|entry| entry.environment.argv(&entry.command)).collect();
    assert_eq!(argv[0], ["/bin/sh", "-c", "a"]);
    assert_eq!(argv[1], ["/usr/bin/env", "A=1", "/bin/sh", "-c", "b"]);
    assert_eq!(argv[2], ["/usr/bin/env", "A=2", "/bin/sh", "-c", "c"]);
}

/// Whatever the bytes are, each line is taken, left out, or says nothing, and nothing panics.
#[test]
fn no_bytes_make_it_panic() {
    let mut seed = 7u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let bits: [&[u8]; 16] = [
        b"*",
        b" ",
        b"\n",
        b"\r",
        b"%",
        b"\\",
        b"@daily",
        b"=",
        b"\"",
        b"'",
        b"\xff",
        b"\xc3\xa9",
        b"#",
        b"0 0 * * * ",
        b"A",
        b"\0",
    ];
    for _ in 0..20_000 {
        let text: Vec<u8> = (0..next() % 24).flat_map(|_| bits[next() % bits.len()].to_vec()).collect();
        for is_system in [false, true] {
            let read = read(&text, is_system);
            assert!(
                read.entries.iter().all(|entry| !entry.command.is_empty() && !entry.command.contains('\0'))
            );
        }
    }
}
