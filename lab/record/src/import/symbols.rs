//! Lists of a kernel's symbols: copies of `/proc/kallsyms`, and `System.map`.
//!
//! The call chains of perf.data consist of addresses. A symbol list of the recorded
//! kernel maps these addresses to functions.
//!
//! # Invariants
//! Returned functions include at least one of the page allocator; without one, no chain could identify a zone's lock.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use everybuddy_text::Lines;

use super::ImportError;
use super::csv::LONGEST_LINE;
use super::error::Fault;
use crate::functions::{Functions, Symbol};

/// The remedy for a file that is not a complete list.
const COPY: &str =
    "pass a complete copy of /proc/kallsyms, or the System.map, of the recorded kernel";

/// The maximum number of characters of a line in a message.
const SHOWN: usize = 60;

impl Functions {
    /// Reads a copy of `/proc/kallsyms`, or a `System.map`.
    ///
    /// # Errors
    ///
    /// Returns an [`ImportError`] with the line and a remedy if the file is unreadable, or is not such a list, or if
    /// its addresses are hidden.
    pub fn read(file: &Path) -> Result<Functions, ImportError> {
        let input = File::open(file).map_err(Fault::Io);
        let read = input.and_then(|input| Functions::read_from(BufReader::new(input)));
        read.map_err(|fault| fault.of(file))
    }

    pub(crate) fn read_from(input: impl BufRead) -> Result<Functions, Fault> {
        let mut lines = Lines::new(input, LONGEST_LINE);
        let mut functions = Functions::default();
        let mut has_address = false;
        while let Some(line) = lines.read()? {
            let text = line.text.trim();
            let Some(symbol) = Symbol::parse(text).filter(|_| !line.is_cut) else {
                let shown: String = text.chars().take(SHOWN).collect();
                return Err(Fault::refuse(
                    format!("line {}", line.number),
                    format!("`{}` is not a symbol", shown.escape_debug()),
                    format!("{COPY}: a line is `ffffffff81000000 T _text`"),
                ));
            };
            has_address |= symbol.address != 0;
            functions.add(&symbol);
        }
        let functions = functions.sorted();
        if lines.count() > 0 && !has_address {
            return Err(Fault::refuse(
                "line 1",
                "every address is 0: the kernel hid the addresses from the user who copied the file",
                "copy /proc/kallsyms as root, after `sysctl kernel.kptr_restrict=1` if it is 2",
            ));
        }
        if functions.is_empty() {
            return Err(Fault::refuse(
                "",
                format!(
                    "no function of the page allocator, such as rmqueue_bulk, in {} lines",
                    lines.count()
                ),
                COPY,
            ));
        }
        Ok(functions)
    }
}
