//! The virtual machine's tests, in one program: systems are compiled once for all of them.

mod caches;
mod common;
mod conformance;
mod cores;
mod counted;
mod domains;
mod faults;
mod machine;
mod nested;
mod paths;
mod programs;
mod shared_lines;
mod steps;
mod stops;
mod systems;
mod waiters;
mod window;
