//! The rule dead-name: a Rust path in a document names a definition.
//!
//! # Invariants
//!
//! The sources are read as text. A path resolves if one file agrees with all of it, so a name that moved to another
//! module, or that only another type has, is reported.

use std::collections::BTreeSet;

/// The keywords before a name that is defined.
const KEYWORDS: [&str; 10] = [
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "mod",
    "union",
    "macro_rules",
];

/// A source file: where it is, and what it defines.
pub(crate) struct Source {
    /// Its crate and modules.
    modules: Vec<String>,
    /// Items, and names that it exports from elsewhere.
    items: BTreeSet<String>,
    /// Types that it implements something for.
    implemented: BTreeSet<String>,
    /// Items, and what begins a line as fields and variants do.
    members: BTreeSet<String>,
}

impl Source {
    /// Reads the definitions of a source file.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let mut source = Self {
            modules: modules(path),
            items: BTreeSet::new(),
            implemented: BTreeSet::new(),
            members: BTreeSet::new(),
        };
        let mut is_export = false;
        for line in text.lines() {
            let code = line.split("//").next().unwrap_or_default().trim();
            let words: Vec<&str> = words(code).collect();
            let is_public = words.first() == Some(&"pub");
            is_export |= is_public && words.iter().take(3).any(|word| *word == "use");
            if is_export {
                source
                    .items
                    .extend(words.iter().map(|word| (*word).to_owned()));
                is_export = !code.ends_with(';');
                continue;
            }
            for pair in words.windows(2) {
                if KEYWORDS.contains(&pair[0]) {
                    source.items.insert(pair[1].to_owned());
                }
            }
            if words.contains(&"impl") {
                let names = words.iter().map(|word| (*word).to_owned());
                source.implemented.extend(names);
            }
            let member = words
                .iter()
                .find(|word| !["pub", "crate", "super"].contains(word));
            source.members.extend(member.map(|word| (*word).to_owned()));
        }
        source.members.extend(source.items.iter().cloned());
        source
    }

    /// Returns `true` if the path names a definition of this file: `module::item`, or `module::Type::member`.
    fn defines(&self, path: &[&str]) -> bool {
        let [qualifiers @ .., name] = path else {
            return false;
        };
        if self.is_in(qualifiers) && self.items.contains(*name) {
            return true;
        }
        let [qualifiers @ .., owner] = qualifiers else {
            return false;
        };
        let has_owner = self.items.contains(*owner) || self.implemented.contains(*owner);
        self.is_in(qualifiers) && has_owner && self.members.contains(*name)
    }

    /// Returns `true` if the file's modules contain these, one after the other.
    fn is_in(&self, qualifiers: &[&str]) -> bool {
        let length = qualifiers.len();
        length == 0 || self.modules.windows(length).any(|part| part == qualifiers)
    }
}

/// Returns the crate and the modules of a source file: `crates/everybuddy/src/zone/one.rs` is `everybuddy::zone::one`,
/// and `lab/trace/src/file.rs` is `everybuddy_trace::file`.
fn modules(path: &str) -> Vec<String> {
    let mut parts = path.trim_end_matches(".rs").split('/');
    let package = match (parts.next(), parts.next()) {
        (Some("lab" | "checks"), Some(package)) => format!("everybuddy_{package}"),
        (_, package) => package.unwrap_or_default().to_owned(),
    };
    let ignored = ["src", "mod", "lib", "main"];
    let names = parts.filter(|part| !ignored.contains(part));
    let names = std::iter::once(package.as_str()).chain(names);
    names.map(|part| part.replace('-', "_")).collect()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words = code.split(move |letter| !is_part(letter));
    words.filter(|word| !word.is_empty())
}

/// Reports Rust paths of a document, such as `zone::OneZone`, that no source file defines.
pub(crate) fn check(file: &str, text: &str, sources: &[Source], faults: &mut Vec<String>) {
    for (index, line) in text.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
            if !span.contains("::") || !span.chars().all(is_name) {
                continue;
            }
            let path: Vec<&str> = span.split("::").collect();
            if !sources.iter().any(|source| source.defines(&path)) {
                faults.push(format!("{file}:{}: dead-name: `{span}`", index + 1));
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
        let sources = [
            Source::new("crates/everybuddy/src/systems/row.rs", row),
            Source::new(
                "crates/everybuddy/src/coalesce/mod.rs",
                "mod delay;\nfn gone() {}\n",
            ),
        ];
        let alive = "`systems::Row`, `systems::row::Row`, `Row::take`, `Row::name`, `Event::Lock`, `systems::Hold`, \
                     `everybuddy::coalesce::delay`; `a b::c` and `file.rs` are not checked.";
        let mut faults = Vec::new();
        check("x.md", alive, &sources, &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        let dead = "`coalesce::Row`\n`Row::give`\n`Row::gone`\n`coalesce::row::Row`\n`row::delay`";
        check("x.md", dead, &sources, &mut faults);
        let found = [
            "x.md:1: dead-name: `coalesce::Row`",
            "x.md:2: dead-name: `Row::give`",
            "x.md:3: dead-name: `Row::gone`",
            "x.md:4: dead-name: `coalesce::row::Row`",
            "x.md:5: dead-name: `row::delay`",
        ];
        assert_eq!(faults, found);
    }
}
