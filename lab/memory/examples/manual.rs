//! Writes the manual page and the completions of `everybuddy-memory` into a folder, for ci/release.sh. The program is
//! small, and lacks these commands.

use std::path::PathBuf;
use std::{env, fs, io};

use clap_complete::{Shell, generate_to};
use everybuddy_memory::command;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).unwrap_or_default());
    fs::create_dir_all(&folder)?;
    let name = "everybuddy-memory";
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        generate_to(shell, &mut command::program(), name, &folder)?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command::program()).render(&mut page)?;
    fs::write(folder.join(format!("{name}.1")), page)
}
