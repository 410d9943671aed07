//! The book: the documents of the project as a tree of files that mdBook renders, and the check of its links.
//!
//! # Purpose
//!
//! Every chapter is a document that reads well on its own. docs/SUMMARY.md names the chapters and their order. A copy
//! of each has no comments, such as those that fill in numbers. Its links to what is not a chapter lead to a copy of
//! the file, to the reference of a crate, or nowhere: then only their text remains.
//!
//! # Invariants
//!
//! Nothing outside of target/book is written. A chapter has the same path in the book as in the repository, so links
//! between chapters need no change.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Component, Path, PathBuf};

use regex::{Captures, Regex};

/// The list of chapters.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The tree that mdBook reads, and the one that it writes: as in book.toml.
const SOURCE: &str = "target/book/src";
const PAGES: &str = "target/book/html";
/// The crates whose reference is next to the book, in the folder `api`: as in ci/book.sh.
const REFERENCE: [&str; 3] = ["everybuddy", "everybuddy-adapters", "everybuddy-pool"];
/// The bytes of the largest file that is copied for a link; larger ones are data.
const LARGEST_COPY: u64 = 256 << 10;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Writes the tree for mdBook. Returns no faults: a missing chapter is an error.
pub(crate) fn write(root: &Path) -> Outcome<Vec<String>> {
    let source = root.join(SOURCE);
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    let summary = fs::read_to_string(root.join(SUMMARY))?;
    let folder = Path::new(SUMMARY).parent().unwrap_or(Path::new(""));
    let link = link()?;
    let chapters: BTreeSet<PathBuf> = link
        .captures_iter(&summary)
        .map(|found| normal(&folder.join(&found[3])))
        .collect();
    let own = |found: &Captures<'_>| {
        let path = normal(&folder.join(&found[3]));
        format!("[{}]({})", &found[2], path.display())
    };
    put(
        &source.join("SUMMARY.md"),
        link.replace_all(&summary, own).as_bytes(),
    )?;
    let mut copies = BTreeSet::new();
    for chapter in &chapters {
        let text = fs::read_to_string(root.join(chapter))
            .map_err(|error| format!("{SUMMARY}: {}: {error}", chapter.display()))?;
        let text = rendered(root, chapter, &text, &chapters, &mut copies)?;
        put(&source.join(chapter), text.as_bytes())?;
    }
    for copy in &copies {
        put(&source.join(copy), &fs::read(root.join(copy))?)?;
    }
    Ok(Vec::new())
}

/// Reports links of the rendered pages that lead nowhere.
pub(crate) fn check(root: &Path) -> Outcome<Vec<String>> {
    let pages = root.join(PAGES);
    let mut texts = BTreeMap::new();
    let mut folders = vec![pages.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            // The compiler's documentation tool checks its own links.
            if path.is_dir() && path != pages.join("api") {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                texts.insert(path.clone(), fs::read_to_string(&path)?);
            }
        }
    }
    let (href, id) = (
        Regex::new(r#"(?:href|src)="([^"]*)""#)?,
        Regex::new(r#"\bid="([^"]*)""#)?,
    );
    let ids: BTreeMap<&PathBuf, BTreeSet<&str>> = texts
        .iter()
        .map(|(path, text)| {
            let found = id.captures_iter(text).filter_map(|found| found.get(1));
            (path, found.map(|own| own.as_str()).collect())
        })
        .collect();
    let mut faults = BTreeSet::new();
    let mut checked = 0;
    // The page for unknown addresses is written for the root of a server.
    for (path, text) in texts.iter().filter(|own| !own.0.ends_with("404.html")) {
        let folder = path.parent().unwrap_or(root);
        let name = path.strip_prefix(&pages).unwrap_or(path).display();
        for found in href.captures_iter(text) {
            let target = &found[1];
            if target.contains(':') || target.is_empty() {
                continue;
            }
            checked += 1;
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => normal(&folder.join(file)),
            };
            let has_place = ids
                .get(&file)
                .is_none_or(|own| place.is_empty() || own.contains(place));
            if !file.exists() || !has_place {
                faults.insert(format!("{name}: dead-link: {target}"));
            }
        }
    }
    println!("book: {} pages, {checked} links", texts.len());
    Ok(faults.into_iter().collect())
}

fn link() -> Result<Regex, regex::Error> {
    Regex::new(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
}

fn put(path: &Path, bytes: &[u8]) -> Outcome<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, bytes)?)
}

/// Resolves `.` and `..` in a path.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

