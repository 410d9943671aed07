//! Writes the page with more scripts at its end, for ci/play.sh: `check_page FILE MODULE SCRIPT...`. `MODULE` is a
//! WebAssembly module that gzip packed.

use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut arguments = env::args_os().skip(1);
    let file = arguments.next().unwrap_or_default();
    let module = fs::read(arguments.next().unwrap_or_default())?;
    let scripts = arguments
        .map(fs::read_to_string)
        .collect::<io::Result<String>>()?;
    fs::write(file, everybuddy_play::page_with(Some(&module), &scripts))
}
