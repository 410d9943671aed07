//! The output streams, and their use of colour.
//!
//! Results and other messages never mix, and a closed pipe ends the program silently instead of with a panic. A caller
//! within the process can receive what a command writes ([`captured`]).
//!
//! # Invariants
//! Nothing else in the crate writes to standard output or standard error, except the progress bar and `memory`. Control
//! characters reach a stream only as line ends, tabulators and colours of this module; rows for programs are written
//! unchanged.

use std::borrow::Cow;
use std::cell::RefCell;
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

/// An output stream of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Results,
    /// Standard error.
    Errors,
}

/// What a command wrote.
#[derive(Debug, Default)]
pub struct Written {
    /// To standard output.
    pub out: Vec<u8>,
    /// To standard error.
    pub err: Vec<u8>,
}

thread_local! {
    /// Receives what this thread writes, instead of the streams of the process.
    static CAPTURED: RefCell<Option<Written>> = const { RefCell::new(None) };
}

/// Runs a command on this thread and returns what it wrote instead of writing it. No stream is a terminal then.
///
/// Other threads that the command starts, and its processes, still write to the streams of this process.
pub fn captured<T>(command: impl FnOnce() -> T) -> (T, Written) {
    CAPTURED.set(Some(Written::default()));
    let result = command();
    (result, CAPTURED.take().unwrap_or_default())
}

/// Returns `true` if what is written on this thread is captured.
pub(crate) fn is_captured() -> bool {
    CAPTURED.with_borrow(Option::is_some)
}

/// Returns `true` if a stream is a terminal.
pub(crate) fn is_terminal(stream: Stream) -> bool {
    !is_captured()
        && match stream {
            Stream::Results => io::stdout().is_terminal(),
            Stream::Errors => io::stderr().is_terminal(),
        }
}

/// Writes bytes to a stream.
fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    CAPTURED.with_borrow_mut(|captured| match (captured, stream) {
        (Some(written), Stream::Results) => written.out.write_all(bytes),
        (Some(written), Stream::Errors) => written.err.write_all(bytes),
        (None, Stream::Results) => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        (None, Stream::Errors) => io::stderr().lock().write_all(bytes),
    })
}

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
        let stream = if errors_instead {
            Stream::Errors
        } else {
            Stream::Results
        };
        if !is_terminal(stream) {
            return Style::PLAIN;
        }
        let term = match stream {
            Stream::Results => Term::stdout(),
            Stream::Errors => Term::stderr(),
        };
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
    let written = write(Stream::Results, bytes);
    written.map_err(|cause| Error::stream(STANDARD_OUTPUT, cause))
}

/// Writes a long result piece by piece, unchanged.
///
/// # Errors
/// Like [`text`].
pub(crate) fn pieces(of: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
    if CAPTURED.with_borrow(Option::is_some) {
        let mut out = Vec::new();
        return match of(&mut out) {
            Ok(()) => bytes(&out),
            Err(cause) => Err(Error::stream(STANDARD_OUTPUT, cause)),
        };
    }
    let mut out = io::stdout().lock();
    let written = of(&mut out).and_then(|()| out.flush());
    written.map_err(|cause| Error::stream(STANDARD_OUTPUT, cause))
}

/// Writes a text of the parser of arguments: a help text or the version, or a mistake.
///
/// # Errors
/// Like [`text`].
pub(crate) fn of_parser(text: &clap::Error) -> Result<(), Error> {
    let (stream, name) = if text.use_stderr() {
        (Stream::Errors, STANDARD_ERROR)
    } else {
        (Stream::Results, STANDARD_OUTPUT)
    };
    let written = if is_terminal(stream) {
        // With colours.
        text.print().and_then(|()| io::stdout().flush())
    } else {
        write(stream, text.render().to_string().as_bytes())
    };
    written.map_err(|cause| Error::stream(name, cause))
}

/// Writes additional information to standard error.
///
/// # Errors
/// Like [`text`].
pub fn aside(text: &str) -> Result<(), Error> {
    let text = printable(text, Style::of_output(true));
    let written = write(Stream::Errors, text.as_bytes());
    written.map_err(|cause| Error::stream(STANDARD_ERROR, cause))
}

/// Prints a note on standard error.
pub fn note(message: &str) {
    // If standard error is closed too, the note is lost.
    let message = printable(message, Style::PLAIN);
    let _ = write(Stream::Errors, format!("note: {message}\n").as_bytes());
}

/// Prints an error on standard error.
pub fn error(message: &str) {
    let colour = Style::of_output(true);
    let message = printable(message, Style::PLAIN);
    // As above.
    let line = format!("{} {message}\n", colour.paint("1;31", "error:"));
    let _ = write(Stream::Errors, line.as_bytes());
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
    fn what_a_command_writes_can_be_received() {
        let (code, written) = captured(|| {
            text("a\x1b\n").unwrap();
            pieces(|out| out.write_all(b"\x01")).unwrap();
            note("b");
            assert!(!is_terminal(Stream::Results) && !is_terminal(Stream::Errors));
            error("c");
            7
        });
        assert_eq!(code, 7);
        assert_eq!(written.out, b"a\\u{1b}\n\x01");
        assert_eq!(written.err, b"note: b\nerror: c\n");
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
