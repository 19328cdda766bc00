//! Files with secrets.

/// The content of a file that other users cannot read.
pub(crate) fn read_private(file: &str) -> Result<String, String> {
    use std::os::unix::fs::PermissionsExt;
    let cannot = |error: std::io::Error| format!("cannot read {file}: {error}");
    let mode = std::fs::metadata(file).map_err(cannot)?.permissions().mode();
    if mode & 0o004 != 0 {
        return Err(format!("every user can read {file}; protect it with: chmod o-r {file}"));
    }
    std::fs::read_to_string(file).map_err(cannot)
}
