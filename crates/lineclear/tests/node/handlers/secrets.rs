//! Secrets that inputs name: resolved for the handler, stored nowhere.

use std::sync::Arc;

use lineclear::model::{JobState, Name, Payload};
use lineclear::secrets::{SecretRequest, UsedSecrets};
use lineclear::store::NewJob;
use lineclear::testing::TestNode;
use lineclear::{
    Client, Ctx, Done, HandlerError, Input, Lineclear, Permanent, Progress, RetryIn, State, StoreError,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Calls, impatient, is};
use crate::kit::{TestStore, quick, until};

const VALUE: &str = "correct-horse-battery";

#[derive(Deserialize)]
struct Mail {
    to: String,
    password: String,
}

async fn known(request: SecretRequest) -> Result<String, HandlerError> {
    match (request.name.as_str(), request.kind.as_str()) {
        ("smtp", "public") => Err(Permanent::new("not for this kind").into()),
        ("smtp", _) => Ok(VALUE.to_owned()),
        ("short", _) => Ok("abc".to_owned()),
        _ => Err("the vault does not have it".into()),
    }
}

fn mail() -> Value {
    json!({"to": "ann", "password": {"$secret": "smtp"}})
}

on_each_store! {
    async fn a_handler_gets_the_value_of_a_secret_and_the_database_only_its_name(db) {
        async fn send(Input(mail): Input<Mail>, ctx: Ctx, progress: Progress, calls: State<Arc<Calls>>) -> Result<Done<Value>, HandlerError> {
            assert_eq!((mail.to.as_str(), mail.password.as_str()), ("ann", VALUE));
            progress.set(0.5, &format!("logging in with {VALUE}"));
            let said: String = ctx.step("login", async { Ok(format!("hello {VALUE}")) }).await?;
            let refused = ctx.step("refused", async { Err::<(), _>(format!("535 {VALUE}").into()) }).await;
            match calls.add() {
                1 => Err(format!("cannot send with {VALUE}").into()),
                2 => panic!("in the end: {VALUE}"),
                3 => Err(RetryIn::new(std::time::Duration::from_millis(1), format!("again with {VALUE}")).into()),
                _ => Ok(Done(json!({"said": said, "error": refused.unwrap_err().to_string()}))),
            }
        }
        let node = Lineclear::builder().store(&db.url).options(quick()).state(Arc::new(Calls::default())).secrets(known)
            .kind_with("mail", impatient(5), send).start().await.unwrap();
        let job = node.enqueue("mail", &mail()).await.unwrap().id;
        is(db, &node, job, JobState::Completed).await;
        let detail = node.store().job(job).await.unwrap().unwrap();
        assert_eq!(detail.input.as_deref(), Some(r#"{"password":{"$secret":"smtp"},"to":"ann"}"#));
        assert_eq!(detail.secrets.mask(detail.input.as_deref().unwrap()), detail.input, "its name is shown");
        let errors: Vec<_> = detail.executions.iter().filter_map(|execution| execution.error_message.as_deref()).collect();
        assert_eq!(errors, ["cannot send with •••", "in the end: •••", "again with •••"]);
        assert_eq!(detail.executions[3].output.as_deref(), Some(r#"{"error":"535 •••","said":"hello •••"}"#));
        let steps: Vec<_> = detail.steps.iter().map(|step| (step.output.as_deref(), step.error.as_deref())).collect();
        assert_eq!(steps, [(Some("\"hello •••\""), None), (None, Some("535 •••"))]);
        assert!(!format!("{detail:?}").contains(VALUE), "{detail:?}");
        node.stop().await;
    }

    async fn progress_shows_no_secret(db) {
        async fn wait(Input(mail): Input<Mail>, ctx: Ctx, cancel: lineclear::Cancel) {
            ctx.progress(0.5, &mail.password);
            cancel.requested().await;
        }
        let node = Lineclear::builder().store(&db.url).options(quick()).secrets(known).kind("wait", wait).start().await.unwrap();
        let job = node.enqueue("wait", &mail()).await.unwrap().id;
        until("it shows", async || {
            let progress = node.store().job(job).await.unwrap().unwrap().job.progress;
            progress.inspect(|progress| assert_eq!(progress.text, "•••")).is_some()
        }).await;
        node.store().cancel(job).await.unwrap();
        node.stop().await;
    }
}

/// The error of the first execution, and the state after it.
async fn error_of(node: &TestNode, kind: &str, input: Value) -> (String, JobState) {
    let job = node.enqueue(kind, &input).await.unwrap().id;
    node.run_one().await.expect("a job");
    let detail = node.store().job(job).await.unwrap().unwrap();
    (detail.executions[0].error_message.clone().unwrap_or_default(), detail.job.state)
}

#[tokio::test]
async fn an_unknown_secret_is_a_failure_that_names_it_and_is_retried() {
    async fn never(calls: State<Arc<Calls>>) {
        calls.add();
    }
    let calls = Arc::new(Calls::default());
    let builder = || Lineclear::builder().state(calls.clone()).kind("mail", never).kind("public", never);
    let node = TestNode::start(builder().secrets(known)).await.unwrap();
    let of = |name: &str| json!({"a": [{"b": {"$secret": name}}]});
    for (kind, name, error, state) in [
        ("mail", "imap", "secret imap: the vault does not have it", JobState::Retrying),
        ("public", "smtp", "secret smtp: not for this kind", JobState::Dead),
        ("mail", "short", "secret short: its value must have 4 to", JobState::Retrying),
    ] {
        let (said, became) = error_of(&node, kind, of(name)).await;
        assert!(said.starts_with(error), "{said}");
        assert_eq!(became, state, "{said}");
    }
    let without = TestNode::start(builder()).await.unwrap();
    let (said, became) = error_of(&without, "mail", of("smtp")).await;
    assert!(said.contains("no source of secrets") && became == JobState::Retrying, "{said}");
    assert_eq!(calls.count(), 0, "no handler ran");
}

#[tokio::test]
async fn a_malformed_marker_is_refused_wherever_an_input_comes_from() {
    async fn nothing() {}
    let node = TestNode::start(Lineclear::builder().kind("mail", nothing).secrets(known)).await.unwrap();
    let bad = Payload::of(&json!({"a": {"$secret": "smtp", "default": "x"}})).unwrap();
    let kind = Name::new("mail").unwrap();
    let refused = |error: StoreError| {
        assert!(error.to_string().contains("\"/a\" must have no other key beside `$secret`"), "{error}");
    };
    refused(node.store().enqueue(NewJob::new(kind.clone(), bad.clone())).await.unwrap_err());
    refused(node.store().enqueue_many(vec![NewJob::new(kind.clone(), bad.clone())]).await.unwrap_err());
    let job = node.enqueue("mail", &()).await.unwrap().id;
    node.drain().await;
    let options = lineclear::store::RetryOptions { input: Some(bad.clone()), ..Default::default() };
    refused(node.store().retry(job, options).await.unwrap_err());
    let options = lineclear::store::TriggerOptions { input: Some(bad.clone()), ..Default::default() };
    refused(node.store().trigger(kind.clone(), options).await.unwrap_err());
    let revival = lineclear::store::Revival { input: Some(bad.clone()), ..Default::default() };
    refused(node.store().revive(Vec::new(), revival).await.unwrap_err());
    let schedule = lineclear::model::Schedule::on_demand();
    let manifest = lineclear::model::Manifest {
        input: bad,
        ..lineclear::model::Manifest::new(kind.clone(), kind, schedule)
    };
    assert!(manifest.check().unwrap_err().to_string().contains("no other key"));
}

/// A check of a kind is written for the input that its handler gets.
#[tokio::test]
async fn a_check_gets_a_text_in_place_of_a_secret_and_a_handler_learns_which_it_was_given() {
    fn check(input: &Payload) -> Result<(), String> {
        let mail: Mail = input.read().map_err(|error| error.to_string())?;
        assert_eq!(mail.password, "$secret");
        Ok(())
    }
    async fn send(Input(mail): Input<Mail>, used: UsedSecrets, client: Client) -> Done<Value> {
        assert!(used.is_secret("/password") && !used.is_secret("/to") && client.running() == 1);
        let places: Vec<_> = used.places().iter().map(|db| db.name.to_string()).collect();
        Done(json!({"used": places, "length": mail.password.len()}))
    }
    let node =
        TestNode::start(Lineclear::builder().kind_checked("mail", check, send).secrets(known)).await.unwrap();
    let job = node.enqueue("mail", &mail()).await.unwrap().id;
    node.drain().await;
    let detail = node.store().job(job).await.unwrap().unwrap();
    let output = format!(r#"{{"length":{},"used":["smtp"]}}"#, VALUE.len());
    assert_eq!(detail.executions[0].output, Some(output));
}
