//! Confirmation pages: each action has a page that says what will happen and shows the CLI command. So every action works
//! without a script, has an address, and can be read before it is done.

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::de::DeserializeOwned;

use super::components::cli_hint;
use super::{Page, Region, Tab, View};
use crate::App;
use crate::problem::Problem;

/// Extracts a submitted form.
pub(super) struct FormBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for FormBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<FormBody<T>, Problem> {
        match Form::<T>::from_request(request, state).await {
            Ok(Form(filled)) => Ok(FormBody(filled)),
            Err(bad) => Err(unreadable(&bad)),
        }
    }
}

fn unreadable(bad: &FormRejection) -> Problem {
    Problem::new(bad.status(), "form", bad.body_text())
}

/// An action to confirm.
pub(super) struct Confirmation<'a> {
    /// A question: `Cancel job 7?`
    pub(super) title: String,
    /// What will happen.
    pub(super) what: Markup,
    /// Fields of the form.
    pub(super) fields: Markup,
    /// The label of the button.
    pub(super) button: &'a str,
    /// Whether it cannot be undone.
    pub(super) danger: bool,
    /// The CLI command; empty if there is none.
    pub(super) cli: String,
    /// The page to return to.
    pub(super) back: String,
    pub(super) tab: Tab,
}

/// The confirmation page. Its form posts to the same path.
pub(super) fn page(view: &View<'_>, action: Confirmation<'_>) -> Page {
    let html = html! {
        form.card.ask method="post" action=(view.link(view.uri.path())) {
            h1 { (action.title) }
            div.what { (action.what) }
            (action.fields)
            div.buttons {
                button.danger[action.danger].primary[!action.danger] type="submit" { (action.button) }
                a.button href=(view.link(&action.back)) { "Cancel" }
            }
            @if !action.cli.is_empty() { (cli_hint(&action.cli)) }
        }
    };
    Page { title: action.title, tab: action.tab, regions: vec![Region::new("ask", html)], live: false }
}

/// Redirects after an action, so that a reload does not repeat it.
pub(super) fn redirect(app: &App, to: &str) -> Response {
    Redirect::to(&format!("{}{to}", app.base)).into_response()
}
