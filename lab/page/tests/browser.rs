//! The behaviour of the page in a real browser.
//!
//! No other test detects an exception, a request, an empty chart or a control without effect. The tests need
//! Chromium, which `ci/page.sh` installs; without it they report that and pass. They write screenshots of the page to
//! `target/page-shots` for manual inspection.
//!
//! # Invariants
//! The browser has access to this file only; a request for anything else fails the test.

mod browsing;
mod specimen;

use browsing::{Page, open};

/// Scrolls through the page until every figure of the visible trace was drawn.
const ALL_DRAWN: &str = "(async () => {
    const wait = (ms) => new Promise((done) => setTimeout(done, ms));
    const figures = [...document.querySelectorAll('section.trace:not([hidden]) figure.fig')];
    for (let round = 0; round < 100; round++) {
        const missing = figures.find((one) => !one.dataset.drawn);
        if (!missing) break;
        missing.scrollIntoView({ behavior: 'instant' });
        await wait(60);
    }
    window.scrollTo({ top: 0, behavior: 'instant' });
    await wait(60);
    return figures.filter((one) => !one.dataset.drawn).map((one) => one.id).join();
})()";

/// Returns the names of panels of the visible trace that are empty: without marks, paint or text.
const EMPTY: &str =
    "[...document.querySelectorAll('section.trace:not([hidden]) .panel')].filter((panel) => {
    const marks = panel.querySelectorAll('.trace path, .trace .point').length;
    const painted = [...panel.querySelectorAll('canvas.memory')].some((canvas) => {
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(new Uint32Array(data.buffer)).size > 2;
    });
    return !marks && !painted && !panel.querySelector('.nothing');
}).map((panel) => panel.closest('figure').id + '/' + panel.dataset.panel).join()";

fn draw_all(page: &Page) {
    assert_eq!(page.text(ALL_DRAWN), "", "figures were not drawn");
}

#[test]
fn every_figure_is_drawn_without_errors_or_requests() {
    let Some(page) = open(&specimen::report(1), "whole") else {
        return;
    };
    for trace in 0..3 {
        page.text(&format!(
            "document.querySelectorAll('.tab')[{trace}].click(), ''"
        ));
        draw_all(&page);
        assert_eq!(page.text(EMPTY), "", "panels are empty");
    }
    // Both systems of a map, and more colours than the background.
    let maps = page
        .number("document.querySelectorAll('section.trace:not([hidden]) canvas.memory').length");
    assert_eq!(maps, 2.0);
    page.is_clean();
}

#[test]
fn a_request_would_be_stopped_and_an_error_heard() {
    let Some(page) = open(&specimen::report(1), "policy") else {
        return;
    };
    page.text("fetch('http://127.0.0.1:9/x').then(() => 'fetched', () => 'stopped')");
    assert!(page.heard("Content Security Policy"));
    page.text("console.error('one'), ''");
    page.text("setTimeout(() => { throw new Error('two'); }), ''");
    page.settle();
    assert!(page.heard("one") && page.heard("two"));
}

#[test]
fn systems_are_toggled_everywhere_by_mouse_and_by_key() {
    let Some(page) = open(&specimen::report(1), "toggles") else {
        return;
    };
    draw_all(&page);
    let lines = "document.querySelectorAll('#trace-gcc_build-blocks .scatterlayer .trace').length";
    let bars =
        "document.querySelectorAll('#trace-gcc_build-lists [data-panel=service] .point').length";
    // One system of each kind, as far as the specimen has it.
    assert_eq!(page.number(lines), 5.0);
    let chip = |name: &str| {
        format!(
            "[...document.querySelectorAll('.chip')].find((one) => one.textContent === '{name}')"
        )
    };
    page.text(&format!("{}.click(), ''", chip("bs")));
    becomes(&page, lines, 4.0);
    becomes(&page, bars, 4.0);
    page.text(&format!("{}.focus(), ''", chip("watermark")));
    page.press("Enter");
    becomes(&page, lines, 5.0);
    becomes(&page, bars, 5.0);
    assert_eq!(
        page.text(&format!(
            "{}.getAttribute('aria-pressed')",
            chip("watermark")
        )),
        "true"
    );
    page.text(&format!("{}.click(), ''", chip("all")));
    becomes(&page, lines, 16.0);
    // All systems look different.
    let looks = "new Set([...document.querySelectorAll('#trace-gcc_build-blocks .scatterlayer .trace')].map((one) => {
        const line = one.querySelector('.js-line');
        return line.style.stroke + line.style.strokeDasharray;
    })).size";
    assert_eq!(page.number(looks), 16.0);
    page.text(&format!("{}.click(), ''", chip("none")));
    becomes(&page, lines, 0.0);
    page.is_clean();
}

/// Draws pending figures until a number is right: a busy machine draws later.
fn becomes(page: &Page, number: &str, right: f64) {
    let is_right = |_| {
        draw_again(page);
        page.number(number) == right
    };
    assert!((0..30).any(is_right), "{number}: {}", page.number(number));
}

