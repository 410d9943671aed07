//! The page, from the command line to its file. What is on it is tested where it is drawn, in `everybuddy-page`.

use crate::common::{Folder, everybuddy, process_in, text, words};

#[test]
fn the_page_has_all_systems_in_fresh_and_in_old_memory() {
    let folder = Folder::new("page");
    let (trace, file) = (folder.trace(), folder.file("page.html"));
    for options in ["", "--cpus 2", "--aged 3"] {
        let command = format!("compare {trace} --systems bs,lbs-31,spring --html {file}");
        let run = everybuddy!("{command} {options}");
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.err.contains("page.html"), "{}", run.err);
        let page = text(&file);
        for word in ["<!DOCTYPE html>", "tiny", "lbs-31", "spring"] {
            assert!(page.contains(word), "no {word}");
        }
    }
}

#[test]
fn the_page_appears_where_it_is_wanted_and_nowhere_else() {
    let folder = Folder::new("default-page");
    let trace = folder.trace();
    let default = folder.path().join("everybuddy-report.html");
    let run = |options: &str| {
        let line = format!("compare {trace} --systems bs {options}");
        process_in(folder.path(), &words(&line)).succeeded();
        default.exists()
    };
    let other = format!("--html {}", folder.file("x.html"));
    for without in ["--no-html", "--json -", &other] {
        assert!(!run(without), "{without}");
    }
    assert!(run(""));
}

#[test]
fn a_trace_has_a_page_of_its_own() {
    let folder = Folder::new("trace-page");
    let (trace, file) = (folder.trace(), folder.file("trace.html"));
    everybuddy!("trace info {trace} --html {file}").succeeded();
    let page = text(file);
    assert!(page.contains("<!DOCTYPE html>") && page.contains("tiny"));
}

#[test]
fn a_simulation_has_a_page_whose_titles_say_so() {
    let folder = Folder::new("simulation-page");
    let (trace, file) = (folder.trace(), folder.file("simulated.html"));
    let own = "--workloads burst:in-order --shrink 64 --cpus 1,4 --systems bs,spring --seeds 2";
    everybuddy!("simulate {own} --trace {trace} --html {file}").succeeded();
    let page = text(file);
    let texts = |tag: &str| -> Vec<String> {
        let start = format!("<{tag}");
        let parts = page.split(&start).skip(1);
        let text = |part: &str| Some(part.split_once('>')?.1.split_once("</")?.0.to_string());
        parts.filter_map(text).collect()
    };
    // The page; the limits, both loads, the machine; what stops systems, and what moves under each load; five panels,
    // and the idle share of a trace.
    assert_eq!(
        ["h1", "h2", "h3", "h4"].map(|tag| texts(tag).len()),
        [1, 4, 3, 5 + 6]
    );
    assert!(page.contains("title=\"bs, burst:in-order: "));
    for tag in ["title", "h1", "h2", "h3", "h4"] {
        for text in texts(tag) {
            assert!(text.contains("simulated"), "{tag}: {text}");
        }
    }
    for word in [
        "tiny",
        "zone lock",
        "scales to",
        "waited for",
        "lines that move most",
        "tasks of the trace",
    ] {
        assert!(page.contains(word), "no {word}");
    }
    let machine = page.rsplit("The simulated machine").next().unwrap();
    assert!(machine.matches("<tr>").count() > 15 && machine.contains("source"));
}

#[test]
fn what_a_terminal_shows_can_be_pasted_and_is_on_a_page() {
    let folder = Folder::new("document");
    let (trace, page, pasted) = (
        folder.trace(),
        folder.file("page.html"),
        folder.file("pasted.md"),
    );
    // A command, and what is in a table of it: a heading, and a name.
    let bench = "bench --memory 16MiB --shrink 500 --rounds 1 --systems bs --workloads hot:order0";
    let machine = "--machine x5570 --systems bs --workloads batch --cpus 1,4 --shrink 64";
    for (line, head, name) in [
        (bench.to_string(), "order0", "bs"),
        (format!("simulate {machine} --seeds 1"), "most time", "bs"),
        (format!("scaling {machine} --predict"), "4 CPUs", "bs"),
        ("reproduce coalescing --shrink 100".into(), "splits", "bs"),
        (format!("compare {trace} --systems bs"), "misses", "bs"),
        (format!("trace info {trace}"), "tiny", ""),
    ] {
        let run = everybuddy!("{line} --html {page} --markdown {pasted}");
        assert_eq!(run.code, 0, "{line}: {}", run.err);
        let (page, pasted) = (text(&page), text(&pasted));
        assert!(page.contains("<!DOCTYPE html>"), "{line}");
        assert!(pasted.starts_with("# ") && pasted.contains("Made by `everybuddy"));
        for own in [head, name] {
            assert!(pasted.contains(own), "{line}: no {own} in {pasted}");
            assert!(run.out.contains(own), "{line}: no {own} in {}", run.out);
        }
        assert_eq!(pasted.contains("|:---|"), !name.is_empty(), "{pasted}");
        // Text for readers is then on the other stream.
        let run = everybuddy!("{line} --markdown -");
        assert!(run.out.starts_with("# "), "{line}: {}", run.out);
        assert!(name.is_empty() || run.err.contains(head), "{line}");
        everybuddy!("{line} --markdown - --json -").refused(&["only one of them"]);
    }
}

#[test]
fn the_page_of_systems_at_work_is_one_small_file() {
    let folder = Folder::new("play");
    let file = folder.file("page.html");
    everybuddy!("play -o {file}").succeeded();
    let page = text(file);
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
    // No file but itself, and no address: only the policy names sources.
    for address in ["://", "src=", "href=", "@import", "fetch("] {
        assert!(!page.contains(address), "{address}");
    }
    // Nothing of its places is left.
    assert!(!page.contains("{{"));
}
