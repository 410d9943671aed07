//! The models under shuttle, in one program: not in that of loom, because shuttle's report of a panic stays installed.

#[path = "../broken/mod.rs"]
mod broken;
mod canary;
mod random;
mod serewa_services;