/// Returns the text of a chapter for the book, and notes the files that its links lead to. Code stays as it is.
fn rendered(
    root: &Path,
    chapter: &Path,
    text: &str,
    chapters: &BTreeSet<PathBuf>,
    copies: &mut BTreeSet<PathBuf>,
) -> Outcome<String> {
    let (comment, link) = (Regex::new(r"(?s)<!--.*?-->\n?")?, link()?);
    let fence = Regex::new(r"(?m)^```")?;
    let folder = chapter.parent().unwrap_or(Path::new(""));
    let depth = folder.components().count();
    let mut own = |found: &Captures<'_>| {
        let (path, place) = found[3].split_once('#').unwrap_or((&found[3], ""));
        let whole = normal(&folder.join(path));
        let api = REFERENCE
            .iter()
            .find(|name| whole == Path::new(&format!("crates/{name}/src/lib.rs")));
        let readme = whole.join("README.md");
        let place = if place.is_empty() { "" } else { "#" }.to_owned() + place;
        // mdBook calls the page of a README index.html, but leaves links to it as they are.
        let page = match path.strip_suffix("README.md") {
            Some(folder) if chapters.contains(&whole) => Some(format!("{folder}index.html")),
            _ if chapters.contains(&readme) => {
                Some(format!("{}/index.html", path.trim_end_matches('/')))
            }
            _ => None,
        };
        if let Some(page) = page {
            return format!("[{}]({page}{place})", &found[2]);
        }
        if found[3].contains("://") || path.is_empty() || chapters.contains(&whole) {
            return found[0].to_owned();
        }
        if let Some(name) = api {
            let page = format!(
                "{}api/{}/index.html",
                "../".repeat(depth),
                name.replace('-', "_")
            );
            return format!("[{}]({page})", &found[2]);
        }
        let is_page = whole.extension().is_some_and(|ending| ending == "md");
        let data = fs::metadata(root.join(&whole));
        if !is_page && data.is_ok_and(|data| data.is_file() && data.len() <= LARGEST_COPY) {
            copies.insert(whole);
            return format!("{}[{}]({path}{place})", &found[1], &found[2]);
        }
        found[2].to_owned()
    };
    let mut out = String::new();
    let mut rest = text;
    // Text and code take turns.
    let mut is_code = false;
    loop {
        let start = fence
            .find_iter(rest)
            .find(|mark| !is_code || mark.start() > 0);
        let (part, after) = rest.split_at(start.map_or(rest.len(), |mark| mark.start()));
        if is_code {
            out += part
        } else {
            let part = comment.replace_all(part, "");
            out += &link.replace_all(&part, &mut own);
        }
        if after.is_empty() {
            return Ok(out);
        }
        if is_code {
            // The closing fence is part of the code.

            out += "```";
            rest = &after[3..];
        } else {
            rest = after
        }
        is_code = !is_code;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered_in_docs(text: &str) -> (String, BTreeSet<PathBuf>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let chapters = ["docs/guide.md", "results/README.md"].map(PathBuf::from);
        let mut copies = BTreeSet::new();
        let chapter = Path::new("docs/c.md");
        let text = rendered(&root, chapter, text, &chapters.into(), &mut copies).unwrap();
        (text, copies)
    }

    #[test]
    fn comments_vanish_from_text_and_stay_in_code() {
        let (text, _) = rendered_in_docs("a\n<!-- x -->1.5\nb\n<!-- numbers: y\n z -->\n| t |\n");
        assert_eq!(text, "a\n1.5\nb\n| t |\n");
        let code = "```c\n<!-- code -->\n[a](b)\n```\n";
        assert_eq!(rendered_in_docs(code).0, code);
        let both = "<!-- x -->\n```\n<!-- y -->\n```\nc<!-- z -->d\n";
        assert_eq!(rendered_in_docs(both).0, "```\n<!-- y -->\n```\ncd\n");
    }

    #[test]
    fn links_lead_to_chapters_copies_or_the_reference() {
        let same = "[a](guide.md#in-a-pool) [b](https://x.example/y) [c](#costs)";
        assert_eq!(rendered_in_docs(same).0, same);
        let (text, copies) = rendered_in_docs(
            "[a `b`](../rustfmt.toml) [c](../results) [d](../results/README.md#x)",
        );
        assert_eq!(
            text,
            "[a `b`](../rustfmt.toml) [c](../results/index.html) [d](../results/index.html#x)"
        );
        assert!(copies.contains(Path::new("rustfmt.toml")));
        let (text, copies) = rendered_in_docs(
            "[a](../crates/everybuddy-pool/src/lib.rs), [b](../crates), [c](../missing.md)",
        );
        assert_eq!(text, "[a](../api/everybuddy_pool/index.html), b, c");
        assert!(copies.is_empty());
    }
}
