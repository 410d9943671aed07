//! A page in a headless browser.
//!
//! Tests describe the actions of a reader, not the control of a browser.
//!
//! # Invariants
//! Every complaint and every request of the browser is recorded.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everybuddy_page::{Report, render};
use headless_chrome::browser::tab::Tab;
use headless_chrome::browser::tab::point::Point;
use headless_chrome::protocol::cdp::Emulation::{self, SetDeviceMetricsOverride};
use headless_chrome::protocol::cdp::Page::CaptureScreenshotFormatOption;
use headless_chrome::protocol::cdp::types::Event;
use headless_chrome::protocol::cdp::{Network, Runtime};
use headless_chrome::types::PrintToPdfOptions;
use headless_chrome::{Browser, LaunchOptions};

/// Possible locations of Chromium. The environment variable `CHROME` overrides them.
const PLACES: [&str; 4] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/// An open page.
pub(crate) struct Page {
    tab: Arc<Tab>,
    complaints: Arc<Mutex<Vec<String>>>,
    // Stops the browser when the test ends.
    _browser: Browser,
}

fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CHROME").map(PathBuf::from);
    named.or_else(|| PLACES.iter().map(PathBuf::from).find(|path| path.exists()))
}

/// Returns the directory for screenshots.
fn shots() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../page-shots");
    std::fs::create_dir_all(&folder).expect("a folder for pictures");
    folder
}

/// Opens the page of a report. Returns `None` without Chromium.
pub(crate) fn open(report: &Report, name: &str) -> Option<Page> {
    open_html(&render(report).html, name)
}

