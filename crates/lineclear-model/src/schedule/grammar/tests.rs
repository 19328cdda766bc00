//! What is a cron expression, and where one goes wrong.

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
fn a_bad_expression_is_refused_at_its_wrong_part() {
    for (text, part, underlined) in [
        ("61 * * * *", "61 is not between 0 and 59", "61"),
        ("0 24 * * *", "not between 0 and 23", "24"),
        ("0 0 0 * *", "not between 1 and 31", "0"),
        ("*/0 * * * *", "a step of 0", "0"),
        ("*/90 * * * *", "longer than the whole field", "90"),
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
