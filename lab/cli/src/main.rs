//! The program `everybuddy`.

use std::process::ExitCode;

fn main() -> ExitCode {
    everybuddy_cli::cmd::main()
}
