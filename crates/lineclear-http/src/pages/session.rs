//! Logging in with a token, and logging out.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::confirm::FormBody;
use super::layout::Layout;
use super::{Page, Region, Tab, html_response};
use crate::App;
use crate::api::json_types::QueryParams;
use crate::api::session;
use crate::auth::{Caller, ClientAddress, require_origin};
use crate::problem::Problem;

#[derive(Default, Deserialize)]
pub(super) struct LogInParams {
    /// The page to return to.
    back: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct LogInForm {
    token: String,
    back: Option<String>,
}

pub(super) async fn page(
    State(app): State<App>,
    headers: HeaderMap,
    uri: Uri,
    params: QueryParams<LogInParams>,
) -> Response {
    if app.guard.is_open() {
        return Redirect::to(&format!("{}/", app.base)).into_response();
    }
    form(&app, &headers, &uri, params.0.back.as_deref(), None)
}

pub(super) async fn log_in(
    state: State<App>,
    from: ClientAddress,
    headers: HeaderMap,
    uri: Uri,
    FormBody(form_body): FormBody<LogInForm>,
) -> Result<Response, Problem> {
    require_origin(&headers)?;
    match session::begin(&state, from, &headers, form_body.token.trim()).await {
        Ok((_, cookie)) => {
            let to = Redirect::to(&format!("{}{}", state.base, local_path(form_body.back.as_deref())));
            Ok(session::with_cookie(to.into_response(), &cookie))
        }
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => {
            Ok(form(&state, &headers, &uri, form_body.back.as_deref(), Some(problem.detail())))
        }
        Err(problem) => Err(problem),
    }
}

pub(super) async fn log_out(
    state: State<App>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let cookie = session::end(&state, &caller, &headers).await?;
    let to = Redirect::to(&format!("{}/login", state.base));
    Ok(session::with_cookie(to.into_response(), &cookie))
}

/// A path of this server; anything else becomes the overview. `//host` and `/\host` are other sites.
pub(super) fn local_path(back: Option<&str>) -> &str {
    let is_local = |path: &&str| {
        path.starts_with('/')
            && !path[1..].starts_with(['/', '\\'])
            && path.chars().all(|c| c.is_ascii_graphic())
    };
    back.filter(is_local).unwrap_or("/")
}

fn form(app: &App, headers: &HeaderMap, uri: &Uri, back: Option<&str>, wrong: Option<&str>) -> Response {
    let html = html! {
        div.card.login {
            h1 { "Log in" }
            p { "This server requires authentication. Paste a token; the browser keeps a session for twelve hours, not the token." }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
            form method="post" action={ (app.base) "/login" } {
                input type="hidden" name="back" value=(local_path(back));
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
    html_response(status, Layout::of(app, None, headers, uri).wrap(page))
}

#[cfg(test)]
mod tests {
    use super::local_path;

    #[test]
    fn a_login_redirects_only_within_this_site() {
        assert_eq!(local_path(Some("/jobs?q=state:dead")), "/jobs?q=state:dead");
        for other in ["//evil.example", "/\\evil.example", "https://evil.example", "jobs", "", "/a\r\nb"] {
            assert_eq!(local_path(Some(other)), "/", "{other:?}");
        }
        assert_eq!(local_path(None), "/");
    }
}
