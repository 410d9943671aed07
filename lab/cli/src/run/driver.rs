//! A Python program that is asked and answers, line by line.
//!
//! Ray and Optuna are libraries of Python. The programs that call them are part of this one, so they always fit, and
//! only the libraries must be installed.
//!
//! # Invariants
//! Each line is a JSON object. An answer with `error` ends the program; its message says what failed. What the
//! libraries print goes to standard error, of which the end is shown if the program crashes.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};

use everybuddy_measure::Error;
use serde_json::Value;

/// The last bytes of standard error that are kept.
const KEPT: usize = 4096;

/// A running program.
#[derive(Debug)]
pub(crate) struct Driver {
    /// The option that needs it, for messages.
    option: String,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

impl Driver {
    /// Starts a program with an argument, and waits until it is ready. `option` is what needs it, and `package` what
    /// pip installs.
    ///
    /// # Errors
    /// A usage error if Python or the library is missing, or if the program cannot begin.
    pub(crate) fn start(
        option: &str,
        python: &str,
        program: &str,
        argument: &str,
        package: &str,
    ) -> Result<Driver, Error> {
        let mut process = Command::new(python);
        process.args(["-c", program, argument]);
        let process = process.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process.stderr(Stdio::piped()).spawn().map_err(|cause| {
            let what = match cause.kind() {
                ErrorKind::NotFound => format!("no program `{python}`"),
                _ => format!("`{python}` failed to start ({cause})"),
            };
            Error::usage(format!(
                "{option}: {what}\nhelp: install Python 3 and `pip install {package}`, or name the interpreter with \
                 --python"
            ))
        })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let errors = child.stderr.take();
        let (Some(output), Some(errors)) = (output, errors) else {
            return Err(Error::usage(format!("{option}: `{python}` has no streams")));
        };
        let mut driver = Driver {
            option: option.to_string(),
            child,
            input,
            output: BufReader::new(output),
            errors: Some(thread::spawn(move || end(errors))),
        };
        driver.receive()?;
        Ok(driver)
    }

    /// Sends a line.
    ///
    /// # Errors
    /// A usage error with its messages if the program has ended.
    pub(crate) fn send(&mut self, value: &Value) -> Result<(), Error> {
        let line = format!("{value}\n");
        let sent = match &mut self.input {
            Some(input) => input
                .write_all(line.as_bytes())
                .and_then(|()| input.flush()),
            None => Err(ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|_| self.ended())
    }

    /// Waits for a line.
    ///
    /// # Errors
    /// A usage error: what the program reports, or its messages if it has ended.
    pub(crate) fn receive(&mut self) -> Result<Value, Error> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        if !matches!(read, Ok(count) if count > 0) {
            return Err(self.ended());
        }
        let value: Value = match serde_json::from_str(&line) {
            Ok(value) => value,
            Err(_) => {
                return Err(Error::usage(format!(
                    "{}: an answer is not JSON: {}",
                    self.option,
                    line.trim_end()
                )));
            }
        };
        match value["error"].as_str() {
            None => Ok(value),
            Some(what) => Err(Error::usage(format!("{}: {what}", self.option))),
        }
    }

    /// Describes the end of a program that was not expected.
    fn ended(&mut self) -> Error {
        self.input = None;
        let _ = self.child.kill();
        let status = self.child.wait();
        let status = status.map_or(String::new(), |status| format!(" ({status})"));
        let errors = self.errors.take().and_then(|thread| thread.join().ok());
        Error::usage(format!(
            "{}: its Python program ended too early{status}\n{}",
            self.option,
            errors.unwrap_or_default().trim_end()
        ))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The program ends when nothing more can be asked. Work that it has left is not needed any more.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a stream, and returns its end.
fn end(mut stream: impl Read) -> String {
    let mut kept = VecDeque::with_capacity(2 * KEPT);
    let mut bytes = [0; KEPT];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        kept.extend(&bytes[..count]);
        kept.drain(..kept.len().saturating_sub(KEPT));
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_stream_is_kept() {
        let text = format!("{}{}", "a".repeat(3 * KEPT), "b".repeat(KEPT - 1));
        assert_eq!(end(text.as_bytes()), format!("a{}", "b".repeat(KEPT - 1)));
        assert_eq!(end("ä".as_bytes()), "ä");
    }
}
