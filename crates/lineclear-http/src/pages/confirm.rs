//! What a page offers to do. It is asked on a page of its own, which says what will happen and how the command line says it; the
//! form there does it. So every action works without a script, has an address, and can be read before it is done.

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::de::DeserializeOwned;

use super::part::cli;
use super::{Page, Region, Tab, View};
use crate::App;
use crate::problem::Problem;

/// What was filled into a form.
pub(super) struct Filled<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Filled<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Filled<T>, Problem> {
        match Form::<T>::from_request(request, state).await {
            Ok(Form(filled)) => Ok(Filled(filled)),
            Err(bad) => Err(unreadable(&bad)),
        }
    }
}

fn unreadable(bad: &FormRejection) -> Problem {
    Problem::new(bad.status(), "form", bad.body_text())
}

/// Something that can be done.
pub(super) struct Ask<'a> {
    /// As a question: `Cancel job 7?`
    pub(super) title: String,
    /// What will happen.
    pub(super) what: Markup,
    /// Fields of the form.
    pub(super) fields: Markup,
    /// The word on the button.
    pub(super) button: &'a str,
    /// It cannot be taken back.
    pub(super) danger: bool,
    /// The same on the command line; empty: it has no word for it.
    pub(super) cli: String,
    /// Where to go if it is not to be done.
    pub(super) back: String,
    pub(super) tab: Tab,
}

/// The page that asks. Its form goes to the page's own path.
pub(super) fn page(view: &View<'_>, ask: Ask<'_>) -> Page {
    let html = html! {
        form.card.ask method="post" action=(view.link(view.uri.path())) {
            h1 { (ask.title) }
            div.what { (ask.what) }
            (ask.fields)
            div.buttons {
                button.danger[ask.danger].primary[!ask.danger] type="submit" { (ask.button) }
                a.button href=(view.link(&ask.back)) { "Leave it" }
            }
            @if !ask.cli.is_empty() { (cli(&ask.cli)) }
        }
    };
    Page { title: ask.title, tab: ask.tab, regions: vec![Region::new("ask", html)], live: false }
}

/// It was done: on to another page, so that loading again does not do it again.
pub(super) fn done(app: &App, to: &str) -> Response {
    Redirect::to(&format!("{}{to}", app.base)).into_response()
}
