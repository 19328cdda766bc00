//! Refusals for people: what programs get as a problem, browsers get as a page that says the same, and what to do next.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use super::frame::Frame;
use super::{Page, Region, Tab, answer, is_page};
use crate::App;
use crate::problem::Problem;

/// The middleware: around everything that may refuse a request.
pub(crate) async fn for_people(State(app): State<App>, request: Request, next: Next) -> Response {
    if !is_page(request.uri().path()) || !is_browser(request.headers()) {
        return next.run(request).await;
    }
    let (uri, headers) = (request.uri().clone(), request.headers().clone());
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Said>() else { return response };
    if response.status() == StatusCode::UNAUTHORIZED && uri.path() != "/login" {
        let back = uri.path_and_query().map_or("/", |path| path.as_str());
        let to = format!("{}/login?back={}", app.base, super::part::escaped(back));
        return Redirect::to(&to).into_response();
    }
    let page = Page {
        title: problem.title.clone(),
        tab: Tab::None,
        regions: vec![Region::new("refusal", refusal(&problem, &app.base))],
        live: false,
    };
    let mut page = answer(response.status(), Frame::of(&app, None, &headers, &uri).around(page));
    if let Some(after) = response.headers().get(header::RETRY_AFTER) {
        page.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    page
}

/// What a problem says, left in its answer for us.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) title: String,
    pub(crate) detail: String,
    pub(crate) code: String,
    pub(crate) request_id: Option<String>,
}

impl Said {
    pub(crate) fn of(problem: &Problem) -> Said {
        let (title, detail, code, request_id) = problem.said();
        Said {
            title: title.to_owned(),
            detail: detail.to_owned(),
            code: code.to_owned(),
            request_id: request_id.map(str::to_owned),
        }
    }
}

fn refusal(said: &Said, base: &str) -> maud::Markup {
    html! {
        div.card.refusal {
            h1 { (said.title) }
            p { (said.detail) }
            p.muted {
                code { (said.code) }
                @if let Some(id) = &said.request_id { " · request " code { (id) } ": the server's log and the audit know it by this" }
            }
            p { a.button href={ (base) "/" } { "Overview" } }
        }
    }
}

fn is_browser(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(|accept| accept.contains("text/html"))
}