/// Opens a page as a file. Returns `None` without Chromium.
pub(crate) fn open_html(html: &str, name: &str) -> Option<Page> {
    let Some(path) = chromium() else {
        eprintln!("skipped: Chromium not found (ci/page.sh installs it)");
        return None;
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
    std::fs::write(&file, html).expect("the page is written");
    let options = LaunchOptions {
        path: Some(path),
        sandbox: false,
        window_size: Some((1280, 900)),
        idle_browser_timeout: Duration::from_secs(120),
        ..LaunchOptions::default()
    };
    let browser = Browser::new(options).expect("Chromium starts");
    let tab = browser.new_tab().expect("a tab");
    tab.set_default_timeout(Duration::from_secs(60));
    let complaints = Arc::new(Mutex::new(Vec::new()));
    let heard = complaints.clone();
    let listener = move |event: &Event| heard.lock().unwrap().extend(complaint(event));
    tab.add_event_listener(Arc::new(listener))
        .expect("a listener");
    tab.enable_log().expect("the log");
    tab.enable_runtime().expect("the console");
    tab.call_method(Network::Enable {
        max_total_buffer_size: None,
        max_resource_buffer_size: None,
        max_post_data_size: None,
        report_direct_socket_traffic: None,
        enable_durable_messages: None,
    })
    .expect("the network");
    tab.navigate_to(&format!("file://{}", file.display()))
        .expect("an address");
    tab.wait_until_navigated().expect("the page");
    Some(Page {
        tab,
        complaints,
        _browser: browser,
    })
}

/// Returns the complaint or the request that an event represents.
fn complaint(event: &Event) -> Option<String> {
    match event {
        Event::RuntimeExceptionThrown(thrown) => {
            Some(format!("exception: {:?}", thrown.params.exception_details))
        }
        Event::RuntimeConsoleAPICalled(called) => match called.params.Type {
            Runtime::ConsoleAPICalledEventTypeOption::Error
            | Runtime::ConsoleAPICalledEventTypeOption::Warning => {
                Some(format!("console: {:?}", called.params.args))
            }
            _ => None,
        },
        Event::LogEntryAdded(added) => Some(format!("log: {}", added.params.entry.text)),
        Event::NetworkRequestWillBeSent(request) => {
            let url = &request.params.request.url;
            let own = ["file:", "data:", "blob:"]
                .iter()
                .any(|kind| url.starts_with(kind));
            (!own).then(|| format!("request: {url}"))
        }
        _ => None,
    }
}

impl Page {
    fn value(&self, script: &str) -> serde_json::Value {
        let result = self.tab.evaluate(script, true).expect("the script runs");
        result.value.unwrap_or_default()
    }

    /// Runs a script that returns a text.
    pub(crate) fn text(&self, script: &str) -> String {
        let value = self.value(script);
        let text = value.as_str().map(str::to_string);
        text.unwrap_or_else(|| panic!("{value} instead of a text: {script}"))
    }

    /// Runs a script that returns a number.
    pub(crate) fn number(&self, script: &str) -> f64 {
        self.value(script).as_f64().expect("a number")
    }

    /// Presses a key, like a keyboard.
    pub(crate) fn press(&self, key: &str) {
        self.tab.press_key(key).expect("a key");
    }

    /// Waits until pending work is done.
    pub(crate) fn settle(&self) {
        self.text("new Promise((done) => setTimeout(() => done(''), 400))");
    }

    /// Sets the preferred colour scheme.
    pub(crate) fn prefers(&self, scheme: &str) {
        let feature = Emulation::MediaFeature {
            name: "prefers-color-scheme".into(),
            value: scheme.into(),
        };
        self.tab
            .call_method(Emulation::SetEmulatedMedia {
                media: None,
                features: Some(vec![feature]),
            })
            .expect("media");
        self.settle();
    }

    /// Sets the width of the window.
    pub(crate) fn wide(&self, width: u32) {
        self.tab
            .call_method(SetDeviceMetricsOverride {
                width,
                height: 900,
                device_scale_factor: 1.0,
                mobile: width < 500,
                scale: None,
                screen_width: None,
                screen_height: None,
                position_x: None,
                position_y: None,
                dont_set_visible_size: None,
                screen_orientation: None,
                viewport: None,
                display_feature: None,
                device_posture: None,
            })
            .expect("a width");
        self.settle();
    }

    /// Takes a screenshot of the whole page.
    pub(crate) fn shoot(&self, name: &str) {
        let format = CaptureScreenshotFormatOption::Png;
        let clip = headless_chrome::protocol::cdp::Page::Viewport {
            x: 0.0,
            y: 0.0,
            width: self.number("innerWidth"),
            height: self.number("document.documentElement.scrollHeight"),
            scale: 1.0,
        };
        let picture = self
            .tab
            .call_method(headless_chrome::protocol::cdp::Page::CaptureScreenshot {
                format: Some(format),
                quality: None,
                clip: Some(clip),
                from_surface: Some(true),
                capture_beyond_viewport: Some(true),
                optimize_for_speed: None,
            })
            .expect("a picture");
        use base64::Engine;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(picture.data)
            .expect("base64");
        std::fs::write(shots().join(name), bytes).expect("a picture is written");
    }

    /// Moves the mouse over a visible element that matches a selector; for marks, one that is not on an axis.
    pub(crate) fn hover(&self, selector: &str) {
        let found = format!(
            "[...document.querySelectorAll('{selector}')].filter((one) => {{
                const {{ width, height }} = one.getBoundingClientRect();
                return width > 2 && height > 2;
            }}).find((_, at, all) => at === Math.floor(all.length / 2))"
        );
        // To the middle of the window: below the bar that stays visible.
        let center = "scrollIntoView({ block: 'center', behavior: 'instant' })";
        self.text(&format!("{found}.{center}, ''"));
        self.settle();
        let middle = |side: &str, length: &str| {
            let area = format!("{found}.getBoundingClientRect()");
            self.number(&format!("{area}.{side} + {area}.{length} / 2"))
        };
        let (x, y) = (middle("left", "width"), middle("top", "height"));
        // From a neighbouring point: a mouse pointer that appears in place does not move.
        for x in [x + 9.0, x] {
            self.tab
                .move_mouse_to_point(Point { x, y })
                .expect("the mouse moves");
        }
    }

    /// Takes a screenshot of the window.
    pub(crate) fn shoot_window(&self, name: &str) {
        let format = CaptureScreenshotFormatOption::Png;
        let bytes = self
            .tab
            .capture_screenshot(format, None, None, true)
            .expect("a picture");
        std::fs::write(shots().join(name), bytes).expect("a picture is written");
    }

    /// Prints the page.
    pub(crate) fn print(&self, name: &str) {
        let options = PrintToPdfOptions {
            print_background: Some(true),
            ..PrintToPdfOptions::default()
        };
        let bytes = self.tab.print_to_pdf(Some(options)).expect("a print");
        std::fs::write(shots().join(name), bytes).expect("a print is written");
    }

    /// Returns `true` if the browser reported a complaint that contains `words`.
    pub(crate) fn heard(&self, words: &str) -> bool {
        let complaints = self.complaints.lock().unwrap();
        complaints.iter().any(|one| one.contains(words))
    }

    /// Fails if the browser reported a complaint or made a request.
    pub(crate) fn is_clean(&self) {
        let complaints = self.complaints.lock().unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}
