//! Bad requests and their expected responses: `tests/corpus/*.toml`.

use serde::Deserialize;

use crate::kit::{Answer, Served};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What is wrong with it.
    what: String,
    #[serde(default = "post")]
    method: String,
    #[serde(default = "jobs")]
    path: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    /// `[text, how often]`: in place of `@` in the body.
    repeat: Option<(String, usize)>,
    /// Bytes that TOML cannot hold, in hexadecimal.
    bytes: Option<String>,
    status: u16,
    code: Option<String>,
    /// Which field is wrong.
    pointer: Option<String>,
}

fn post() -> String {
    "POST".to_owned()
}

fn jobs() -> String {
    "/api/v1/jobs".to_owned()
}

fn cases() -> Vec<(String, Case)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file: File = toml::from_str(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        all.extend(file.case.into_iter().map(|case| (format!("{name}: {}", case.what), case)));
    }
    all
}

async fn ask(served: &Served, case: &Case) -> Answer {
    let mut headers: Vec<(&str, &str)> =
        case.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("Content-Type", "application/json"));
    }
    let body = match (&case.bytes, &case.repeat) {
        (Some(hex), _) => {
            let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
            digits
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect()
        }
        (None, Some((text, times))) => case.body.replace('@', &text.repeat(*times)).into_bytes(),
        (None, None) => case.body.clone().into_bytes(),
    };
    served.send(&case.method, &case.path, &headers, &body).await
}

async fn bad_requests_get_the_expected_response_and_change_nothing(served: &Served) {
    let cases = cases();
    assert!(cases.len() > 60, "{}", cases.len());
    for (what, case) in &cases {
        let answer = ask(served, case).await;
        assert_eq!(answer.status, case.status, "{what}: {answer:?}");
        if let Some(code) = &case.code {
            assert_eq!(&answer.code(), code, "{what}: {answer:?}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
            assert!(answer.json()["detail"].as_str().is_some_and(|words| words.len() > 5), "{what}");
        }
        if let Some(pointer) = &case.pointer {
            assert_eq!(&answer.json()["errors"][0]["pointer"], pointer, "{what}: {answer:?}");
        }
    }
    let left = |page: serde_json::Value| page["items"].as_array().unwrap().len();
    assert_eq!(left(served.get("/api/v1/jobs").await.json()), 0, "no job was made");
    assert_eq!(left(served.get("/api/v1/manifests").await.json()), 0, "no manifest was made");
    assert_eq!(served.get("/readyz").await.status, 200);
}

on_each_store! {
    bad_requests_get_the_expected_response_and_change_nothing
}
