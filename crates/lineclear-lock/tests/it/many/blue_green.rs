//! Two versions of one program, as real processes that overlap: each cycle is worked on once, and never by both.

use std::time::{Duration, SystemTime};

use lineclear_testkit::Program;

use crate::kit::{Place, SOON};
use crate::many::contend::example;

/// Blue works from cycle 0 to 11, green from 2 to 13: they overlap for ten.
const BLUE: [u64; 2] = [0, 11];
const GREEN: [u64; 2] = [2, 13];
const PERIOD_MS: u64 = 200;

async fn two_versions_that_overlap_for_ten_cycles_run_each_once(place: Place) {
    let url = place.url.as_deref().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks.db").display().to_string();
    // Both have started and opened the store when it begins.
    let begin = SystemTime::now() + Duration::from_secs(2);
    let begin = begin.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let start = |version: &str, [first, last]: [u64; 2]| {
        let numbers = [first.to_string(), last.to_string(), begin.to_string(), PERIOD_MS.to_string()];
        let program = Program::at(example("cycles")).args([url, &marks]).args(numbers);
        program.env("VERSION", version).start().unwrap()
    };
    let mut said = Vec::new();
    for mut child in [start("blue", BLUE), start("green", GREEN)] {
        let status = child.wait_for_exit(SOON * 2).await.unwrap();
        assert!(status.success(), "{status}: {:?}", child.stderr());
        said.extend(child.stdout());
    }
    said.sort();
    println!("{}", said.join("\n"));
    let mut worked: Vec<Work> = said.iter().filter_map(|line| Work::read(line)).collect();
    worked.sort_by_key(|work| work.from);
    let mut cycles: Vec<u64> = worked.iter().map(|work| work.cycle).collect();
    cycles.sort_unstable();
    assert_eq!(cycles, (BLUE[0]..=GREEN[1]).collect::<Vec<_>>(), "each once, and none was left out");
    for pair in worked.windows(2) {
        assert!(pair[0].to <= pair[1].from, "both at once: {pair:?}");
        assert!(pair[0].epoch <= pair[1].epoch, "{pair:?}");
        assert!(pair[0].version == pair[1].version || pair[0].epoch < pair[1].epoch, "{pair:?}");
    }
    let versions: Vec<&str> = worked.iter().map(|work| work.version.as_str()).collect();
    assert!(versions.contains(&"blue") && versions.contains(&"green"), "{versions:?}");
}

/// A line of the program: `blue worked on 3 as 7 from 1000 to 2000`.
#[derive(Debug)]
struct Work {
    version: String,
    cycle: u64,
    epoch: u64,
    from: u64,
    to: u64,
}

impl Work {
    fn read(line: &str) -> Option<Work> {
        let (version, rest) = line.split_once(" worked on ")?;
        let numbers: Vec<u64> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [cycle, epoch, from, to] = numbers[..] else { panic!("{line}") };
        Some(Work { version: version.to_owned(), cycle, epoch, from, to })
    }
}

#[tokio::test]
async fn two_versions_that_overlap_for_ten_cycles_run_each_once_on_postgres() {
    two_versions_that_overlap_for_ten_cycles_run_each_once(Place::postgres("lock=lease").await).await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn two_versions_that_overlap_for_ten_cycles_run_each_once_on_redis() {
    two_versions_that_overlap_for_ten_cycles_run_each_once(Place::redis()).await;
}
