//! Style, script and icon. Their names contain a digest, so that browsers may cache them forever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// A file.
pub(super) struct Asset {
    /// The name with a part of the digest.
    pub(super) name: String,
    content_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(stem: &str, ending: &str, content_type: &'static str, content: &'static str) -> Asset {
        let digest = Sha256::digest(content.as_bytes());
        let short: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Asset { name: format!("{stem}.{short}.{ending}"), content_type, content }
    }
}

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("app", "css", "text/css; charset=utf-8", include_str!("../../assets/app.css"))
});
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("app", "js", "text/javascript; charset=utf-8", include_str!("../../assets/app.js"))
});
pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("../../assets/icon.svg")));

pub(super) async fn file(Path(name): Path<String>) -> Response {
    let all = [&STYLE, &SCRIPT, &ICON];
    let Some(asset) = all.into_iter().find(|asset| asset.name == name) else {
        return Problem::not_found("such file; reload the page").into_response();
    };
    let headers: [(HeaderName, &str); 2] = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (StatusCode::OK, headers, asset.content).into_response()
}