/// Scrolls to two distant figures, so that pending figures are drawn.
fn draw_again(page: &Page) {
    for figure in ["lists", "blocks"] {
        page.text(&format!(
            "(async () => {{
                document.getElementById('trace-gcc_build-{figure}').scrollIntoView({{ behavior: 'instant' }});
                await new Promise((done) => setTimeout(done, 300));
                return '';
            }})()"
        ));
    }
}

#[test]
fn hovering_tells_values() {
    let Some(page) = open(&specimen::report(1), "hover") else {
        return;
    };
    draw_all(&page);
    for figure in [
        "latency", "pace", "lists", "blocks", "kept", "demand", "runs",
    ] {
        // Any kind of mark that the chart has: a line's marker, a bar.
        let mark = format!(
            "#trace-gcc_build-{figure} .plot .point path, #trace-gcc_build-{figure} .plot path.point"
        );
        page.hover(&mark);
        page.settle();
        let told = format!(
            "document.querySelectorAll('#trace-gcc_build-{figure} .hoverlayer text').length"
        );
        assert!(page.number(&told) > 0.0, "{figure} shows no hover text");
        page.shoot_window(&format!("hover-{figure}.png"));
    }
    page.is_clean();
}

#[test]
fn tabs_work_by_key_and_are_in_the_address() {
    let Some(page) = open(&specimen::report(1), "tabs") else {
        return;
    };
    let front = "document.querySelector('section.trace:not([hidden])').id";
    assert_eq!(page.text(front), "trace-gcc_build");
    page.text("document.querySelector('.tab').focus(), ''");
    page.press("ArrowRight");
    assert_eq!(page.text(front), "trace-dbench_tar");
    assert_eq!(page.text("location.hash"), "#trace-dbench_tar");
    assert_eq!(
        page.text("document.activeElement.textContent"),
        "dbench_tar"
    );
    page.press("End");
    assert_eq!(page.text(front), "trace-numpy_thp");
    // An address of a figure of another trace selects that trace.
    page.text("location.hash = 'trace-gcc_build-map', ''");
    page.settle();
    assert_eq!(page.text(front), "trace-gcc_build");
    // An address of a definition does not change the trace.
    page.text("location.hash = 'def-miss_rate', ''");
    page.settle();
    assert_eq!(page.text(front), "trace-gcc_build");
    page.is_clean();
}

#[test]
fn the_map_answers_keys_and_the_slider() {
    let Some(page) = open(&specimen::report(1), "map") else {
        return;
    };
    draw_all(&page);
    let readout = "document.querySelector('#trace-gcc_build-map .readout').textContent";
    page.text("document.querySelector('#trace-gcc_build-map canvas.memory').focus(), ''");
    page.press("Home");
    assert!(
        page.text(readout).starts_with("Frame 0 "),
        "{}",
        page.text(readout)
    );
    page.press("ArrowDown");
    page.press("ArrowRight");
    assert!(
        page.text(readout).starts_with("Frame 1,025 (row 1): "),
        "{}",
        page.text(readout)
    );
    // Eight empty rows and more are one line: here ten, then one in use, then nine. The page keeps its functions to
    // itself, so this is another copy.
    let source = concat!(
        include_str!("../assets/script/looks.js"),
        include_str!("../assets/script/map_paint.js")
    );
    let lines = format!(
        "(() => {{ {source} const frames = new Uint8Array(1024 * 20); frames[1024 * 10] = 1;
        return linesOf(frames).map((line) => line.rows).join(); }})()"
    );
    assert_eq!(page.text(&lines), "10,1,9");
    let picture = "document.querySelector('#trace-gcc_build-map canvas.memory').toDataURL()";
    let before = page.text(picture);
    page.text("document.querySelector('#trace-gcc_build-map input[type=range]').focus(), ''");
    page.press("ArrowRight");
    page.settle();
    let after = page.text(picture);
    assert_ne!(before, after, "the image did not change with the moment");
    page.text(
        "[...document.querySelectorAll('#trace-gcc_build-map .choice button')][1].click(), ''",
    );
    page.settle();
    assert_ne!(
        page.text(picture),
        after,
        "the image did not change with the colouring"
    );
    assert!(
        page.text("document.querySelector('.owners').textContent")
            .contains("order 0")
    );
    page.is_clean();
}

#[test]
fn the_order_of_the_unusable_index_can_be_chosen() {
    let Some(page) = open(&specimen::report(1), "order") else {
        return;
    };
    draw_all(&page);
    let curve = "document.querySelector('#trace-gcc_build-unusable .js-line').getAttribute('d')";
    let before = page.text(curve);
    page.text("document.querySelector('#trace-gcc_build-unusable input').focus(), ''");
    page.press("ArrowLeft");
    page.settle();
    assert_ne!(page.text(curve), before);
    let words = page.text("document.querySelector('#trace-gcc_build-unusable output').textContent");
    assert_eq!(words, "order 9, 2 MiB");
    page.is_clean();
}

