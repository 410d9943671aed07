//! Finds the prose of a file: paragraphs of Markdown, comments and string literals of Rust and TOML.
//!
//! # Invariants
//!
//! A passage never contains code. Code blocks are left out, and a code span is replaced by `CODE`, so that
//! a rule about words cannot fire on an identifier. Each character of a passage maps to the line that it came from.

/// Text that reads as one paragraph.
#[derive(Debug, Default)]
pub(super) struct Passage {
    /// The words, with line breaks replaced by spaces.
    pub(super) text: String,
    /// For each line that contributed: the offset in `text` at which it starts, and its number.
    starts: Vec<(usize, usize)>,
}

impl Passage {
    /// Returns the number of the line that holds the byte at `offset` of the text.
    pub(super) fn line(&self, offset: usize) -> usize {
        let after = self.starts.partition_point(|(start, _)| *start <= offset);
        self.starts[after.saturating_sub(1)].1
    }

    fn push(&mut self, line: usize, words: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.starts.push((self.text.len(), line));
        self.text.push_str(words.trim());
    }
}

/// Collects the lines of paragraphs, as Markdown defines them.
#[derive(Default)]
struct Paragraphs {
    done: Vec<Passage>,
    open: Passage,
    fenced: bool,
    /// Whether a comment of Markdown has begun on an earlier line.
    hidden: bool,
}

impl Paragraphs {
    fn line(&mut self, number: usize, line: &str) {
        let line = line.trim();
        if line.starts_with("```") {
            self.end();
            self.fenced = !self.fenced;
            return;
        }
        if self.fenced {
            return;
        }
        let was_hidden = self.hidden;
        self.hidden = (was_hidden || line.starts_with("<!--")) && !line.contains("-->");
        if was_hidden {
            return;
        }
        let apart = line.is_empty() || line.starts_with('#') || line.starts_with("<!--");
        let row = line.starts_with('|');
        let item = line.starts_with("- ")
            || line.starts_with("* ")
            || line
                .split_once(". ")
                .is_some_and(|(digits, _)| digits.chars().all(|digit| digit.is_ascii_digit()));
        if apart || row || item {
            self.end();
        }
        if row {
            for cell in without_code(line).split('|') {
                if !cell.trim().is_empty() {
                    self.open.push(number, cell);
                    self.end();
                }
            }
            return;
        }
        let words = if item {
            line.split_once(' ').map_or(line, |(_, words)| words)
        } else {
            line
        };
        if !words.is_empty() && !words.starts_with("<!--") {
            self.open.push(number, words);
        }
        if apart {
            self.end();
        }
    }

    fn end(&mut self) {
        if !self.open.text.is_empty() {
            let mut passage = std::mem::take(&mut self.open);
            blank_code(&mut passage);
            self.done.push(passage);
        }
    }

    fn finish(mut self) -> Vec<Passage> {
        self.end();
        self.done
    }
}

/// Replaces code spans by `CODE`, removes emphasis, and moves the starts of lines accordingly.
fn blank_code(passage: &mut Passage) {
    let mut text = String::with_capacity(passage.text.len());
    let mut starts = passage.starts.iter().copied().peekable();
    let mut moved = Vec::with_capacity(passage.starts.len());
    let mut inside = false;
    let paired = passage.text.matches('`').count().is_multiple_of(2);
    for (offset, letter) in passage.text.char_indices() {
        while let Some((start, line)) = starts.next_if(|(start, _)| *start <= offset) {
            let _ = start;
            moved.push((text.len(), line));
        }
        match letter {
            '`' if paired => {
                inside = !inside;
                if inside {
                    text.push_str("CODE");
                }
            }
            _ if inside => {}
            '*' => {} // Emphasis does not interrupt a sentence.
            _ => text.push(letter),
        }
    }
    passage.text = text;
    passage.starts = moved;
}

fn without_code(line: &str) -> String {
    let mut passage = Passage::default();
    passage.push(0, line);
    blank_code(&mut passage);
    passage.text
}

/// Returns the paragraphs, list items, headings and table cells of a Markdown document.
pub(super) fn markdown(text: &str) -> Vec<Passage> {
    let mut paragraphs = Paragraphs::default();
    for (index, line) in text.lines().enumerate() {
        paragraphs.line(index + 1, line);
    }
    paragraphs.finish()
}

/// Returns the comments and strings of a TOML file.
pub(super) fn toml(text: &str) -> Vec<Passage> {
    let mut comments = Paragraphs::default();
    let mut strings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim();
        if let Some(comment) = trimmed.strip_prefix('#') {
            comments.line(number, comment);
            continue;
        }
        comments.end();
        for quoted in trimmed.split('"').skip(1).step_by(2) {
            let mut passage = Passage::default();
            passage.push(number, quoted);
            if !passage.text.is_empty() {
                blank_code(&mut passage);
                strings.push(passage);
            }
        }
    }
    let mut all = comments.finish();
    all.append(&mut strings);
    all
}

/// Returns the comments and the string literals of a Rust file.
pub(super) fn rust(text: &str) -> Vec<Passage> {
    let mut reader = Reader {
        rest: text,
        line: 1,
        comments: Paragraphs::default(),
        kind: "",
        last: 0,
        strings: Vec::new(),
    };
    reader.read();
    let mut all = reader.comments.finish();
    all.append(&mut reader.strings);
    all
}

