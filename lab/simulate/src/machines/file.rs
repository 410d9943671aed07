//! Machine files.
//!
//! A file has the keys `name`, `title` and `text`, the numbers in `[hardware]`, and their sources in `[sources]`. A
//! source is a text; `l1 = "..."` is the source of all numbers of `l1`. A source that begins with `assumed:`
//! marks a number that was not published, and `unused:` one that does not matter.
//!
//! # Invariants
//! A file that is read has every number with its source, and nothing else. A message names the file, the key and the
//! remedy.

use everybuddy_measure::Error;
use everybuddy_measure::choice::unknown;
use everybuddy_sim::Hardware;
use toml::{Table, Value};

use crate::machines::machine::Machine;
use crate::machines::number::{BLANK, NUMBERS, OPTIONAL};

/// The texts of a file, and its tables.
const TEXTS: [&str; 3] = ["name", "title", "text"];
const TABLES: [&str; 2] = ["hardware", "sources"];

impl Machine {
    /// Writes the machine's file.
    pub fn to_toml(&self) -> String {
        write(self)
    }

    /// Reads a machine's file; `name` is for messages.
    ///
    /// # Errors
    /// Returns a usage error that names the file, the key and the remedy.
    pub fn parse(name: &str, text: &str) -> Result<Machine, Error> {
        parse(text).map_err(|what| Error::usage(format!("machine {name}: {what}")))
    }
}

fn parse(text: &str) -> Result<Machine, String> {
    let file: Table = text
        .parse()
        .map_err(|error: toml::de::Error| format!("not TOML\n{}", error.to_string().trim_end()))?;
    let known = [&TEXTS[..], &TABLES].concat();
    if let Some(key) = file.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(unknown("key", key, &known));
    }
    let [name, title, words] = TEXTS.map(|key| line(&file, key));
    let hardware = hardware(table(&file, "hardware")?)?;
    let sources = sources(table(&file, "sources")?, &hardware)?;
    hardware.check().map_err(|error| {
        format!("{error}\nhelp: correct the number in [hardware], and check its source")
    })?;
    Ok(Machine {
        name: name?,
        title: title?,
        text: words?,
        hardware,
        sources,
    })
}

fn line(file: &Table, key: &str) -> Result<String, String> {
    let text = match file.get(key) {
        None => return Err(format!("`{key}` is missing\nhelp: add {key} = \"...\"")),
        Some(value) => value.as_str().unwrap_or_default(),
    };
    // Files may break lines anywhere.
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return Err(format!(
            "`{key}` must be a text\nhelp: write {key} = \"...\""
        ));
    }
    Ok(words.join(" "))
}

fn table<'t>(file: &'t Table, key: &str) -> Result<&'t Table, String> {
    let found = file.get(key).and_then(Value::as_table);
    found.ok_or_else(|| format!("the table `{key}` is missing\nhelp: add a line [{key}]"))
}

/// Returns the values of a table by their whole keys.
fn flat<'t>(table: &'t Table) -> Vec<(String, &'t Value)> {
    let mut all: Vec<(String, &'t Value)> = Vec::new();
    for (outer, value) in table {
        match value.as_table() {
            Some(inner) => all.extend(
                inner
                    .iter()
                    .map(|own| (format!("{outer}.{}", own.0), own.1)),
            ),
            None => all.push((outer.clone(), value)),
        }
    }
    all
}

fn keys() -> Vec<&'static str> {
    NUMBERS.iter().map(|number| number.key).collect()
}

fn hardware(table: &Table) -> Result<Hardware, String> {
    let given = flat(table);
    if let Some((key, _)) = given.iter().find(|own| !keys().contains(&own.0.as_str())) {
        return Err(format!("[hardware]: {}", unknown("key", key, &keys())));
    }
    let mut own = BLANK;
    let lacks_second = !given.iter().any(|own| own.0.starts_with(OPTIONAL));
    for number in NUMBERS {
        let (key, needs) = (number.key, number.needs);
        match given.iter().find(|own| own.0 == key) {
            Some((_, value)) => (number.set)(&mut own, value)
                .ok_or_else(|| format!("[hardware]: `{key}` is {value}, but must be {needs}"))?,
            None if lacks_second && key.starts_with(OPTIONAL) => {}
            None => {
                let help = format!("help: add {key}, {needs}: {}", number.meaning);
                return Err(format!("[hardware]: `{key}` is missing\n{help}"));
            }
        }
    }
    Ok(own)
}

