//! The rule dead-name: a Rust path in a document names a definition, and so does a test in the page of bugs.
//!
//! # Invariants
//! The sources are read as text. A path resolves if one file agrees with all of it, so a name that moved to another
//! module, or that only another type has, is reported.

use std::collections::BTreeSet;

/// The page that names tests, without their modules.
const TESTS: &str = "checks/suite/README.md";

/// The keywords before a name that is defined.
const KEYWORDS: &str = "fn struct enum trait type const static mod union macro_rules";

/// A source file: where it is, and what it defines.
#[derive(Default)]
struct Source {
    /// Its crate and modules.
    modules: Vec<String>,
    /// Items, and names that it exports from elsewhere.
    items: BTreeSet<String>,
    /// Items, and types that it implements something for.
    owners: BTreeSet<String>,
    /// Items, and what begins a line as fields and variants do.
    members: BTreeSet<String>,
}

impl Source {
    /// Reads the definitions of a source file.
    fn new(path: &str, text: &str) -> Self {
        let mut source = Self {
            modules: modules(path),
            ..Self::default()
        };
        let mut is_export = false;
        for line in text.lines() {
            let code = line.split("//").next().unwrap_or_default().trim();
            let words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let words = words.filter(|word| !word.is_empty());
            let words: Vec<String> = words.map(str::to_owned).collect();
            is_export |= code.starts_with("pub") && words.iter().take(3).any(|word| word == "use");
            if is_export {
                is_export = !code.ends_with(';');
                source.items.extend(words);
                continue;
            }
            let pairs = words.windows(2);
            let named = pairs.filter(|pair| KEYWORDS.split(' ').any(|word| word == pair[0]));
            source.items.extend(named.map(|pair| pair[1].clone()));
            if words.iter().any(|word| word == "impl") {
                source.owners.extend(words.iter().cloned());
            }
            let is_name = |word: &String| !["pub", "crate", "super"].contains(&word.as_str());
            source.members.extend(words.into_iter().find(is_name));
        }
        source.owners.extend(source.items.iter().cloned());
        source.members.extend(source.items.iter().cloned());
        source
    }

    /// Returns `true` if the path names a definition of this file: `module::item`, or `module::Type::member`.
    fn defines(&self, path: &[&str]) -> bool {
        let [modules @ .., owner, name] = path else {
            return false;
        };
        self.is_in(&path[..path.len() - 1]) && self.items.contains(*name)
            || self.is_in(modules) && self.owners.contains(*owner) && self.members.contains(*name)
    }

    /// Returns `true` if the file's modules contain these, one after the other.
    fn is_in(&self, modules: &[&str]) -> bool {
        let length = modules.len();
        length == 0 || self.modules.windows(length).any(|part| part == modules)
    }
}

/// Returns the crate and the modules of a source file: `crates/everybuddy/src/zone/one.rs` is `everybuddy::zone::one`,
/// and `lab/text/src/file.rs` is `everybuddy_text::file`.
fn modules(path: &str) -> Vec<String> {
    let mut parts = path.trim_end_matches(".rs").split('/');
    let package = match (parts.next(), parts.next()) {
        (Some("lab" | "checks"), Some(package)) => format!("everybuddy_{package}"),
        (_, package) => package.unwrap_or_default().to_owned(),
    };
    let parts = parts.filter(|part| !["src", "mod", "lib", "main"].contains(part));
    let names = std::iter::once(package.as_str()).chain(parts);
    names.map(|part| part.replace('-', "_")).collect()
}

/// Reports Rust paths of documents, such as `zone::OneZone`, that no source file defines.
pub(crate) fn check(texts: &[&(String, String)], faults: &mut Vec<String>) {
    let of = |ending| texts.iter().filter(move |(name, _)| name.ends_with(ending));
    let sources: Vec<Source> = of(".rs").map(|own| Source::new(&own.0, &own.1)).collect();
    for (file, text) in of(".md") {
        for (at, line) in (1..).zip(text.lines()) {
            for span in line.split('`').skip(1).step_by(2) {
                let is_part = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
                let path: Vec<&str> = span.split("::").collect();
                let is_name = span.chars().all(is_part);
                let is_path = is_name && path.len() > 1;
                let is_test = is_name && file == TESTS && span.contains('_');
                let defines = |source: &Source| {
                    if is_path {
                        source.defines(&path)
                    } else {
                        source.items.contains(span)
                    }
                };
                if (is_path || is_test) && !sources.iter().any(defines) {
                    faults.push(format!("{file}:{at}: dead-name: `{span}`"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_must_lead_to_their_definition() {
        let row = "//! A Row.\npub use crate::lock::{\n    Hold,\n};\npub struct Row {\n    pub name: u8,\n}\n\
                   impl Row {\n    /// Takes.\n    pub fn take(&self) {\n        other.give(self)\n    }\n}\n\
                   enum Event {\n    Lock,\n}\n";
        let text = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let row = text("crates/everybuddy/src/systems/row.rs", row);
        let coalesce = text(
            "crates/everybuddy/src/coalesce/mod.rs",
            "mod delay;\nfn gone() {}\nfn is_there() {}\n",
        );
        let alive = "`systems::Row`, `systems::row::Row`, `Row::take`, `Row::name`, `Event::Lock`, `systems::Hold`, \
                     `everybuddy::coalesce::delay`; `a b::c` and `file.rs` are not checked.";
        let mut faults = Vec::new();
        check(&[&row, &coalesce, &text("x.md", alive)], &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        let dead = "`coalesce::Row`\n`Row::give`\n`Row::gone`\n`coalesce::row::Row`\n`row::delay`";
        check(&[&row, &coalesce, &text("x.md", dead)], &mut faults);
        let found = [
            "x.md:1: dead-name: `coalesce::Row`",
            "x.md:2: dead-name: `Row::give`",
            "x.md:3: dead-name: `Row::gone`",
            "x.md:4: dead-name: `coalesce::row::Row`",
            "x.md:5: dead-name: `row::delay`",
        ];
        assert_eq!(faults, found);
        let tests = "`is_there`, `file.rs`; `here_no_more`";
        for (page, count) in [("x.md", 0), (TESTS, 1)] {
            faults.clear();
            check(&[&coalesce, &text(page, tests)], &mut faults);
            assert_eq!(faults.len(), count, "{faults:?}");
        }
    }
}
