//! Logging in with a token, and out again.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::action::Filled;
use super::frame::Frame;
use super::{Page, Region, Tab, answer};
use crate::App;
use crate::access::{ClientAddress, Who};
use crate::api::session;
use crate::api::shape::Asked;
use crate::problem::Problem;

#[derive(Default, Deserialize)]
pub(super) struct Back {
    /// Where to go afterwards: a path of ours.
    back: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Given {
    token: String,
    back: Option<String>,
}

pub(super) async fn page(
    State(app): State<App>,
    headers: HeaderMap,
    uri: Uri,
    asked: Asked<Back>,
) -> Response {
    if app.gate.is_open() {
        return Redirect::to(&format!("{}/", app.base)).into_response();
    }
    form(&app, &headers, &uri, asked.0.back.as_deref(), None)
}

pub(super) async fn log_in(
    state: State<App>,
    from: ClientAddress,
    headers: HeaderMap,
    uri: Uri,
    Filled(given): Filled<Given>,
) -> Result<Response, Problem> {
    match session::begin(&state, from, given.token.trim()).await {
        Ok((_, cookie)) => {
            let to = Redirect::to(&format!("{}{}", state.base, ours(given.back.as_deref())));
            Ok(session::with_cookie(to.into_response(), &cookie))
        }
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => {
            Ok(form(&state, &headers, &uri, given.back.as_deref(), Some(problem.said().1)))
        }
        Err(problem) => Err(problem),
    }
}

pub(super) async fn log_out(state: State<App>, who: Who, headers: HeaderMap) -> Result<Response, Problem> {
    let cookie = session::end(&state, &who, &headers).await?;
    let to = Redirect::to(&format!("{}/login", state.base));
    Ok(session::with_cookie(to.into_response(), &cookie))
}

/// A path of ours; anything else is the overview. `//host` and `/\host` are other sites.
pub(super) fn ours(back: Option<&str>) -> &str {
    let is_ours = |path: &&str| {
        path.starts_with('/')
            && !path[1..].starts_with(['/', '\\'])
            && path.chars().all(|c| c.is_ascii_graphic())
    };
    back.filter(is_ours).unwrap_or("/")
}

fn form(app: &App, headers: &HeaderMap, uri: &Uri, back: Option<&str>, wrong: Option<&str>) -> Response {
    let html = html! {
        div.card.login {
            h1 { "Log in" }
            p { "This server asks who you are. Paste a token; the browser keeps a session for twelve hours, and not the token." }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
            form method="post" action={ (app.base) "/login" } {
                input type="hidden" name="back" value=(ours(back));
                label for="token" { "Token" }
                input #token type="password" name="token" required autocomplete="current-password" autofocus placeholder="lc_…";
                button.primary type="submit" { "Log in" }
            }
            p.muted { "No token yet? On the server: " code { "lineclear token create me --scope operate" } }
        }
    };
    let page = Page {
        title: "Log in".to_owned(),
        tab: Tab::None,
        regions: vec![Region::new("login", html)],
        live: false,
    };
    let status = if wrong.is_some() { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
    answer(status, Frame::of(app, None, headers, uri).around(page))
}

#[cfg(test)]
mod tests {
    use super::ours;

    #[test]
    fn nobody_is_sent_to_another_site() {
        assert_eq!(ours(Some("/jobs?q=state:dead")), "/jobs?q=state:dead");
        for other in ["//evil.example", "/\\evil.example", "https://evil.example", "jobs", "", "/a\r\nb"] {
            assert_eq!(ours(Some(other)), "/", "{other:?}");
        }
        assert_eq!(ours(None), "/");
    }
}
