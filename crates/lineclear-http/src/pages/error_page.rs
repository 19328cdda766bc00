//! Error pages: browsers get a page where programs get a problem.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use super::layout::Layout;
use super::{Page, Region, Tab, database_banner, html_response, is_page};
use crate::App;
use crate::problem::ProblemCause;

/// The middleware, outside of all that refuse a request.
pub(crate) async fn error_page(State(app): State<App>, request: Request, next: Next) -> Response {
    if !is_page(request.uri().path()) || !is_browser(request.headers()) {
        return next.run(request).await;
    }
    let (uri, headers) = (request.uri().clone(), request.headers().clone());
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<ProblemSummary>() else { return response };
    if response.status() == StatusCode::UNAUTHORIZED && uri.path() != "/login" {
        let back = uri.path_and_query().map_or("/", |path| path.as_str());
        let to = format!("{}/login?back={}", app.base, super::components::escape_query(back));
        return Redirect::to(&to).into_response();
    }
    let page = Page {
        title: problem.title.to_owned(),
        tab: Tab::None,
        regions: vec![database_banner(&app), Region::new("refusal", card(&problem, &app.base))],
        live: false,
    };
    let mut page = html_response(response.status(), Layout::of(&app, None, &headers, &uri).wrap(page));
    // For the log.
    if let Some(cause) = response.extensions_mut().remove::<ProblemCause>() {
        page.extensions_mut().insert(cause);
    }
    if let Some(after) = response.headers().get(header::RETRY_AFTER) {
        page.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    page
}

/// The parts of a problem that the page shows. The response carries it as an extension.
#[derive(Clone, Debug)]
pub(crate) struct ProblemSummary {
    pub(crate) title: &'static str,
    pub(crate) detail: String,
    pub(crate) code: String,
    pub(crate) request_id: Option<String>,
}

fn card(problem: &ProblemSummary, base: &str) -> maud::Markup {
    html! {
        div.card.refusal {
            h1 { (problem.title) }
            p { (problem.detail) }
            p.muted {
                code { (problem.code) }
                @if let Some(id) = &problem.request_id { " · request " code { (id) } " (see the server's log and the audit)" }
            }
            p { a.button href={ (base) "/" } { "Overview" } }
        }
    }
}

fn is_browser(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(|accept| accept.contains("text/html"))
}
