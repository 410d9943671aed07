//! The output streams, and their use of colour.
//!
//! # Purpose
//!
//! Results and other messages never mix, and a closed pipe ends the program silently instead of with a panic.
//!
//! # Invariants
//!
//! Nothing else in the crate writes to standard output or standard error, except the progress bar. Control characters
//! reach a stream only as line ends, tabulators and colours of this module; rows for programs are written unchanged.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use console::Term;

use everybuddy_measure::error::{STANDARD_ERROR, STANDARD_OUTPUT};
use everybuddy_measure::replay::background_load::HostInfo;
use everybuddy_measure::{Error, size};
use everybuddy_trace::escaped;

/// The start of a colour.
const COLOUR: &str = "\x1b[";

/// The maximum width of text if no terminal defines one.
const WIDTH: usize = 120;

/// The style of text on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether the stream supports colour.
    pub colour: bool,
    /// The number of columns.
    pub width: usize,
}

impl Style {
    /// No colour, the default width: for files and pipes.
    pub const PLAIN: Style = Style {
        colour: false,
        width: WIDTH,
    };

    /// Detects the style of standard output, or of standard error.
    pub fn of_output(errors_instead: bool) -> Style {
        let (is_terminal, term) = if errors_instead {
            (io::stderr().is_terminal(), Term::stderr())
        } else {
            (io::stdout().is_terminal(), Term::stdout())
        };
        if !is_terminal {
            return Style::PLAIN;
        }
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = term
            .size_checked()
            .map_or(WIDTH, |(_, columns)| usize::from(columns));
        Style {
            colour: !no_colour && !dumb,
            width,
        }
    }

    /// Makes text bold.
    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Makes text less prominent.
    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Marks the best value.
    pub fn best(&self, text: &str) -> String {
        self.paint("1;32", text)
    }

    /// Marks a warning.
    pub fn warning(&self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    /// Breaks text at spaces into lines that fit, each after `indent` spaces, the first after `head`. No-break spaces
    /// hold words together, and are written as plain spaces.
    pub fn wrapped(&self, head: &str, indent: usize, text: &str) -> String {
        let width = self.width.clamp(60, 100);
        let mut out = String::new();
        let mut line = format!("{head:<indent$}");
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let used = line.chars().count();
            if used + word.chars().count() > width && used > indent {
                out += line.trim_end();
                out.push('\n');
                line = " ".repeat(indent);
            }
            line += word;
            line.push(' ');
        }
        out += line.trim_end();
        out.push('\n');
        out.replace('\u{a0}', " ")
    }

    /// Formats the beginning of an entry of a list: its name, and a text that is indented as far as the next lines.
    pub fn entry(&self, name: &str, indent: usize, text: &str) -> String {
        let name = self.bold(&format!("{name:<width$}", width = indent - 1));
        format!("{name} {}", &self.wrapped("", indent, text)[indent..])
    }

    /// Returns this style without colours.
    pub fn without_colour(&self) -> Style {
        Style {
            colour: false,
            ..*self
        }
    }

    /// Formats a paragraph without a head.
    pub fn paragraph(&self, text: &str) -> String {
        self.wrapped("", 0, text)
    }
}

/// Writes a result.
///
/// # Errors
/// Returns [`Error::ReaderGone`] if the reader has closed the pipe, or [`Error::Write`].
pub fn text(text: &str) -> Result<(), Error> {
    bytes(printable(text, Style::of_output(false)).as_bytes())
}

/// Escapes characters that would control the terminal. A text for a terminal may contain colours.
fn printable(text: &str, style: Style) -> Cow<'_, str> {
    let is_layout = |c| matches!(c, '\n' | '\t');
    if !style.colour {
        return escaped(text, is_layout);
    }
    let mut parts = text.split(COLOUR);
    let first = escaped(parts.next().unwrap_or_default(), is_layout).into_owned();
    Cow::Owned(parts.fold(first, |out, part| {
        let is_colour = part.find('m').is_some_and(|end| {
            let code = &part.as_bytes()[..end];
            code.iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b';')
        });
        let start = if is_colour { COLOUR } else { "\\u{1b}[" };
        out + start + &escaped(part, is_layout)
    }))
}

/// Writes the bytes of a result unchanged.
///
/// # Errors
/// Like [`text`].
pub fn bytes(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|cause| Error::stream(STANDARD_OUTPUT, cause))
}

/// Writes additional information to standard error.
///
/// # Errors
/// Like [`text`].
pub fn aside(text: &str) -> Result<(), Error> {
    let text = printable(text, Style::of_output(true));
    let written = io::stderr().lock().write_all(text.as_bytes());
    written.map_err(|cause| Error::stream(STANDARD_ERROR, cause))
}

/// Prints a note on standard error.
pub fn note(message: &str) {
    // If standard error is closed too, the note is lost.
    let message = printable(message, Style::PLAIN);
    let _ = writeln!(io::stderr(), "note: {message}");
}

/// Prints an error on standard error.
pub fn error(message: &str) {
    let colour = Style::of_output(true);
    let message = printable(message, Style::PLAIN);
    // As above.
    let _ = writeln!(io::stderr(), "{} {message}", colour.paint("1;31", "error:"));
}

/// Describes the machine of a measurement: what is known of its processor, its CPUs and its load.
pub(super) fn machine(host: &HostInfo) -> Vec<String> {
    let mut on: Vec<String> = host.processor.iter().cloned().collect();
    on.extend(host.cores.map(|cores| size::cpus(cores as u64)));
    let load = host.load;
    on.extend(load.map(|load| format!("load {load:.2} before the run")));
    on
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_and_layout_reach_a_terminal() {
        let text = "\x1b[1ma\tb\x1b[0m\n\x1b[2J\x1b]0;x\x07";
        let coloured = Style {
            colour: true,
            width: WIDTH,
        };
        let kept = "\x1b[1ma\tb\x1b[0m\n\\u{1b}[2J\\u{1b}]0;x\\u{7}";
        assert_eq!(printable(text, coloured), kept);
        assert!(!printable(text, Style::PLAIN).contains('\x1b'));
    }

    #[test]
    fn text_is_wrapped_under_its_head() {
        let style = Style {
            colour: false,
            width: 60,
        };
        let text = style.wrapped("head", 8, &"word ".repeat(30));
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
        assert!(text.starts_with("head    word"));
        assert!(
            text.lines()
                .skip(1)
                .all(|line| line.starts_with("        word"))
        );
        assert_eq!(style.best("x"), "x");
    }
}