/// Splits Rust source into comments, strings and the rest. It knows just enough of the grammar for that.
struct Reader<'a> {
    rest: &'a str,
    line: usize,
    comments: Paragraphs,
    /// The marker of the last comment: `//`, `///` or `//!`.
    kind: &'static str,
    /// The line of the last comment.
    last: usize,
    strings: Vec<Passage>,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        while let Some(letter) = self.rest.chars().next() {
            if self.rest.starts_with("//") {
                self.comment();
            } else if let Some(hashes) = self.raw_string() {
                let end = format!("\"{}", "#".repeat(hashes));
                let start = self.rest.find('"').map_or(0, |quote| quote + 1);
                self.take(start);
                let length = self.rest.find(&end).unwrap_or(self.rest.len());
                self.string(length, false);
                self.take(end.len().min(self.rest.len()));
            } else if letter == '"' {
                self.take(1);
                let length = closing_quote(self.rest);
                self.string(length, true);
                self.take(1.min(self.rest.len()));
            } else if letter == '\'' {
                self.take(character(self.rest));
            } else {
                // An identifier as a whole, so that the `r` at the end of `for"` is no raw string's.
                let word = self
                    .rest
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_');
                let length: usize = word.map(char::len_utf8).sum();
                self.take(length.max(letter.len_utf8()));
            }
        }
    }

    /// Returns the number of hashes if a raw string starts here.
    fn raw_string(&self) -> Option<usize> {
        let rest = self.rest.strip_prefix('b').unwrap_or(self.rest);
        let rest = rest.strip_prefix('r')?;
        let hashes = rest.chars().take_while(|letter| *letter == '#').count();
        rest[hashes..].starts_with('"').then_some(hashes)
    }

    fn comment(&mut self) {
        let length = self.rest.find('\n').unwrap_or(self.rest.len());
        let line = self.take(length);
        let kind = ["///", "//!", "//"]
            .into_iter()
            .find(|kind| line.starts_with(kind))
            .unwrap_or("//");
        if kind != self.kind || self.last + 1 != self.line {
            self.comments.end();
            self.comments.fenced = false;
        }
        self.kind = kind;
        self.last = self.line;
        self.comments.line(self.line, &line[kind.len()..]);
    }

    fn string(&mut self, length: usize, escapes: bool) {
        let first = self.line;
        let literal = self.take(length);
        let mut paragraphs = Paragraphs::default();
        for (index, line) in literal.split('\n').enumerate() {
            let number = first + index;
            if !escapes {
                paragraphs.line(number, line);
                continue;
            }
            let continued = line.strip_suffix('\\').unwrap_or(line);
            for (nth, part) in continued.split("\\n").enumerate() {
                if nth > 0 {
                    paragraphs.end();
                }
                if !part.is_empty() {
                    paragraphs.line(number, &part.replace("\\\"", "\""));
                }
            }
        }
        self.strings.append(&mut paragraphs.finish());
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }
}

/// Returns the length of a string literal up to its closing quote.
fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (offset, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return offset,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of the character literal or of the lifetime's quote that opens `text`.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => {
            let after = letters
                .next()
                .map_or(text.len(), |(at, c)| at + c.len_utf8());
            text[after..]
                .find('\'')
                .map_or(text.len(), |at| after + at + 1)
        }
        Some((_, _)) => match letters.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(passages: &[Passage]) -> Vec<&str> {
        passages
            .iter()
            .map(|passage| passage.text.as_str())
            .collect()
    }

    #[test]
    fn markdown_is_split_into_paragraphs_and_cells() {
        let text = "# A head\n\nOne\ntwo `x` three.\n\n```sh\nno prose\n```\n- first\n  goes on\n\
                    2. second\n| a | `b` c |\n";
        let passages = markdown(text);
        let found = [
            "# A head",
            "One two CODE three.",
            "first goes on",
            "second",
            "a",
            "CODE c",
        ];
        assert_eq!(texts(&passages), found);
        assert_eq!(passages[1].line(0), 3);
        assert_eq!(passages[1].line(passages[1].text.len() - 1), 4);
    }

    #[test]
    fn comments_and_strings_are_found_in_rust() {
        let text = "//! One\n//! two.\nfn f<'a>(x: &'a str) {\n    // A note.\n    let a = \"says \\\n    so\";\n    \
                    let c = ['\"', '\\'', b'/'];\n    let r = r#\"raw \"text\"\"#;\n    'x' // at the end\n}\n";
        let passages = rust(text);
        let found = [
            "One two.",
            "A note.",
            "at the end",
            "says so",
            "raw \"text\"",
        ];
        assert_eq!(texts(&passages), found);
        assert_eq!(passages[2].line(0), 9);
    }

    #[test]
    fn documentation_is_not_joined_with_other_comments() {
        let text = "// One.\n/// Two.\n/// ```\n/// code\n/// ```\n/// Three.\nfn f() {}\n\n// Four.\n\n\
                    // Five.\n";
        assert_eq!(
            texts(&rust(text)),
            ["One.", "Two.", "Three.", "Four.", "Five."]
        );
    }

    #[test]
    fn strings_and_comments_are_found_in_toml() {
        let text = "# Why\n# so.\nname = \"x\" \ntext = [\"a b\", \"c\"]\n";
        assert_eq!(texts(&toml(text)), ["Why so.", "x", "a b", "c"]);
    }
}
