//! Which values are masked.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[test]
fn names_are_taken_apart_before_they_are_judged() {
    for name in [
        "password",
        "Password",
        "dbPassword",
        "db_password",
        "DB-PASSWORD",
        "apiKey",
        "APIKey",
        "api.key",
        "key2",
        "X-Auth-Token",
        "clientSecret",
        "session_cookie",
        "refreshToken",
        "pass",
        "userPWD",
        "AWSSecretAccessKey",
        "jwt",
        "Authorization",
        "dbpassword",
        "authtoken",
        "secretkey",
        "apikeys",
        "privateKey",
        "PGPASSWORD",
        "clientsecret",
        "accesskey",
        "sig",
        "X-Amz-Signature",
        "pin",
        "cardPin",
        "otp",
        "smtp_otp",
        "connectionString",
        "CONNECTION_STRING",
        "connectionstring",
        "dbConnStr",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "monkey",
        "keyboard",
        "passenger",
        "compass",
        "author",
        "authority",
        "tokenize",
        "turkey",
        "secretary",
        "keynote",
        "",
        "n",
        "donkeyKong",
        "bypassed",
        "cookieless",
        "tokenizer",
        "secretariat",
        "passwordless",
        "hotkey",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn secrets_become_dots_and_all_else_stays_as_written() {
    let by_name = Secrets::by_name();
    for (text, shown) in [
        (r#"{"user":"ann","password":"hunter2"}"#, r#"{"user":"ann","password":"•••"}"#),
        (
            r#"{"a":[1e400,-0.10,{"token":12345}],"é":"\u00e9"}"#,
            r#"{"a":[1e400,-0.10,{"token":"•••"}],"é":"\u00e9"}"#,
        ),
        (r#"{"auth":{"a":[1,{"b":"}"}]},"z":1}"#, r#"{"auth":"•••","z":1}"#),
        (r#"{"keys":["a","b"],"secret":null,"pass":true}"#, r#"{"keys":"•••","secret":null,"pass":true}"#),
        (r#"{"pass\u0077ord":"x\"y\\"}"#, r#"{"pass\u0077ord":"•••"}"#),
        (r#"{ "password" : "a" , "b" : [ ] }"#, r#"{"password":"•••","b":[]}"#),
        ("[]", "[]"),
        ("{}", "{}"),
        ("7", "7"),
        (r#""plain""#, r#""plain""#),
        (r#"{"db":"postgres://u:p@h/d","n":1}"#, r#"{"db":"postgres://u:•••@h/d","n":1}"#),
        (r#"["redis:\/\/:p\u0040h"]"#, r#"["redis://:•••@h"]"#),
        (r#"["\/ \u00e9"]"#, r#"["\/ \u00e9"]"#),
    ] {
        assert_eq!(by_name.mask(text).as_deref(), Some(shown), "{text}");
    }
    assert_eq!(by_name.mask("{\"password\":"), None, "not JSON");
    assert_eq!(Secrets::all().mask("[1]").as_deref(), Some("\"•••\""));
}

#[test]
fn marked_fields_are_found_by_their_pointers() {
    let marked =
        |pointers: &[&str]| Secrets::marked(&pointers.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>());
    let text = r#"{"smtp":{"user":"a","host":"b"},"rows":[{"seat":1,"n":2},{"seat":3}],"a/b":"c"}"#;
    for (pointers, shown) in [
        (
            &["/smtp/user"][..],
            r#"{"smtp":{"user":"•••","host":"b"},"rows":[{"seat":1,"n":2},{"seat":3}],"a/b":"c"}"#,
        ),
        (
            &["/rows/*/seat"],
            r#"{"smtp":{"user":"a","host":"b"},"rows":[{"seat":"•••","n":2},{"seat":"•••"}],"a/b":"c"}"#,
        ),
        (&["/a~1b", "/smtp"], r#"{"smtp":"•••","rows":[{"seat":1,"n":2},{"seat":3}],"a/b":"•••"}"#),
        (&["/nothing"], text),
        (&[""], "\"•••\""),
    ] {
        assert_eq!(marked(pointers).mask(text).as_deref(), Some(shown), "{pointers:?}");
    }
    assert!(check(&["/a".to_owned(), String::new()]).is_ok());
    assert!(check(&["a".to_owned()]).unwrap_err().to_string().contains("must be a JSON pointer"));
    assert!(check(&vec![String::new(); 101]).is_err());
}

#[test]
fn the_name_of_a_secret_is_shown_and_a_command_line_shows_no_secret() {
    let by_name = Secrets::by_name();
    for (text, shown) in [
        (r#"{"password":{"$secret":"smtp"},"n":1}"#, r#"{"password":{"$secret":"smtp"},"n":1}"#),
        (r#"{"password":{"$secret":"smtp","x":"hunter2"}}"#, r#"{"password":"•••"}"#),
        (r#"{"a":{"$secret":"hunter 2"}}"#, r#"{"a":{"$secret":"•••"}}"#),
        (r#"{"auth":{"user":"a","pw":{"$secret":"x"}}}"#, r#"{"auth":"•••"}"#),
        (r#"{"auth":["Bearer ",{"$secret":"x"},null]}"#, r#"{"auth":["Bearer ",{"$secret":"x"},null]}"#),
        (
            r#"{"auth":["hunter2",{"$secret":"x"},7,["y"]]}"#,
            r#"{"auth":["•••",{"$secret":"x"},"•••","•••"]}"#,
        ),
        (
            r#"{"argv":["/bin/x","--password","hunter2","--token=t","-v"]}"#,
            r#"{"argv":["/bin/x","--password","•••","--token=•••","-v"]}"#,
        ),
        (
            r#"{"argv":["/bin/x","--password",{"$secret":"x"}]}"#,
            r#"{"argv":["/bin/x","--password",{"$secret":"x"}]}"#,
        ),
        (r#"{"argv":["mysql","-phunter2",["-px"]]}"#, r#"{"argv":["mysql","-p•••",["-px"]]}"#),
        (r#"{"url":"https://h/?X-Amz-Signature=s&n=1"}"#, r#"{"url":"https://h/?X-Amz-Signature=•••&n=1"}"#),
    ] {
        assert_eq!(by_name.mask(text).as_deref(), Some(shown), "{text}");
    }
    assert_eq!(find_mask(r#"{"argv":["/bin/x","--password=•••"]}"#).as_deref(), Some("/argv/1"));
    assert_eq!(by_name.hidden(r#"{"a":1,"auth":["x",{"b":-7}],"pin":1234}"#), ["x", "-7", "1234"]);
}

#[test]
fn a_payload_in_a_log_line_has_no_secrets() {
    let payload = crate::Payload::parse(r#"{"token":"abc","n":1}"#).unwrap();
    assert_eq!(format!("{payload:?}"), r#"Payload("{\"token\":\"•••\",\"n\":1}")"#);
}

#[test]
fn what_a_parser_says_about_a_value_has_no_value() {
    #[derive(Debug, serde::Deserialize)]
    enum Colour {
        Red,
    }
    let said = |error: serde_json::Error| without_value(&error.to_string());
    let type_of = |text: &str| said(serde_json::from_str::<u32>(text).unwrap_err());
    assert_eq!(type_of(r#""hunter2, expected x""#), "invalid type: string, expected u32 at line 1 column 21");
    assert_eq!(type_of("-5"), "invalid value: integer, expected u32 at line 1 column 2");
    let variant = said(serde_json::from_str::<Colour>(r#""hunter2""#).unwrap_err());
    assert_eq!(variant, "unknown variant, expected `Red` at line 1 column 9");
    assert!(matches!(serde_json::from_str::<Colour>(r#""Red""#), Ok(Colour::Red)));
    assert!(type_of("nul").starts_with("EOF while"), "others are left as they are");
}

#[test]
fn dots_that_come_back_are_found() {
    assert_eq!(find_mask(r#"{"a":[{"pass/word":"•••"}]}"#).as_deref(), Some("/a/0/pass~1word"));
    assert_eq!(find_mask(r#"{"a":"\u2022\u2022\u2022"}"#).as_deref(), Some("/a"), "written as escapes");
    assert_eq!(find_mask(r#"{"a":"•\u2022•"}"#).as_deref(), Some("/a"));
    assert_eq!(
        find_mask(r#"{"n":1e400,"password":"•••"}"#).as_deref(),
        Some("/password"),
        "beside any number"
    );
    assert_eq!(find_mask(r#"["postgres://u:•••@h/"]"#).as_deref(), Some("/0"), "as a part of a URL");
    assert_eq!(find_mask(r#"["postgres:\/\/u:\u2022•\u2022@h/"]"#).as_deref(), Some("/0"));
    assert_eq!(find_mask(r#"{"a":"see •••"}"#), None);
    assert_eq!(find_mask(r#"{"•••":"\u2022"}"#), None, "a name is no secret");
    assert_eq!(find_mask(r#"{"a":1}"#), None);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\{}\\[\\],: é]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let name = prop_oneof!["[a-z\"\\\\,]{0,4}", Just("password".to_owned()), Just("apiKey".to_owned())];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The expected result, computed over a tree.
fn naive(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(naive).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| {
                let hidden = is_secret_name(&name) && !value.is_null() && !value.is_boolean();
                (name, if hidden { MASK.into() } else { naive(value) })
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn whatever_the_payload_the_walk_masks_what_a_tree_would(value in json()) {
        let compact = serde_json::to_string(&value).unwrap();
        let spaced = serde_json::to_string_pretty(&value).unwrap();
        let masked = Secrets::by_name().mask(&compact).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&masked).unwrap(), naive(value));
        prop_assert_eq!(Secrets::by_name().mask(&spaced).unwrap(), masked.clone(), "white space does not matter");
        prop_assert_eq!(Secrets::by_name().mask(&masked).unwrap(), masked, "masked twice is masked once");
    }

    #[test]
    fn no_text_makes_the_walk_panic(text in ".{0,40}") {
        let _ = Secrets::by_name().mask(&text);
    }
}
