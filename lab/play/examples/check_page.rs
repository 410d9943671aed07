//! Writes the page with a script that tests it: `check_page FILE [MODULE]`, for ci/play.sh. `MODULE` is another
//! WebAssembly module, packed by gzip.

use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut arguments = env::args_os().skip(1);
    let file = arguments.next().unwrap_or_default();
    let module = arguments.next().map(fs::read).transpose()?;
    let check = include_str!("../tests/check.js");
    fs::write(file, everybuddy_play::page_with(module.as_deref(), check))
}
