//! Valid cron expressions, and the positions of errors.

use super::*;

#[test]
fn expressions_get_their_plain_form() {
    for (text, plain) in [
        ("30 2 * * *", "0 30 2 * * *"),
        ("*/10 0 2-4/2 ? JAN,Mar fri-SUN", "*/10 0 2-4/2 * 1,3 5-7"),
        ("0 0 L * *", "0 0 0 L * *"),
        ("0 0 lw,15W * 7", "0 0 0 LW,15W * 0"),
        ("0 0 * * 7L,mon#2,5#L", "0 0 0 * * 0#L,1#2,5#L"),
        ("@Weekly", "0 0 0 * * 0"),
        ("  0\t0   1 1 * ", "0 0 0 1 1 *"),
    ] {
        assert_eq!(check(text).unwrap().text, plain, "{text}");
    }
}

#[test]
fn a_step_longer_than_its_field_leaves_the_first_value_and_a_warning() {
    for (text, plain, both_days, warning) in [
        (
            "*/90 * * * *",
            "0 0 * * * *",
            true,
            "minute: a step of 90 is longer than the field (0 to 59), so that only 0 matches",
        ),
        (
            "0 0 1 */15 *",
            "0 0 0 1 1 *",
            true,
            "month: a step of 15 is longer than the field (1 to 12), so that only 1 matches",
        ),
        (
            "0 0 * * */20",
            "0 0 0 * * 0",
            true,
            "weekday: a step of 20 is longer than the field (0 to 7), so that only 0 matches",
        ),
        ("0 0 * * tue-fri/20", "0 0 0 * * 2", true, "so that only 2 matches"),
        (
            "0 0 */40 * mon",
            "0 0 0 1 * 1",
            true,
            "day of month: a step of 40 is longer than the field (1 to 31), so that only 1 matches",
        ),
        ("0 0 13 * sun-mon/9,fri", "0 0 0 13 * 0,5", false, "weekday: a step of 9"),
    ] {
        let checked = check(text).unwrap();
        assert_eq!((checked.text.as_str(), checked.both_days), (plain, both_days), "{text}");
        assert!(
            matches!(&checked.warnings[..], [one] if one.contains(warning)),
            "{text}: {:?}",
            checked.warnings
        );
    }
    for text in ["*/59 * * * *", "0 0 * */12 *", "0 0 * * */8", "@daily"] {
        assert!(check(text).unwrap().warnings.is_empty(), "{text}");
    }
}

#[test]
fn a_bad_expression_is_refused_at_its_wrong_part() {
    for (text, part, underlined) in [
        ("61 * * * *", "61 is not between 0 and 59", "61"),
        ("0 24 * * *", "not between 0 and 23", "24"),
        ("0 0 0 * *", "not between 1 and 31", "0"),
        ("*/0 * * * *", "a step of 0", "0"),
        ("5/10 * * * *", "write `5-59/10`", "5"),
        ("0 22-2 * * *", "write `22-23,0-2`", "22-2"),
        ("1,,2 * * * *", "remove the comma", "^"),
        ("0 0 * MONTUE *", "not understood", "MONTUE"),
        ("MON * * * *", "not understood", "MON"),
        ("0 0 * * 1#6", "1 to 5", "6"),
        ("0 0 * * L", "`5L`", "L"),
        ("0 0 L-3 * *", "not understood", "L"),
        ("1-2-3 * * * *", "two ends", "1-2-3"),
        ("*,5 * * * *", "useless", "*,5"),
        ("0 0 * * * * *", "5 or 6 fields, this one has 7", "*"),
        ("@fortnightly", "short forms", "@fortnightly"),
        ("+5 * * * *", "not understood", "+5"),
    ] {
        let bad = check(text).expect_err(text);
        assert!(bad.to_string().contains(part), "{text}: {bad}");
        let place = bad.at.expect(text);
        if underlined != "^" {
            assert_eq!(&text[place.from..place.from + place.len], underlined, "{text}");
        }
    }
    for (text, part) in
        [("", "empty"), ("  ", "empty"), ("* * *", "this one has 3"), ("0\u{0} * * * *", "position 2")]
    {
        let bad = check(text).expect_err(text);
        assert!(bad.to_string().contains(part), "{text}: {bad}");
    }
    assert!(check(&"1,".repeat(5 * 1024)).err().unwrap().to_string().contains("10240"));
}
