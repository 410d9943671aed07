//! The program `everybuddy`.

use std::process::ExitCode;

/// Metadata in huge pages, as in a kernel.
#[global_allocator]
static MEMORY: everybuddy_cli::pages::HugePages = everybuddy_cli::pages::HugePages;

fn main() -> ExitCode {
    everybuddy_cli::cmd::run(std::env::args_os()).into()
}
