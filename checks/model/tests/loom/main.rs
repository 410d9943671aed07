//! The models under loom, in one program.

/// Models on a system, with the bounds of each: in the gate, and, where they differ, with full bounds.
macro_rules! models {
    ($kind:ident, $memory:ident, $spec:literal; $($bounds:tt $model:ident),* $(,)?) => {
        mod $kind {
            use super::*;
            $(
                #[test]
                fn $model() {
                    super::$model(Scope::new($memory, $spec, bound(&$bounds)));
                }
            )*
        }
    };
}

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
