//! The program `everybuddy`.

use std::process::ExitCode;

fn main() -> ExitCode {
    everybuddy_lab::cmd::main()
}
