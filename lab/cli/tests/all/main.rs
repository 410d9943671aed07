//! The tests of the program as users run it, in one program: it is linked once.

mod advise;
mod bench;
mod command_line;
mod common;
mod compare;
mod elsewhere;
mod installed;
mod locks;
mod messages;
mod outputs;
mod page;
mod peer;
mod reproduce;
mod rows;
mod simulate;
mod start;
mod sweep;
mod trace_files;
