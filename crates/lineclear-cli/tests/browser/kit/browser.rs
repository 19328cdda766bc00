//! A Chromium without a window, through its driver (WebDriver: JSON over HTTP).

use std::path::Path;
use std::time::{Duration, Instant};

use lineclear_testkit::{Child, Program};
use serde_json::{Value, json};

use super::LONG;
use super::driver::ask;

/// The options of a browser.
#[derive(Default)]
pub(crate) struct Wish {
    pub(crate) no_script: bool,
}

/// The browser and its driver end when this is dropped.
pub(crate) struct Browser {
    port: u16,
    session: String,
    _driver: Child,
}

/// The key of an element in responses of the driver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Starts the driver. It chooses a free port of IPv6 and exits if that port of IPv4 is not free: then it is started again.
async fn start_driver() -> (Child, u16) {
    for _ in 0..5 {
        let driver = Program::at("chromedriver").args(["--port=0"]).start().expect(
            "chromium and chromedriver are needed: `scripts/install` installs Debian's packages chromium and chromium-driver",
        );
        match driver.wait_for_line("started successfully on port", LONG).await {
            Ok(line) => {
                let port = line.trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap();
                return (driver, port);
            }
            Err(error) => assert!(error.to_string().contains("port not available"), "{error:#}"),
        }
    }
    panic!("the driver found no free port five times");
}

impl Browser {
    pub(crate) async fn start() -> Browser {
        Browser::wish(Wish::default()).await
    }

