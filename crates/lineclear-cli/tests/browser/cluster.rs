//! The cluster page, while the demo kills the node that plans.

use lineclear_testkit::Program;

use crate::kit::{Browser, LONG, port_of};

/// The number after `epoch` in a line of the demo.
fn epoch(line: &str) -> u64 {
    let number = line.split("epoch ").nth(1).unwrap().trim_end_matches(')');
    number.parse().unwrap_or_else(|_| panic!("no epoch in {line}"))
}

#[tokio::test]
async fn a_killed_leader_is_replaced_with_a_higher_epoch_and_the_page_shows_it() {
    let program = Program::at(env!("CARGO_BIN_EXE_lineclear"));
    let demo = program.args(["demo", "--port", "0"]).start().unwrap();
    let (port, browser) = (port_of(&demo).await, Browser::start().await);
    let first = epoch(&demo.wait_for_line("leads (epoch", LONG).await.unwrap());
    browser.open(&format!("http://127.0.0.1:{port}/cluster"));
    browser.until("document.querySelector('#live .word').textContent === 'live'");
    browser.eval("window.mark = 1");
    let killed = demo.wait_for_line("was killed on purpose", LONG * 2).await.unwrap();
    let next = demo.wait_for_line("became the leader", LONG).await.unwrap();
    let node =
        |line: &str| line.split_whitespace().find(|word| word.starts_with("node-")).unwrap().to_owned();
    let (before, after, higher) = (node(&killed), node(&next), epoch(&next));
    assert!(higher > first && before != after, "{killed}\n{next}");
    // The loss in its lane, the hand-over with both names, and the epoch of the current holder.
    browser.reads(&format!("planner: {before} → {after}"));
    browser.reads(&format!("epoch {higher}"));
    browser.until("document.querySelector('#timeline').textContent.includes('✕')");
    browser.until(&format!(
        "[...document.querySelectorAll('#locks tbody tr')].some(row => row.innerText.includes('planner') \
         && Number(row.querySelector('td.number').innerText) >= {higher})"
    ));
    assert_eq!(browser.eval("window.mark"), 1, "the page was not loaded again");
    assert_eq!(browser.complaints(), [""; 0]);
}
