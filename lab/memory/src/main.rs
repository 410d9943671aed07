//! The program `everybuddy-memory`.

fn main() {}
