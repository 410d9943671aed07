//! The models under loom, in one program.

#[path = "../broken/mod.rs"]
mod broken;
mod canary;
mod domains;
mod everybuddy;
mod llfree;
mod lockless;
mod locks;
mod misuse;
mod nbbs;
mod protocol;
mod reporting;
mod routing;
mod serewa;
mod spaces;
mod zone;