    pub(crate) async fn wish(wish: Wish) -> Browser {
        let (driver, port) = start_driver().await;
        let mut flags = vec![
            "--headless=new",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            // No background requests.
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-quic",
            "--window-size=1280,800",
        ];
        // The sandbox does not work for root.
        if rustix::process::geteuid().is_root() {
            flags.push("--no-sandbox");
        }
        let mut options = json!({"args": flags});
        if wish.no_script {
            options["prefs"] = json!({"profile.managed_default_content_settings.javascript": 2});
        }
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": options, "timeouts": {"script": 10_000, "pageLoad": 30_000},
        }}});
        let (status, answer) = ask(port, "POST", "/session", Some(&wanted), None).unwrap();
        assert_eq!(status, 200, "no browser: {answer}");
        let session = answer["value"]["sessionId"].as_str().unwrap().to_owned();
        Browser { port, session, _driver: driver }
    }

    fn try_to(&self, method: &str, what: &str, body: &Value) -> Result<Value, Value> {
        let (status, mut answer) =
            ask(self.port, method, &format!("/session/{}/{what}", self.session), Some(body), None).unwrap();
        let value = answer["value"].take();
        if status == 200 { Ok(value) } else { Err(value) }
    }

    fn tell(&self, what: &str, body: Value) -> Value {
        self.try_to("POST", what, &body).unwrap_or_else(|why| panic!("{what} {body}: {why}"))
    }

    pub(crate) fn open(&self, url: &str) {
        self.tell("url", json!({"url": url}));
    }

    pub(crate) fn back(&self) {
        self.tell("back", json!({}));
    }

    pub(crate) fn forward(&self) {
        self.tell("forward", json!({}));
    }

    pub(crate) fn reload(&self) {
        self.tell("refresh", json!({}));
    }

    /// Runs a script in the page, and returns its value.
    pub(crate) fn eval(&self, script: &str) -> Value {
        self.tell("execute/sync", json!({"script": format!("return ({script})"), "args": []}))
    }

    /// Waits until this holds in the current page.
    #[track_caller]
    pub(crate) fn until(&self, script: &str) -> Value {
        let until = Instant::now() + LONG;
        loop {
            let body = json!({"script": format!("return ({script})"), "args": []});
            let found = self.try_to("POST", "execute/sync", &body);
            match found {
                Ok(value) if !matches!(value, Value::Null | Value::Bool(false)) => return value,
                _ if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
                other => panic!("in vain: {script}: {other:?}\n{}", self.said()),
            }
        }
    }

    /// The address and the text of the page, for a failing test.
    fn said(&self) -> String {
        let body = json!({"script": "return location.href + '\\n' + document.body.innerText", "args": []});
        self.try_to("POST", "execute/sync", &body)
            .ok()
            .and_then(|text| text.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Waits until the page shows this text; a heading may be in capitals.
    #[track_caller]
    pub(crate) fn reads(&self, text: &str) {
        let text = json!(text.to_lowercase());
        self.until(&format!("document.body.innerText.toLowerCase().includes({text})"));
    }

    /// The path of the page, with its query.
    pub(crate) fn path(&self) -> String {
        self.eval("location.pathname + location.search").as_str().unwrap().to_owned()
    }

    fn element(&self, css: &str) -> Result<String, Value> {
        let found = self.try_to("POST", "element", &json!({"using": "css selector", "value": css}))?;
        Ok(found[ELEMENT].as_str().unwrap_or_default().to_owned())
    }

    /// Clicks the first matching element, once it can be clicked.
    #[track_caller]
    pub(crate) fn click(&self, css: &str) {
        let until = Instant::now() + LONG;
        loop {
            let clicked = self
                .element(css)
                .and_then(|id| self.try_to("POST", &format!("element/{id}/click"), &json!({})));
            match clicked {
                Ok(_) => return,
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
                Err(why) => panic!("cannot click {css}: {why}\n{}", self.said()),
            }
        }
    }

    /// Types into a field, after its current text.
    #[track_caller]
    pub(crate) fn fill(&self, css: &str, text: &str) {
        let id = self.element(css).unwrap_or_else(|why| panic!("{css}: {why}"));
        self.tell(&format!("element/{id}/value"), json!({"text": text}));
    }

    /// Presses keys, one after the other, wherever the focus is. `\u{e007}` is Enter, `\u{e004}` Tab.
    pub(crate) fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            let of = |what: &str| json!({"type": what, "value": key.to_string()});
            [of("keyDown"), of("keyUp")]
        });
        let strokes: Vec<_> = strokes.collect();
        self.tell("actions", json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]}));
    }

    /// Presses a key while another is held, such as Ctrl (`\u{e009}`).
    pub(crate) fn chord(&self, held: &str, key: &str) {
        let of = |what: &str, key: &str| json!({"type": what, "value": key});
        let strokes = [of("keyDown", held), of("keyDown", key), of("keyUp", key), of("keyUp", held)];
        self.tell("actions", json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]}));
    }

    /// Sends a command of the DevTools protocol.
    pub(crate) fn cdp(&self, command: &str, parameters: Value) -> Value {
        self.tell("goog/cdp/execute", json!({"cmd": command, "params": parameters}))
    }

    /// Runs a script before every page.
    pub(crate) fn first_of_all(&self, script: &str) {
        self.cdp("Page.addScriptToEvaluateOnNewDocument", json!({"source": script}));
    }

    pub(crate) fn size(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.cdp("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the preferred colour scheme: `light` or `dark`.
    pub(crate) fn prefer(&self, scheme: &str) {
        self.cdp(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
    }

    /// New entries of the browser log: violations of the policy, errors, failed requests.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let lines = self.tell("se/log", json!({"type": "browser"}));
        let lines = lines
            .as_array()
            .unwrap()
            .iter()
            .filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING");
        lines.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Minimizes the window, so that its page is hidden.
    pub(crate) fn hide(&self) {
        self.tell("window/minimize", json!({}));
    }

    pub(crate) fn show(&self) {
        self.tell("window/rect", json!({"width": 1280, "height": 800}));
    }

    /// Takes a picture of the page.
    pub(crate) fn picture(&self, file: &Path) {
        let image = self.try_to("GET", "screenshot", &Value::Null).unwrap();
        std::fs::write(file, base64(image.as_str().unwrap())).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the browser shows: {}", self.said());
        }
        // The driver is killed, and would leave the browser behind.
        let _ = ask(self.port, "DELETE", &format!("/session/{}", self.session), None, None);
    }
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let (mut bytes, mut held, mut bits) = (Vec::with_capacity(text.len()), 0_usize, 0);
    for digit in digits {
        (held, bits) = ((held << 6 | digit) & 0xff_ffff, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits & 0xff) as u8);
        }
    }
    bytes
}
