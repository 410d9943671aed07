//! The book: the documents of the project as a tree of files that mdBook renders, and the check of its links.
//!
//! Every chapter is a document that reads well on its own. docs/SUMMARY.md names the chapters and their order. A copy
//! of each has no comments, such as those that fill in numbers. Its links to what is not a chapter lead to a copy of
//! the file, to the reference of a crate, or nowhere: then only their text remains.
//!
//! # Invariants
//! Nothing outside of target/book is written. A chapter has the same path in the book as in the repository, so links
//! between chapters need no change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use regex::{Captures, Regex};

use crate::Outcome;

/// The list of chapters.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The tree that mdBook reads, and the one that it writes: as in book.toml.
const SOURCE: &str = "target/book/src";
const PAGES: &str = "target/book/html";
/// The crates whose reference is next to the book, in the folder `api`: as in ci/book.sh.
const REFERENCE: [&str; 3] = ["everybuddy", "everybuddy-adapters", "everybuddy-pool"];
/// A link: the mark of a picture, its words and its target.
const LINK: &str =
    r"(?P<picture>!?)\[(?P<words>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)";
/// The bytes of the largest file that is copied for a link; larger ones are data.
const LARGEST_COPY: u64 = 256 << 10;

/// Writes the tree for mdBook. Returns no faults: a missing chapter is an error.
pub(crate) fn write(root: &Path) -> Outcome<Vec<String>> {
    let source = root.join(SOURCE);
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    let summary = fs::read_to_string(root.join(SUMMARY))?;
    let folder = Path::new(SUMMARY).parent().unwrap_or(Path::new(""));
    let link = Regex::new(LINK)?;
    let path = |found: &Captures<'_>| normal(&folder.join(&found["target"]));
    let links = link.captures_iter(&summary);
    let chapters: BTreeSet<PathBuf> = links.map(|found| path(&found)).collect();
    let own = |found: &Captures<'_>| format!("[{}]({})", &found["words"], path(found).display());
    let summary = link.replace_all(&summary, own);
    put(&source.join("SUMMARY.md"), summary.as_bytes())?;
    let mut copies = BTreeSet::new();
    for chapter in &chapters {
        let text = fs::read_to_string(root.join(chapter));
        let text = text.map_err(|error| format!("{SUMMARY}: {}: {error}", chapter.display()))?;
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
    let target = Regex::new(r#"(?:href|src)="([^":]+)""#)?;
    let mut faults = BTreeSet::new();
    let mut checked = 0;
    // The page for unknown addresses is written for the root of a server.
    for (path, text) in texts.iter().filter(|own| !own.0.ends_with("404.html")) {
        let folder = path.parent().unwrap_or(root);
        for found in target.captures_iter(text) {
            checked += 1;
            let (file, place) = found[1].split_once('#').unwrap_or((&found[1], ""));
            let file = match file {
                "" => path.clone(),
                file => normal(&folder.join(file)),
            };
            let id = format!(" id=\"{place}\"");
            let has_place = || texts.get(&file).is_none_or(|text| text.contains(&id));
            if !file.exists() || !place.is_empty() && !has_place() {
                let name = path.strip_prefix(&pages).unwrap_or(path).display();
                faults.insert(format!("{name}: dead-link: {}", &found[1]));
            }
        }
    }
    println!("book: {} pages, {checked} links", texts.len());
    Ok(faults.into_iter().collect())
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
        if part == Component::ParentDir {
            parts.pop();
        } else if part != Component::CurDir {
            parts.push(part);
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
    let folder = chapter.parent().unwrap_or(Path::new(""));
    let mut own = |found: &Captures<'_>| {
        let (words, target) = (&found["words"], &found["target"]);
        let (path, place) = target.split_once('#').unwrap_or((target, ""));
        let place = if place.is_empty() { "" } else { "#" }.to_owned() + place;
        let whole = normal(&folder.join(path));
        // mdBook calls the page of a README index.html, but leaves links to it as they are.
        let is_readme = whole.ends_with("README.md") && chapters.contains(&whole);
        if is_readme || chapters.contains(&whole.join("README.md")) {
            let folder = path.trim_end_matches("README.md").trim_end_matches('/');
            let page = format!("{folder}/index.html{place}");
            return format!("[{words}]({})", page.trim_start_matches('/'));
        }
        if target.contains("://") || path.is_empty() || chapters.contains(&whole) {
            return found[0].to_owned();
        }
        let is_root = |name: &&&str| whole == Path::new("crates").join(name).join("src/lib.rs");
        if let Some(name) = REFERENCE.iter().find(is_root) {
            let (up, name) = ("../".repeat(folder.iter().count()), name.replace('-', "_"));
            return format!("[{words}]({up}api/{name}/index.html)");
        }
        let is_page = whole.extension().is_some_and(|ending| ending == "md");
        let data = fs::metadata(root.join(&whole));
        if !is_page && data.is_ok_and(|data| data.is_file() && data.len() <= LARGEST_COPY) {
            copies.insert(whole);
            return format!("{}[{words}]({path}{place})", &found["picture"]);
        }
        words.to_owned()
    };
    // Code, a comment or a link, whichever begins first.
    let part = Regex::new(&format!(
        r"(?P<code>(?ms)^```.*?^```)|(?s)<!--.*?-->\n?|{LINK}"
    ))?;
    let part = part.replace_all(text, |found: &Captures<'_>| match found.name("code") {
        Some(code) => code.as_str().to_owned(),
        None if found.name("target").is_some() => own(found),
        None => String::new(),
    });
    Ok(part.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered_in_docs(text: &str) -> (String, BTreeSet<PathBuf>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let chapters = ["docs/crate.md", "results/README.md"].map(PathBuf::from);
        let mut copies = BTreeSet::new();
        let chapter = Path::new("docs/linux.md");
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
        let same = "[a](crate.md#in-a-pool) [b](https://x.example/y) [c](#costs)";
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
