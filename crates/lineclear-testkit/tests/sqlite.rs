//! Copies of SQLite files.

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use lineclear_testkit::Template;

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn a_file_is_built_at_most_once_for_all_that_copy_it() {
    let folder = folder("copied");
    let template = Template::new("files", &folder.display().to_string());
    let built = AtomicU32::new(0);
    let build = async |path: PathBuf| {
        built.fetch_add(1, Ordering::Relaxed);
        fs::write(path, "contents").unwrap();
    };
    for name in ["one", "other"] {
        template.sqlite(&folder.join(name), build).await;
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), "contents");
    }
    // Once where `make test` or `make up` keep a folder for it; without one there is nothing to copy from.
    let kept = std::env::var_os("LINECLEAR_TEST_FOLDER").is_some_and(|folder| PathBuf::from(folder).is_dir());
    assert!(built.load(Ordering::Relaxed) == 1 || !kept);
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn other_files_in_a_folder_make_another_template() {
    let (migrations, copies) = (folder("migrations"), folder("copies"));
    fs::create_dir_all(migrations.join("deep")).unwrap();
    for text in ["first", "second"] {
        fs::write(migrations.join("deep/0001.sql"), text).unwrap();
        let template = Template::of_folder("folders", &migrations);
        let file = copies.join(text);
        template.sqlite(&file, async |path| fs::write(path, text).unwrap()).await;
        assert_eq!(fs::read_to_string(file).unwrap(), text);
    }
    fs::remove_dir_all(migrations).unwrap();
    fs::remove_dir_all(copies).unwrap();
}
