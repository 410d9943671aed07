//! Draws the graph of crates and the graph of modules in ARCHITECTURE.md.
//!
//! The crates come from the `[dependencies]` of each manifest, the modules of the allocators from the paths that start
//! with `crate::`. Code below `#[cfg(test)]` does not count.
//!
//! # Invariants
//!
//! The graphs show only what the sources say. An edge that follows from two others is left out, and modules
//! that use each other share a node.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The document that shows the graphs.
const DOCUMENT: &str = "ARCHITECTURE.md";

/// The most lines that the text around the graphs may have.
const LONGEST: usize = 250;

/// The crate whose modules are shown.
const CRATE: &str = "crates/everybuddy/src";

/// For each node, the nodes that it uses.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// Writes both graphs between their markers.
pub(crate) fn write(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let path = root.join(DOCUMENT);
    let text = fs::read_to_string(&path)?;
    fs::write(path, updated(root, &text)?)?;
    Ok(Vec::new())
}

/// Reports graphs that are not what the command would write.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(root.join(DOCUMENT))?;
    if updated(root, &text)? != text {
        faults.push(format!(
            "{DOCUMENT}:1: generated: out of date: cargo run -p xtask -- graph"
        ));
    }
    let without = between(&between(&text, "crates", "")?, "modules", "")?;
    let lines = without.lines().count();
    if lines > LONGEST {
        faults.push(format!(
            "{DOCUMENT}:{lines}: small-rooms: at most {LONGEST} lines around the graphs, not {lines}"
        ));
    }
    Ok(())
}

fn updated(root: &Path, text: &str) -> Result<String, Box<dyn Error>> {
    let text = between(text, "crates", &mermaid(&crates(root)?))?;
    between(&text, "modules", &mermaid(&modules(&root.join(CRATE))?))
}

/// Replaces what lies between the two markers of a graph.
fn between(text: &str, name: &str, graph: &str) -> Result<String, Box<dyn Error>> {
    let (begin, end) = (
        format!("<!-- graph of {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let missing = || format!("{DOCUMENT} lacks the markers of the graph of {name}");
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}{graph}{end}{after}"))
}

/// Returns the crates of the workspace and the crates of the workspace that each of them needs.
fn crates(root: &Path) -> Result<Graph, Box<dyn Error>> {
    let mut graph = Graph::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?;
        let Ok(manifest) = fs::read_to_string(folder.path().join("Cargo.toml")) else {
            continue; // A folder that a checkout left behind.
        };
        let name = folder.file_name().to_string_lossy().into_owned();
        graph.insert(name, dependencies(&manifest));
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    graph
        .values_mut()
        .for_each(|uses| uses.retain(|used| known.contains(used)));
    Ok(graph)
}

/// Returns the names in the section `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
            if let Some(rest) = line.strip_prefix("[dependencies.") {
                names.insert(rest.trim_end_matches(']').to_owned());
            }
        } else if inside && line.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            names.insert(name.to_owned());
        }
    }
    names
}

/// Returns the modules below `source` and the modules that each of them uses.
fn modules(source: &Path) -> Result<Graph, Box<dyn Error>> {
    let mut graph = Graph::new();
    for entry in fs::read_dir(source)? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name == "lib" {
            continue;
        }
        let mut uses = BTreeSet::new();
        for file in shipped(path)? {
            uses.append(&mut used(&fs::read_to_string(&file)?));
        }
        uses.remove(&name);
        graph.insert(name, uses);
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    graph
        .values_mut()
        .for_each(|uses| uses.retain(|used| known.contains(used)));
    Ok(graph)
}

/// Returns the files of a module, except those of its tests.
fn shipped(module: PathBuf) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    let mut open = vec![module];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let parent = fs::read_to_string(path.join("mod.rs")).unwrap_or_default();
            let (_, tests) = without_tests(&parent);
            for inner in fs::read_dir(&path)? {
                let inner = inner?.path();
                let name = inner.file_stem().unwrap_or_default().to_string_lossy();
                if !tests.contains(name.as_ref()) {
                    open.push(inner);
                }
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns the code of a file without comments and tests, and the names of the test modules that it declares.
pub(crate) fn without_tests(text: &str) -> (String, BTreeSet<String>) {
    let mut code = String::new();
    let mut tests = BTreeSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "#![cfg(test)]" {
            return (String::new(), tests);
        }
        if line != "#[cfg(test)]" {
            code.push_str(line.split("//").next().unwrap_or_default());
            code.push('\n');
            continue;
        }
        let item = lines.next().unwrap_or_default();
        match item
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'))
        {
            Some(module) => tests.extend([module.to_owned()]),
            None if item.ends_with('{') => while lines.next().is_some_and(|line| line != "}") {},
            None => {}
        }
    }
    (code, tests)
}

/// Returns the first segments of the paths that start with `crate::` outside of comments and tests.
fn used(text: &str) -> BTreeSet<String> {
    let (code, _) = without_tests(text);
    let mut names = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            Some(list) => names.extend(firsts(list)),
            None => names.extend([identifier(part)]),
        }
    }
    names
}

