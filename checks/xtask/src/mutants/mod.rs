//! Compiles mutants together: `cargo run -p xtask -- mutants FOLDER`, for `ci/mutants.sh`.
//!
//! # Purpose
//!
//! cargo-mutants lists changes of the allocators and compiles the crate again for each of them. Here all changes become
//! alternatives in one program, and an environment variable selects one. `FOLDER/selected` lists them, and
//! `FOLDER/tree` is a copy of the sources. This task writes the alternatives into the copy, and removes those that do
//! not compile. `FOLDER/places` then states for each mutant whether it is compiled in, or the reason why it is not.
//!
//! # Invariants
//!
//! The program without a selected mutant is the original one: alternatives are added, and the original code is not
//! changed. An alternative contains one mutant and otherwise the original text.

mod places;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use places::Edit;

/// What is compiled. The tests are checked when they are built.
const CHECK: &str =
    "check --locked --profile gate --package everybuddy --lib --message-format short";

/// A change that cargo-mutants lists.
pub(crate) struct Mutant {
    /// The number by which it is selected.
    number: usize,
    file: String,
    /// Where it begins: the line and the column, counted from 1 and in characters.
    line: usize,
    column: usize,
    /// What cargo-mutants writes: `replace + with - in grow`.
    description: String,
    /// The name of the mutant, which does not depend on its line.
    name: String,
}

impl Mutant {
    /// Reads a line of `selected`: number, file, line, column, description and name.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        Some(Self {
            number: next()?.parse().ok()?,
            file: next()?.to_owned(),
            line: next()?.parse().ok()?,
            column: next()?.parse().ok()?,
            description: next()?.to_owned(),
            name: next()?.to_owned(),
        })
    }
}

/// A file of the copy.
struct Source<'m> {
    mutants: Vec<&'m Mutant>,
    original: String,
    edits: Vec<Edit>,
}

/// Why a mutant is not compiled in, by its number: `uncompiled` or `unviable`, and the reason.
type Reasons = BTreeMap<usize, String>;

/// Writes the mutants of `folder` into its copy of the sources, and states what became of each.
pub(crate) fn write(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let text = fs::read_to_string(folder.join("selected"))?;
    let mutants: Option<Vec<Mutant>> = text.lines().map(Mutant::read).collect();
    let mutants = mutants.ok_or("a line of `selected` lacks a field")?;
    let tree = folder.join("tree");
    let mut sources: BTreeMap<&str, Source<'_>> = BTreeMap::new();
    for mutant in &mutants {
        let source = match sources.entry(&mutant.file) {
            Entry::Occupied(source) => source.into_mut(),
            Entry::Vacant(place) => place.insert(Source {
                mutants: Vec::new(),
                original: fs::read_to_string(tree.join(&mutant.file))?,
                edits: Vec::new(),
            }),
        };
        source.mutants.push(mutant);
    }
    let mut reasons = Reasons::new();
    for source in sources.values_mut() {
        source.edits = places::edits(&source.original, &source.mutants, &mut reasons)?;
    }
    // The compiler reports errors in stages: names first, then types, then borrows.
    while reject(&tree, &sources, &mut reasons)? {}

    let places = mutants.iter().map(|mutant| {
        let reason = reasons.get(&mutant.number);
        let reason = reason.map_or("compiled\t", String::as_str);
        let (number, name, line) = (mutant.number, &mutant.name, mutant.line);
        format!("{number}\t{name}\t{line}\t{reason}\n")
    });
    fs::write(folder.join("places"), places.collect::<String>())?;
    Ok(Vec::new())
}

/// Writes the files with all mutants that have no reason against them, and compiles them. Each mutant with an error
/// receives a reason. Returns `true` if one did.
///
/// # Errors
///
/// If an error lies outside of the mutants.
fn reject(
    tree: &Path,
    sources: &BTreeMap<&str, Source<'_>>,
    reasons: &mut Reasons,
) -> Result<bool, Box<dyn Error>> {
    let mut written = BTreeMap::new();
    for (file, source) in sources {
        let (text, places) = spliced(&source.original, &source.edits, reasons);
        fs::write(tree.join(file), &text)?;
        written.insert(*file, (text, places));
    }
    let mut check = Command::new("cargo");
    let check = check.args(CHECK.split(' ')).current_dir(tree).output()?;
    if check.status.success() {
        return Ok(false);
    }
    let messages = String::from_utf8_lossy(&check.stderr);
    let mut is_known = false;
    for message in messages.lines().filter(|line| line.contains(": error")) {
        let mut fields = message.splitn(4, ':');
        let mut next = || fields.next().unwrap_or_default();
        let (file, line, column, error) = (next(), next(), next(), next());
        let number = written.get(file).and_then(|(text, places)| {
            let at = offset(text, line.parse().ok()?, column.parse().ok()?)?;
            let place = places.iter().find(|(place, _)| place.contains(&at));
            place.map(|(_, number)| *number)
        });
        let Some(number) = number else {
            return Err(format!("an error that is not of a mutant: {message}").into());
        };
        let reason = format!("unviable\t{}", error.trim_start());
        is_known |= reasons.insert(number, reason).is_none();
    }
    if is_known {
        return Ok(true);
    }
    Err(format!("the compiler fails without an error of a mutant:\n{messages}").into())
}

