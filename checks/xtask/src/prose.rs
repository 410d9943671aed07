//! Plain English: patterns that no document, comment or message may have.
//!
//! # Invariants
//! The examples of a rule are its test: it fires on each wrong one and on no right one. Code is not prose: all except
//! comments, messages and paragraphs is blanked before a pattern is searched, and so are code blocks and code spans.

use regex::{Captures, Regex};

use crate::Outcome;

/// Files that are not checked: the examples below, and documents that are generated from source files.
const EXEMPT: [&str; 4] = [
    "checks/xtask/src/prose.rs",
    "SYSTEMS.md",
    "docs/claims.md",
    "docs/metrics.md",
];

/// A pattern that must not occur, as name, advice, pattern, exception and files; and examples, wrong and right ones.
///
/// In a pattern, a space also matches a line break, and `\A` is the beginning of a line. The exception is a pattern of
/// matches that are correct after all, or empty. The rule holds for files whose names end like this.
type Rule = ([&'static str; 5], [&'static [&'static str]; 2]);

#[rustfmt::skip]
const RULES: &[Rule] = &[
    (["who", "give the verb a noun: the reader, the caller, the CPU",
        concat!(r"\A(Who [a-z]+)|([.;:(|-] |, and |, but )[Ww]ho [a-z]+|\b[Ww]ho(m)?ever\b",
                r"|\b([Ff]or|[Tt]o|[Bb]y|[Oo]f|than|[Uu]nless|[Ii]f|[Bb]ecause|[Ww]ith) who [a-z]+"),
        "ho (did|does|should)$|of who (holds|owns)$", ""],
        [&["Who times nothing calls systems.", "It is full; who finds it\nfull works.", "Because who asks, waits."],
            &["All readers\nwho must choose a policy.", "Who should hold the lock?", "A ledger of who holds what."]]),
    (["person", "write `no CPU`, `another thread`, `every caller`: CPUs and threads are not people",
        r"\b([Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body\b", "", ""],
        [&["Nobody waits for a domain."], &["No CPU waits for a domain."]]),
    (["is-no", "negate the verb: `is not a ...`",
        r"\b([Tt]here |[Hh]ere )?((can|may|must|will|would|should|could) )?(is|are|was|were|be) no [a-z]+",
        concat!("^[Tt]?[Hh]ere | no (longer|more|less|fewer|slower|faster|larger|smaller|better|worse|other|different",
                "|doubt|use|need)$"), ""],
        [&["A refused one is counted and is no\n    block.", "Racing misuse is no undefined behaviour."],
            &["There is no lock.", "There can be no other holder.", "The list is no longer than the batch."]]),
    (["calque", "write `otherwise`, `was acquired`, `expensive`, `initially`, `finally`, `about 40`, `minus its`",
        concat!(r"[;:] else\b|, else [a-z]+|\band else\b|\b(be|been|was|were|is|are) (not )?had\b|\bdear(er|est)?\b",
                r"|\b[Ii]n the (beginning|end)\b|\b[Ss]ome (\d|(seconds|hundred|ten)\b)|, less (the|its|their) "),
        ", else if$", ""],
        [&["With +high=N the bound; else less.", "It was not had.", "It is dearer than a lock.", "In the end it fails.",
                "A unit lasted some 40 µs.", "The total, less its share."],
            &["Nothing else holds it.", "It has had two owners.", "It takes about 40 µs.", "Some systems refuse."]]),
    (["so-many", "name the number: `N frames`, `the given number of frames`",
        r"\b[Ss]o (many|much) [a-z]+",
        "o (many|much) (as|that|more|less)$", ""],
        [&["Moves so many frames."], &["There are so many that the list overflows."]]),
    (["per-unit", "write `per`: `bytes per frame`, `a lock per CPU`",
        concat!(r"\b(lists?|bytes?|locks?|records?|lines?|bits|batch|ns|instructions|cycles|operations|frames|pairs?) ",
                r"an? (CPU|frame|class|thread|order|pair|call|block|row|space|system)\b"),
        "^frames a system$", ""],
        [&["It needs 8.25 bytes a frame.", "One list a CPU."], &["The frames a system leaves idle."]]),
    (["beside", "write `next to`, `besides` or `compared with`",
        r"=?\b[Bb]eside([.,;:]| )",
        "^=", ""],
        [&["Two bits beside the records."], &["Two bits next to the records.", "lbs-31+line=beside"]]),
    (["at-once", "write `immediately`, `simultaneously` or `together`",
        r"\bat once\b", "", ""],
        [&["All of them are held at\nonce."], &["It looks once more."]]),
    (["std-docs", "write as the standard library: `Returns `true` if`, `Returns `None` if`, `Creates a`",
        concat!(r"(\A|\. )(Tells (whether|how|why)|Makes (a|an|the|it))\b|; nothing (if|when|where|unless)\b",
                r"|, or nothing (when|where|outside|if)\b|\. Nothing (if|when)\b"), "", ""],
        [&["Tells whether it is closed.", "Returns it; nothing if it is empty.", "Returns it. Makes a trace of it."],
            &["Returns `true` if it is closed.", "It frees nothing if it is empty.", "This makes a difference."]]),
    (["metaphor", "name the mechanism: drain, be defined, fix",
        r"\b(brings?|brought|came|comes?|goes) home\b|\bstands? (here|there|once)\b|\bmend(s|ed)?\b", "", ""],
        [&["The lists are brought home.", "The rule stands here.", "`remnants=first` mends that."],
            &["All lists are drained.", "The rule is defined here.", "The amended text."]]),
    (["heading", "name the content of the section with a noun",
        r"\A#+ (What|Who|How|Where|When|Why)\b", "", ""],
        [&["## How well it does", "# Who takes part"], &["## Accuracy", "How it works is explained below."]]),
    (["percent", "write `4.7%` without a space",
        r"\d %", "", ".md"],
        [&["It misses 4.7 % of the calls."], &["It misses 4.7% of the calls."]]),
    (["long-sentence", "write one idea per sentence, at most 40 words",
        // A word that ends with a full stop, or a mark of a list or table, ends a sentence.
        r"([^\s|]*[^\s|.#-] ){40}[^\s|]*[^\s|#-]", "", ".md"],
        [&["a b c d e f g h i j k l m n o p q r s t a b c d e f g h i j\nk l m n o p q r s t end."],
            &["a b c d e f g h i j k l m n o p q r s t. a b c d e f g h i j\nk l m n o p q r s t end."]]),
];

/// The rules with their patterns compiled, and the patterns of prose and code.
struct Checker {
    rules: Vec<([&'static str; 3], Regex, Option<Regex>)>,
    rust: Regex,
    toml: Regex,
    code: Regex,
}

impl Checker {
    fn new() -> Result<Self, regex::Error> {
        let compiled = |pattern: &str| {
            let begin = pattern.replace(r"\A", r#"(?m:^[\x20"*-]*)"#);
            Regex::new(&begin.replace(' ', r"(?:\x20+|\x20*\n\x20*)"))
        };
        let rule = |([name, advice, pattern, except, files], _): &Rule| {
            let except = Some(*except).filter(|except| !except.is_empty());
            let except = except.map(compiled).transpose()?;
            Ok(([*name, *advice, *files], compiled(pattern)?, except))
        };
        // A comment, a string, or a character that may be a quote.
        let rust = r##"//[/!]?(.*)|(?s)r#(".*?")#|("(?:[^"\\]|\\.)*")|'(?:[^'\\]|\\.[^']{0,8})'"##;
        Ok(Self {
            rules: RULES.iter().map(rule).collect::<Result<_, _>>()?,
            rust: Regex::new(rust)?,
            toml: Regex::new(r#"#(.*)|("[^"\n]*")"#)?,
            code: Regex::new(r"(?s)```.*?```|<!--.*?-->|(`[^`\n]+`)")?,
        })
    }

    /// Returns a file with the same lines, in which code is blanked.
    fn prose(&self, name: &str, text: &str) -> String {
        let prose = match name.rsplit('.').next() {
            Some("md") => text.to_owned(),
            Some("rs") => {
                let text = text.replace("\\n", "  ").replace("\\\n", " \n");
                kept(&text, &self.rust)
            }
            Some("toml") => kept(text, &self.toml),
            _ => String::new(),
        };
        let prose = self.code.replace_all(&prose, |found: &Captures<'_>| {
            let fill = if found.get(1).is_some() { "`" } else { " " };
            found[0].replace(|own| own != '\n', fill)
        });
        prose.replace("**", "")
    }

    /// Returns the faults of a file, each as line and text.
    fn faults(&self, name: &str, text: &str) -> Vec<(usize, String)> {
        let prose = self.prose(name, text);
        let mut faults = Vec::new();
        for ([rule, advice, files], pattern, except) in &self.rules {
            for found in pattern.find_iter(&prose) {
                let words = found.as_str().trim();
                let is_right = except.as_ref().is_some_and(|own| own.is_match(words));
                if name.ends_with(files) && !is_right {
                    let start = found.end() - found.as_str().trim_start().len();
                    let line = 1 + prose[..start].matches('\n').count();
                    let words: String = words.replace('\n', " ").chars().take(60).collect();
                    faults.push((line, format!("{rule}: `{words}`: {advice}")));
                }
            }
        }
        faults
    }
}

/// Returns the text with all but the groups of the pattern blanked.
fn kept(text: &str, pattern: &Regex) -> String {
    let blank = |code: &str| code.replace(|own| own != '\n', " ");
    let (mut out, mut end) = (String::new(), 0);
    for found in pattern.captures_iter(text) {
        if let Some(own) = found.iter().skip(1).flatten().next() {
            out += &blank(&text[end..own.start()]);
            out += own.as_str();
            end = own.end();
        }
    }
    out + &blank(&text[end..])
}

/// Reports each place that breaks a rule.
pub(crate) fn check(texts: &[&(String, String)], faults: &mut Vec<String>) -> Outcome<()> {
    let checker = Checker::new()?;
    for (name, text) in texts {
        if !EXEMPT.contains(&name.as_str()) {
            let own = checker.faults(name, text).into_iter();
            faults.extend(own.map(|(line, fault)| format!("{name}:{line}: prose: {fault}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_fires_on_its_wrong_examples_and_not_on_right_ones() {
        let checker = Checker::new().expect("the patterns are valid");
        for ([name, ..], [wrong, right]) in RULES {
            let fires = |text: &&&str| {
                let faults = checker.faults("x.md", text);
                let start = format!("{name}: ");
                faults.iter().any(|(_, fault)| fault.starts_with(&start))
            };
            assert!(!wrong.is_empty() && !right.is_empty(), "{name}");
            assert_eq!(wrong.iter().find(|text| !fires(text)), None, "{name}");
            assert_eq!(right.iter().find(fires), None, "{name}");
        }
    }

    #[test]
    fn code_is_not_prose_and_comments_and_messages_are() {
        let checker = Checker::new().expect("the patterns are valid");
        let lines = |name: &str, text: &str| -> Vec<usize> {
            let faults = checker.faults(name, text);
            faults.into_iter().map(|(line, _)| line).collect()
        };
        let code = "Use `is no block` here, is no `block` here.\n\n```text\nNobody waits.\n```\n";
        assert!(lines("x.md", code).is_empty());
        assert_eq!(
            lines("x.md", "One\n\n- a **list**: nobody\n\n| a | Anybody |\n"),
            [3, 5]
        );
        assert!(lines("x.md", "It waits for\n\nwho is here. <!-- nobody -->\n").is_empty());
        let code =
            "fn nobody() {\n    let Nobody = ['\"', '\\'', 'x'];\n    f(\"for\", \"who is\");\n}\n";
        assert!(lines("x.rs", code).is_empty());
        let prose = "//! It waits for\n//! who is here.\nlet x = '\"'; // nobody\nlet y = \"says \\\n    \
                     nobody\";\nlet z = r#\"raw \"nobody\"\"#;\n";
        assert_eq!(lines("x.rs", prose), [1, 3, 5, 6]);
        assert_eq!(lines("x.toml", "# Nobody.\nnobody = \"nobody\"\n"), [1, 2]);
        let long = "word ".repeat(41);
        assert_eq!(lines("x.md", &format!("- {long}\n")), [1]);
        assert!(lines("x.rs", &format!("// {long}\n")).is_empty());
    }
}