#[test]
fn a_column_sorts_best_first() {
    let Some(page) = open(&specimen::report(1), "sort") else {
        return;
    };
    let first = "document.querySelector('table.systems tbody tr').dataset.system";
    let best = "document.querySelectorAll('table.systems')[0].querySelector('td.best').parentElement.dataset.system";
    let original = page.text(first);
    let expected = page.text(best);
    let column = "document.querySelector('table.systems td.best').cellIndex";
    let heads = "document.querySelectorAll('table.systems thead tr:last-child th')";
    page.text(&format!(
        "{heads}[{column}].querySelector('button').focus(), ''"
    ));
    page.press("Enter");
    assert_eq!(page.text(first), expected);
    page.press("Enter");
    assert_ne!(page.text(first), expected);
    page.press("Enter");
    assert_eq!(page.text(first), original);
    page.is_clean();
}

#[test]
fn the_data_of_every_figure_is_one_click_away() {
    let Some(page) = open(&specimen::report(1), "data") else {
        return;
    };
    draw_all(&page);
    let folders = "document.querySelectorAll('section.trace:not([hidden]) details.data')";
    page.text(&format!(
        "{folders}.forEach((one) => {{ one.open = true; }}), ''"
    ));
    page.settle();
    let without = page.text(
        "[...document.querySelectorAll('section.trace:not([hidden]) figure.fig')]
            .filter((one) => !one.querySelector('.rows tbody td')).map((one) => one.id).join()",
    );
    assert_eq!(without, "", "figures without rows");
    page.is_clean();
}

#[test]
fn colours_follow_the_system_and_the_button() {
    let Some(page) = open(&specimen::report(1), "theme") else {
        return;
    };
    let ground = "getComputedStyle(document.body).backgroundColor";
    page.prefers("light");
    let light = page.text(ground);
    page.prefers("dark");
    let dark = page.text(ground);
    assert_ne!(light, dark);
    page.text("document.getElementById('theme').click(), ''");
    assert_eq!(page.text(ground), light);
    page.is_clean();
}

#[test]
fn before_printing_everything_is_drawn() {
    let Some(page) = open(&specimen::report(1), "print") else {
        return;
    };
    page.settle();
    page.settle();
    page.print("print.pdf");
    // Figures that printing has drawn are redrawn for the screen; the others stay undrawn.
    let missing = "(async () => {
        const missing = () => [...document.querySelectorAll('section.trace:not([hidden]) figure.fig')]
            .filter((one) => !one.dataset.drawn).map((one) => one.id).join();
        for (let round = 0; round < 100 && missing(); round++) await new Promise((done) => setTimeout(done, 100));
        return missing();
    })()";
    assert_eq!(page.text(missing), "");
    page.is_clean();
}

#[test]
fn names_with_markup_and_odd_numbers_break_nothing() {
    let mut report = specimen::report(2);
    report.traces.truncate(2);
    let evil = "</script><b>&amp; %{x} \"q\"";
    report.traces[0].name = evil.into();
    report.traces[0].owners[0] = evil.into();
    report.traces[0].systems.truncate(2);
    let system = &mut report.traces[0].systems[0];
    system.name = evil.into();
    system.latency = Default::default();
    system.samples = Default::default();
    system.maps.clear();
    (
        system.service_ratio,
        system.miss_rate,
        system.locks_per_call,
    ) = (Some(f64::NAN), None, None);
    report.traces[1].systems.clear();
    report.traces[1].statistics = Default::default();
    let Some(page) = open(&report, "odd") else {
        return;
    };
    for trace in 0..2 {
        page.text(&format!(
            "document.querySelectorAll('.tab')[{trace}].click(), ''"
        ));
        draw_all(&page);
    }
    assert_eq!(
        page.number("document.querySelectorAll('main b:not(.facts b)').length"),
        0.0
    );
    page.is_clean();
}

#[test]
fn a_trace_alone_is_drawn_too() {
    let mut report = specimen::report(1);
    for trace in &mut report.traces {
        trace.systems.clear();
    }
    let Some(page) = open(&report, "alone") else {
        return;
    };
    draw_all(&page);
    assert_eq!(page.text(EMPTY), "", "panels are empty");
    page.shoot("alone.png");
    page.is_clean();
}

#[test]
fn it_fits_every_width_and_can_be_looked_at() {
    let Some(page) = open(&specimen::report(1), "shots") else {
        return;
    };
    for theme in ["light", "dark"] {
        page.prefers(theme);
        for width in [360, 768, 1920] {
            page.wide(width);
            // Other traces change lengths, but not colours.
            let traces = if theme == "light" && width != 768 {
                3
            } else {
                1
            };
            for trace in (0..traces).rev() {
                page.text(&format!(
                    "document.querySelectorAll('.tab')[{trace}].click(), ''"
                ));
                draw_all(&page);
                let over = page.number(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth",
                );
                assert_eq!(over, 0.0, "the page is wider than {width} pixels");
                if trace == 0 || (width == 1920 && theme == "light") {
                    page.shoot(&format!("{theme}-{width}-{trace}.png"));
                }
            }
        }
    }
    page.is_clean();
}