/// Returns the first segment of each path of a list in braces, whose opening brace is cut off.
fn firsts(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut names = Vec::new();
    let mut start = true;
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            _ if start && !letter.is_whitespace() => {
                names.push(identifier(&list[at..]));
                start = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .collect()
}

/// Draws a graph as Mermaid: users above, one line per edge.
fn mermaid(graph: &Graph) -> String {
    let (names, graph) = condensed(graph);
    let graph = reduced(&graph);
    let mut text = String::from("```mermaid\nflowchart TD\n");
    let id = |node: usize| names[node].join("_").replace('-', "_");
    for (node, members) in names.iter().enumerate() {
        let _ = writeln!(text, "    {}[\"{}\"]", id(node), members.join("<br>"));
    }
    for (node, uses) in graph.iter().enumerate() {
        for used in uses {
            let _ = writeln!(text, "    {} --> {}", id(node), id(*used));
        }
    }
    text.push_str("```\n");
    text
}

/// Joins the nodes that can reach each other, and numbers what results in the order of the names.
pub(crate) fn condensed(graph: &Graph) -> (Vec<Vec<String>>, Vec<BTreeSet<usize>>) {
    let reach: BTreeMap<&String, BTreeSet<&String>> = graph
        .keys()
        .map(|node| (node, reachable(graph, node)))
        .collect();
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut group_of: BTreeMap<&String, usize> = BTreeMap::new();
    for node in graph.keys() {
        let own = graph.keys().find(|other| {
            *other == node || reach[*other].contains(node) && reach[node].contains(*other)
        });
        let first = own.unwrap_or(node);
        let group = group_of.get(first).copied().unwrap_or(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(node.clone());
        group_of.insert(node, group);
    }
    let mut edges = vec![BTreeSet::new(); groups.len()];
    for (node, uses) in graph {
        edges[group_of[node]].extend(uses.iter().map(|used| group_of[used]));
    }
    for (node, uses) in edges.iter_mut().enumerate() {
        uses.remove(&node);
    }
    (groups, edges)
}

fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = graph[from].iter().collect();
    while let Some(node) = open.pop() {
        if found.insert(node) {
            open.extend(&graph[node]);
        }
    }
    found
}

/// Leaves out each edge that a longer path replaces. The graph has no cycles.
fn reduced(edges: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    fn reaches(edges: &[BTreeSet<usize>], from: usize, to: usize) -> bool {
        edges[from]
            .iter()
            .any(|next| *next == to || reaches(edges, *next, to))
    }
    let is_needed = |from: usize, to: usize| {
        !edges[from]
            .iter()
            .any(|next| *next != to && reaches(edges, *next, to))
    };
    let node = |(from, uses): (usize, &BTreeSet<usize>)| {
        uses.iter()
            .copied()
            .filter(|to| is_needed(from, *to))
            .collect()
    };
    edges.iter().enumerate().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        edges
            .iter()
            .map(|(node, uses)| ((*node).to_owned(), set(uses)))
            .collect()
    }

    #[test]
    fn dependencies_of_a_manifest() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\n# a = 1\neverybuddy.workspace = true\n\
                        serde = { version = \"1\" }\n\n[dev-dependencies]\nother = \"1\"\n";
        assert_eq!(
            Vec::from_iter(dependencies(manifest)),
            ["everybuddy", "serde"]
        );
    }

    #[test]
    fn paths_in_the_crate_are_found() {
        let text = "use crate::{\n    a::{b, c},\n    d,\n};\npub use crate::e::F;\n// use crate::no::X;\n\
                    #[cfg(test)]\nmod tests;\nfn f(x: crate::g::H) {}\n\n#[cfg(test)]\nmod more {\n\
                    use crate::no;\n}\n";
        assert_eq!(Vec::from_iter(used(text)), ["a", "d", "e", "g"]);
        assert_eq!(without_tests(text).1, BTreeSet::from(["tests".to_owned()]));
    }

    #[test]
    fn edges_that_follow_from_others_are_left_out_and_cycles_share_a_node() {
        let cyclic = graph(&[
            ("a", &["b", "c", "d"]),
            ("b", &["c"]),
            ("c", &["b", "d"]),
            ("d", &[]),
        ]);
        let (groups, edges) = condensed(&cyclic);
        assert_eq!(groups, [vec!["a"], vec!["b", "c"], vec!["d"]]);
        assert_eq!(
            reduced(&edges),
            [BTreeSet::from([1]), BTreeSet::from([2]), BTreeSet::new()]
        );
    }

    #[test]
    fn text_around_the_markers_stays() {
        let text = "a\n<!-- graph of x -->\nold\n<!-- end of x -->\nb\n";
        let new = between(text, "x", "new\n").expect("the markers are there");
        assert_eq!(new, "a\n<!-- graph of x -->\nnew\n<!-- end of x -->\nb\n");
        assert!(between("a\n", "x", "new\n").is_err());
    }
}
