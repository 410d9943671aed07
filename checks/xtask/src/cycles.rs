//! Rejects import cycles: rule `no-cycles`.
//!
//! A cycle turns several rooms into one: none of them can be read, moved or tested alone. The rule looks at every
//! folder of every crate. Its files and sub-folders must not use each other in a circle.
//!
//! Paths that start with `crate::` and `super::` count, outside of comments and tests. Names that `lib.rs` or `mod.rs`
//! re-exports count as uses of the module that they come from.
//!
//! # Invariants
//! A cycle is reported once, at the folder whose members form it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::graph::{Graph, condensed, without_tests};
use crate::packages;

/// The names of the modules from the root of a crate to one of them; none for the root.
type ModulePath = Vec<String>;

/// Reports the cycles of all crates of the workspace.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for package in packages::all(root)? {
        let source = root.join(&package.folder).join("src");
        if !source.is_dir() {
            continue; // The fuzz targets have no modules.
        }
        let name = package.folder.join("src").display().to_string();
        for cycle in Tree::read(&source)?.cycles() {
            faults.push(format!("{name}{cycle}"));
        }
    }
    Ok(())
}

/// A module: its file's code.
#[derive(Debug, Default)]
struct Module {
    code: String,
    /// Names that it re-exports, each with the path that it writes.
    exports: BTreeMap<String, Vec<String>>,
}

/// The modules of a crate.
#[derive(Debug, Default)]
struct Tree {
    modules: BTreeMap<ModulePath, Module>,
}

impl Tree {
    fn read(source: &Path) -> Result<Tree, Box<dyn Error>> {
        let mut tree = Tree::default();
        let mut open = vec![(source.to_path_buf(), ModulePath::new())];
        while let Some((folder, path)) = open.pop() {
            let root = ["mod.rs", "lib.rs", "main.rs"].map(|name| folder.join(name));
            let own = root.iter().find(|file| file.exists());
            let text = own.map(fs::read_to_string).transpose()?;
            let text = match text {
                Some(text) => text,
                // The older way: `name.rs` next to the folder `name`.
                None => fs::read_to_string(folder.with_extension("rs")).unwrap_or_default(),
            };
            let tests = tree.add(path.clone(), &text);
            for entry in fs::read_dir(&folder)? {
                let entry = entry?.path();
                let name = entry.file_stem().unwrap_or_default().to_string_lossy();
                let name = name.into_owned();
                if tests.contains(&name) || ["mod", "lib", "main"].contains(&name.as_str()) {
                    continue;
                }
                let inner = [path.as_slice(), &[name]].concat();
                if entry.is_dir() {
                    open.push((entry, inner));
                } else if entry.extension().is_some_and(|kind| kind == "rs")
                    && !entry.with_extension("").is_dir()
                {
                    tree.add(inner, &fs::read_to_string(&entry)?);
                }
            }
        }
        Ok(tree)
    }

    /// Adds a module, and returns the names of its modules of tests.
    fn add(&mut self, path: ModulePath, text: &str) -> BTreeSet<String> {
        let (code, tests) = without_tests(text);
        let exports = exports(&code);
        let module = Module { code, exports };
        self.modules.insert(path, module);
        tests
    }

    /// Returns the cycles, each as the folder and its members in the order of their names.
    fn cycles(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (folder, graph) in self.graphs() {
            for members in condensed(&graph) {
                let path: String = folder.iter().map(|name| format!("/{name}")).collect();
                if members.len() > 1 {
                    let names = members.join(", ");
                    found.push(format!(
                        ":1: no-cycles: {path} these use each other in a circle: {names}"
                    ));
                }
            }
        }
        found
    }