/// Returns the text with its edits, except those of the mutants that have a reason against them, and the range of each
/// mutant in it.
fn spliced(
    original: &str,
    edits: &[Edit],
    reasons: &Reasons,
) -> (String, Vec<(Range<usize>, usize)>) {
    let (mut text, mut places) = (String::new(), Vec::new());
    let mut done = 0;
    for edit in edits {
        text.push_str(&original[done..edit.at]);
        done = edit.at;
        match edit.mutant {
            Some(number) if reasons.contains_key(&number) => {}
            Some(number) => {
                let start = text.len();
                text.push_str(&edit.text);
                places.push((start..text.len(), number));
            }
            None => text.push_str(&edit.text),
        }
    }
    text.push_str(&original[done..]);
    (text, places)
}

/// Returns the offset in bytes of a place that the compiler names.
fn offset(text: &str, line: usize, column: usize) -> Option<usize> {
    let start = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum::<usize>();
    let (at, _) = text[start..].char_indices().nth(column - 1)?;
    Some(start + at)
}

#[test]
fn every_kind_of_mutant_is_an_alternative_and_the_rest_stays() {
    let source = "fn f(a: u8) -> u8 {\n    a * 2 + 1 // é\n}\nconst C: u8 = 1 + 2;\nfn g(s: S, b: bool) -> S {\n    \
        match s {\n        S { x: 1, .. } => s,\n        S { x: 2, .. } if !b => s,\n        \
        _ => S { x: 3, ..s },\n    }\n}\n";
    let mutant = |(number, (place, description)): (usize, (&str, &str))| {
        let (line, column) = place.split_once(':').expect("a place");
        let fields = [&number.to_string(), "f.rs", line, column, description, "n"];
        Mutant::read(&fields.join("\t")).expect("a mutant")
    };
    let mutants = [
        ("2:5", "replace f -> u8 with 0"),
        ("2:7", "replace * with / in f"),
        ("2:11", "replace + with - in f"),
        ("4:17", "replace + with *"),
        ("7:9", "delete match arm S{x: 1, ..} in g"),
        ("8:9", "delete match arm S{x: 2, ..} in g"),
        ("8:27", "replace match guard !b with true in g"),
        ("8:27", "delete ! in g"),
        ("9:18", "delete field x from struct S expression in g"),
        ("9:99", "replace && with || in g"),
    ];
    let mutants: Vec<Mutant> = mutants.into_iter().enumerate().map(mutant).collect();
    let mut reasons = Reasons::new();
    let edits = places::edits(source, &mutants.iter().collect::<Vec<_>>(), &mut reasons);
    let (text, places) = spliced(source, &edits.expect("it is parsed"), &reasons);
    let expected = "fn f(a: u8) -> u8 { if is(0) { return 0; }\n    \
        (if is(2) { (a * 2) - (1) } else { (if is(1) { (a) / (2) } else { a * 2 }) + 1 }) // é\n}\n\
        const C: u8 = 1 + 2;\nfn g(s: S, b: bool) -> S {\n    match s {\n        \
        S { x: 1, .. } if !is(4) => s,\n        S { x: 2, .. } if !is(5) && (\
        (if is(6) { true } else { (if is(7) { (b) } else { !b }) })) => s,\n        \
        _ => (if is(8) { S {  ..s } } else { S { x: 3, ..s } }),\n    }\n}\n";
    assert_eq!(text.replace("crate::mutants::", ""), expected);
    let (range, number) = &places[1];
    assert_eq!(*number, 2);
    assert!(text[range.clone()].contains("(a * 2) - (1)"));
    assert_eq!(reasons[&3], "uncompiled\tin a constant");
    assert_eq!(reasons[&9], "uncompiled\tinside a macro");
    assert_eq!(offset(&text, 2, 5), text.find("(if"));
}
