//! `/api/docs`: the OpenAPI document as a page for people, made from it once. No script, nothing from elsewhere.

mod read;

use askama::Template;
use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Html;
use axum::routing::get;
use utoipa::openapi::OpenApi;

use crate::App;
use read::Section;

/// The one thing that this page loads.
const STYLE: &str = include_str!("../assets/docs.css");
const POLICY: &str =
    "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

#[derive(Template)]
#[template(path = "docs.html")]
struct Page {
    title: String,
    version: String,
    sections: Vec<Section>,
}

/// The page and its style.
pub(crate) fn routes(document: &OpenApi) -> Router<App> {
    let page = page(document);
    let policy = [(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
    let css: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    Router::new()
        .route("/api/docs", get(move || async move { (policy, Html(page)) }))
        .route("/api/docs.css", get(move || async move { (css, STYLE) }))
}

fn page(document: &OpenApi) -> String {
    let json = serde_json::to_value(document).unwrap_or_default();
    let page = Page {
        title: document.info.title.clone(),
        version: document.info.version.clone(),
        sections: read::sections(&json),
    };
    // A template over owned text cannot fail; if it ever does, the document itself is still there.
    page.render().unwrap_or_default()
}
