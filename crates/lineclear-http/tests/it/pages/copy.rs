//! Commands that a page offers to copy.

use crate::kit::Served;

/// A link can fill the form: what it says must not run when the command is pasted.
async fn a_link_cannot_put_control_characters_into_a_command_to_copy(served: &Served) {
    for (link, expected) in [
        (
            "/enqueue?kind=a%0Atouch%20x%0A%1b%5b201~",
            r"lineclear job enqueue $&#39;a\ntouch x\n\033[201~&#39;",
        ),
        ("/enqueue?kind=a%E2%80%AEb%0D", r"lineclear job enqueue $&#39;a\342\200\256b\015&#39;"),
        ("/bulk-operations/new?action=cancel&q=error:%22a%03b%22", r"-q $&#39;error:&quot;a\003b&quot;&#39;"),
    ] {
        let page = served.send("GET", link, &[("Accept", "text/html")], b"").await;
        assert_eq!(page.status, 200, "{page:?}");
        let commands: Vec<&str> =
            page.body.split("data-copy=\"").skip(1).map(|part| part.split('"').next().unwrap()).collect();
        assert!(!commands.is_empty(), "{page:?}");
        for command in &commands {
            let bad = command.chars().find(|c| c.is_control() || *c == '\u{202e}');
            assert_eq!(bad, None, "{link}: {command:?}");
        }
        let expected = expected.replace("&#39;", "'");
        let plain = |command: &&str| command.replace("&#39;", "'").contains(&expected);
        assert!(commands.iter().any(plain), "{link}: {commands:?}");
    }
}

on_each_store! {
    a_link_cannot_put_control_characters_into_a_command_to_copy
}
