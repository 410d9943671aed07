//! Enums whose variants have names.
//!
//! A variant, its name and its place in the list of all variants are written once, and cannot disagree.
//!
//! # Invariants
//! `ALL` has each variant once, in the order of their declaration.

/// Declares an enum, each variant with its name. The enum has all variants in `ALL`, and returns a name by `name`.
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $visibility:vis enum $Enum:ident {
            $($(#[$of_variant:meta])* $Variant:ident $(= $value:literal)? => $name:literal,)+
        }
    ) => {
        $(#[$about])*
        $visibility enum $Enum {
            $($(#[$of_variant])* $Variant $(= $value)?,)+
        }

        impl $Enum {
            /// All of them, in order.
            $visibility const ALL: [$Enum; [$($name),+].len()] = [$($Enum::$Variant),+];

            /// Returns the name.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $($Enum::$Variant => $name,)+
                }
            }
        }
    };
}

/// Finds a variant by its name, for the command line: `what` and its plural are for the message.
///
/// # Errors
///
/// Returns a message that lists the names.
pub fn by_name<T: Copy>(
    text: &str,
    [what, plural]: [&str; 2],
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let found = all.iter().copied().find(|own| name(*own) == text);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|own| name(*own)).collect();
        let names = names.join(", ");
        format!("unknown {what} `{text}`; the {plural} are {names}")
    })
}