    /// Returns for each folder which of its members use which others.
    fn graphs(&self) -> BTreeMap<ModulePath, Graph> {
        let mut graphs: BTreeMap<ModulePath, Graph> = BTreeMap::new();
        for path in self.modules.keys() {
            if let Some((name, folder)) = path.split_last() {
                let graph = graphs.entry(folder.to_vec()).or_default();
                graph.entry(name.clone()).or_default();
            }
        }
        for (own, module) in &self.modules {
            for written in paths(&module.code) {
                let Some(target) = self.absolute(own, &written) else {
                    continue;
                };
                let used = self.resolve(&target, 8);
                let common = own.iter().zip(&used).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (own.get(common), used.get(common)) {
                    let graph = graphs.entry(own[..common].to_vec()).or_default();
                    graph.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        graphs
    }

    /// Returns a path from the root of the crate.
    fn absolute(&self, own: &ModulePath, written: &[String]) -> Option<Vec<String>> {
        let (first, rest) = written.split_first()?;
        let mut base = match first.as_str() {
            "crate" => ModulePath::new(),
            "self" => own.clone(),
            "super" => own.split_last()?.1.to_vec(),
            _ => [own.as_slice(), std::slice::from_ref(first)].concat(),
        };
        for name in rest {
            match name.as_str() {
                "super" => drop(base.pop()?),
                name => base.push(name.to_string()),
            }
        }
        Some(base)
    }

    /// Returns the module that a path leads to, through re-exports; `depth` bounds how many.
    fn resolve(&self, target: &[String], depth: u32) -> ModulePath {
        let mut at = ModulePath::new();
        for (position, name) in target.iter().enumerate() {
            let inner = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&inner) {
                at = inner;
                continue;
            }
            let export = self.modules.get(&at).and_then(|own| own.exports.get(name));
            if let (Some(written), 1..) = (export, depth)
                && let Some(mut path) = self.absolute(&at, written)
            {
                path.extend_from_slice(&target[position + 1..]);
                return self.resolve(&path, depth - 1);
            }
            break;
        }
        at
    }
}

/// Returns the names that code re-exports, each with the path that it writes.
fn exports(code: &str) -> BTreeMap<String, Vec<String>> {
    let mut exports = BTreeMap::new();
    for part in code.split("pub").skip(1) {
        let part = match part.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
            None => part,
        };
        if let Some(tree) = part.trim_start().strip_prefix("use ") {
            for path in expand(tree) {
                let name = match path.last().map(String::as_str) {
                    Some("self") => path.iter().rev().nth(1),
                    _ => path.last(),
                };
                exports.extend(name.map(|name| (name.clone(), path.clone())));
            }
        }
    }
    exports
}

/// Returns all paths of code that start with `crate` or `super`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            // Within a path (`super::super::`), or at the end of another word.
            if before.is_some_and(|letter| letter.is_alphanumeric() || "_:$".contains(letter)) {
                continue;
            }
            found.extend(expand(&code[at..]));
        }
    }
    found
}

/// Returns the paths of a tree of a `use`, or the path at the beginning of code.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let mut rest = tree;
    let mut found = Vec::new();
    branch(&mut rest, &[], &mut found);
    found
}

fn branch(rest: &mut &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = before.to_vec();
    loop {
        *rest = rest.trim_start();
        if let Some(inner) = rest.strip_prefix('{') {
            *rest = inner;
            while !rest.is_empty() && !rest.starts_with('}') {
                branch(rest, &path, found);
                // What a path may end with: `as name`, a comma.
                let end = rest.find([',', '}']).unwrap_or(rest.len());
                *rest = rest[end..].trim_start_matches(',').trim_start();
            }
            *rest = rest.strip_prefix('}').unwrap_or_default();
            return;
        }
        let end = rest
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        path.push(rest[..end].to_string());
        *rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(inner) => *rest = inner,
            None => break,
        }
    }
    if path.len() > before.len() {
        found.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(modules: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in modules {
            let names = path.split('/').filter(|name| !name.is_empty());
            tree.add(names.map(String::from).collect(), text);
        }
        tree
    }

    #[test]
    fn trees_of_paths_are_expanded() {
        let code =
            "use crate::{a, b::{self, c as d, e::*}};\nfn f(x: super::super::G<super::h::I>) {}\n";
        let found: BTreeSet<String> = paths(code).iter().map(|path| path.join("::")).collect();
        let expected = [
            "crate::a",
            "crate::b::c",
            "crate::b::e",
            "crate::b::self",
            "super::h::I",
            "super::super::G",
        ];
        assert_eq!(Vec::from_iter(found), expected);
    }

    #[test]
    fn cycles_of_rooms_are_found() {
        let folders = tree(&[
            ("", "pub mod a;\npub mod b;\nmod c;\n"),
            ("a", "mod inner;\n"),
            ("a/inner", "use crate::b::Thing;\n"),
            ("b", "use crate::c;\n"),
            ("c", "use super::a;\n"),
            ("d", "use crate::a;\n// use crate::e;\n"),
            ("e", "use crate::d;\n"),
        ]);
        let cycles = folders.cycles();
        assert_eq!(cycles.len(), 1, "{cycles:?}");
        assert!(cycles[0].ends_with("circle: a, b, c"), "{cycles:?}");
    }

    #[test]
    fn a_re_export_hides_no_cycle() {
        let hidden = tree(&[
            ("", "pub use a::inner::Thing;\n"),
            ("a", "pub mod inner;\n"),
            ("a/inner", "use crate::b::Other;\n"),
            ("b", "use crate::Thing;\n"),
        ]);
        assert_eq!(hidden.cycles().len(), 1);
    }

    #[test]
    fn files_of_one_folder_must_not_form_a_circle() {
        let files = tree(&[
            ("a", ""),
            ("a/x", "use super::y::Y;\n"),
            ("a/y", "use super::x::X;\n"),
        ]);
        assert_eq!(files.cycles().len(), 1);
        let tests = tree(&[
            ("a", ""),
            ("a/x", "use super::y::Y;\n"),
            (
                "a/y",
                "#[cfg(test)]\nmod tests {\n    use super::super::x::X;\n}\n",
            ),
        ]);
        assert_eq!(tests.cycles(), Vec::<String>::new());
    }
}