fn sources(table: &Table, hardware: &Hardware) -> Result<Vec<String>, String> {
    let given = flat(table);
    let wholes = keys().into_iter().filter_map(|key| key.split_once('.'));
    let mut known = keys();
    known.extend(wholes.map(|own| own.0));
    for (key, value) in &given {
        if !known.contains(&key.as_str()) {
            return Err(format!("[sources]: {}", unknown("key", key, &known)));
        }
        if value.as_str().is_none_or(|text| text.trim().is_empty()) {
            return Err(format!("[sources]: `{key}` must be a text"));
        }
    }
    let mut all = Vec::new();
    for number in NUMBERS {
        let key = number.key;
        let whole = key.split_once('.').map_or(key, |own| own.0);
        let found = given.iter().find(|own| own.0 == key || own.0 == whole);
        let text = found.and_then(|own| own.1.as_str());
        match ((number.get)(hardware), text) {
            (None, None) => all.push(String::new()),
            (Some(_), Some(text)) => {
                all.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
            }
            (Some(_), None) => {
                return Err(format!(
                    "[sources]: `{key}` has no source\nhelp: add {key} = \"...\" with publication and address, \
                     or \"assumed: ...\" with the reason"
                ));
            }
            (None, Some(_)) => {
                return Err(format!(
                    "[sources]: `{key}` has a source, but [hardware] has no such number\nhelp: remove one or add the \
                     other"
                ));
            }
        }
    }
    Ok(all)
}

/// Writes a file.
fn write(machine: &Machine) -> String {
    let quoted = |text: &str| Value::String(text.to_string()).to_string();
    let mut out = String::new();
    for (key, text) in TEXTS
        .iter()
        .zip([&machine.name, &machine.title, &machine.text])
    {
        out += &format!("{key} = {}\n", quoted(text));
    }
    out += "\n[hardware]\n";
    for number in NUMBERS {
        if let Some(value) = (number.get)(&machine.hardware) {
            out += &format!("{} = {value}\n", number.key);
        }
    }
    out += "\n[sources]\n";
    for (number, source) in NUMBERS.iter().zip(&machine.sources) {
        if !source.is_empty() {
            out += &format!("{} = {}\n", number.key, quoted(source));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use everybuddy_sim::Waiters;

    use super::*;

    const RIGHT: &str = include_str!("../../machines/x5570.toml");

    fn refused(from: &str, to: &str) -> String {
        let changed = RIGHT.replacen(from, to, 1);
        assert_ne!(changed, RIGHT, "{from}");
        let message = Machine::parse("x.toml", &changed).unwrap_err().to_string();
        assert!(message.starts_with("machine x.toml: "), "{message}");
        message
    }

    #[test]
    fn mistakes_are_explained() {
        for line in include_str!("wrong.txt").lines().skip(1) {
            let parts: Vec<String> = line
                .split(" | ")
                .map(|part| part.replace("\\n", "\n"))
                .collect();
            let [from, to, parts @ ..] = &parts[..] else {
                panic!("{line}");
            };
            let message = refused(from, to);
            for part in parts {
                assert!(message.contains(part), "{part} is not in: {message}");
            }
        }
    }

    #[test]
    fn waiters_may_back_off() {
        let text = RIGHT.replacen("waiters = \"spin\"", "waiters = \"back-off 2560\"", 1);
        let machine = Machine::parse("x.toml", &text).unwrap();
        assert_eq!(machine.hardware.waiters, Waiters::BackOff(2560));
        let again = Machine::parse("y.toml", &machine.to_toml()).unwrap();
        assert_eq!(again, machine);
    }

    #[test]
    fn every_number_needs_a_source() {
        let (numbers, sources) = RIGHT.split_once("[sources]").unwrap();
        let with = |sources: String| {
            let text = format!("{numbers}[sources]{sources}");
            Machine::parse("x.toml", &text).unwrap_err().to_string()
        };
        let message = with(sources.replacen("\nwaiters = ", "\n# waiters = ", 1));
        assert!(message.contains("`waiters` has no source") && message.contains("assumed:"));
        let message = with(sources.replacen("\nmemory = ", "\nmemroy = ", 1));
        assert!(message.contains("did you mean `memory`?"), "{message}");
        let message = with(sources.replacen("\nwaiters = ", "\nwaiters = 3 # ", 1));
        assert!(message.contains("`waiters` must be a text"), "{message}");
        assert!(with("\n".to_string()).contains("`sockets` has no source"));
        let without: String = numbers
            .lines()
            .filter(|line| !line.starts_with("l2."))
            .fold(String::new(), |all, line| all + line + "\n");
        let text = format!("{without}[sources]{sources}");
        let message = Machine::parse("x.toml", &text).unwrap_err().to_string();
        assert!(
            message.contains("[hardware] has no such number"),
            "{message}"
        );
        let message = Machine::parse("x.toml", numbers).unwrap_err().to_string();
        assert!(message.contains("help: add a line [sources]"), "{message}");
    }
}
