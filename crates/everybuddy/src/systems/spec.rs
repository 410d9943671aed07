//! How a system is named: `NAME+key=value+key=value`.
//!
//! All that is said about a system is one word, on the command line, in experiments and in results.
//!
//! # Invariants
//! A [`SystemSpec`] names a row and holds only options that the row takes.

use core::fmt;
use core::str::FromStr;

use super::ROWS;
use super::nearest::nearest;
use super::numbers::Ratio;
use super::options::{OPTIONS, OptionRow, Options};
use super::row::Row;
use crate::error::BuildError;

/// Why a text does not name a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No system has this name.
    UnknownSystem {
        /// The name of a system that is similar.
        nearest: Option<&'static str>,
    },
    /// There is no such option.
    UnknownOption {
        /// Which part of the text it is, split at each `+`: the name is part 0.
        part: usize,
        /// The key of an option that is similar.
        nearest: Option<&'static str>,
    },
    /// The system does not take this option.
    NotTaken {
        /// The option.
        key: &'static str,
        /// The system.
        system: &'static str,
    },
    /// An option is not written `key=value`.
    Malformed {
        /// Which part of the text it is.
        part: usize,
    },
    /// An option can't have this value.
    BadValue {
        /// The option.
        key: &'static str,
        /// The values that it takes.
        needs: &'static str,
    },
    /// The same option is given twice.
    Repeated {
        /// The option.
        key: &'static str,
    },
}

impl SpecError {
    /// Returns the part of the text that is wrong: its name, or an option. The text is the one that was parsed.
    pub fn part<'t>(&self, text: &'t str) -> &'t str {
        let mut parts = text.split('+');
        let part = match self {
            Self::UnknownSystem { .. } => parts.next(),
            Self::UnknownOption { part, .. } | Self::Malformed { part } => parts.nth(*part),
            Self::NotTaken { key, .. } | Self::BadValue { key, .. } | Self::Repeated { key } => {
                let is_it = |part: &&str| part.split('=').next() == Some(key);
                parts.skip(1).filter(is_it).last()
            }
        };
        // An option that is wrong because another one is missing stands in no part.
        part.unwrap_or(text)
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSystem { nearest } => {
                write!(f, "no system has this name")?;
                suggest(f, *nearest)
            }
            Self::UnknownOption { nearest, .. } => {
                write!(f, "there is no such option")?;
                suggest(f, *nearest)
            }
            Self::NotTaken { key, system } => {
                write!(f, "`{system}` does not take `{key}`; it takes")?;
                let mut rows = ROWS.iter().filter(|row| row.name == *system);
                let options = rows.next().into_iter().flat_map(Row::options);
                options
                    .enumerate()
                    .try_for_each(|(index, option)| match index {
                        0 => write!(f, " {}", option.key),
                        _ => write!(f, ", {}", option.key),
                    })?;
                match OptionRow::of(key).map(|option| option.limit) {
                    None | Some("") => Ok(()),
                    Some(limit) => write!(f, ". {}", limit.trim_end_matches('.')),
                }
            }
            Self::Malformed { .. } => write!(f, "options are written NAME+key=value"),
            Self::BadValue { key, needs } => write!(f, "`{key}` takes {needs}"),
            Self::Repeated { key } => write!(f, "`{key}` is given twice"),
        }
    }
}

impl core::error::Error for SpecError {}

fn suggest(f: &mut fmt::Formatter<'_>, nearest: Option<&str>) -> fmt::Result {
    match nearest {
        Some(name) => write!(f, "; did you mean `{name}`?"),
        None => Ok(()),
    }
}

/// Returns the key that an unknown one was meant to be. No system takes some options, which are not suggested.
fn nearest_option(key: &str) -> Option<&'static str> {
    let keys = OPTIONS.iter().map(|option| option.key);
    nearest(
        key,
        keys.filter(|key| ROWS.iter().any(|row| row.takes(key))),
    )
}

/// A system by name, with options.
///
/// ```
/// use everybuddy::SystemSpec;
/// let spec: SystemSpec = "lbs-31+batch=7+percpu=locked".parse().unwrap();
/// assert_eq!(spec.name(), "lbs-31");
/// assert!("bs+batch=7".parse::<SystemSpec>().is_err(), "bs has no list");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemSpec {
    pub(super) row: &'static Row,
    pub(super) options: Options,
}

impl PartialEq for SystemSpec {
    fn eq(&self, other: &Self) -> bool {
        self.row.name == other.row.name && self.options == other.options
    }
}

impl Eq for SystemSpec {}

impl SystemSpec {
    /// Names a row without options.
    pub const fn of(row: &'static Row) -> Self {
        Self {
            row,
            options: Options::NONE,
        }
    }

    /// Returns the name, without options.
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// Returns the row.
    pub fn row(&self) -> &'static Row {
        self.row
    }

    /// Returns the options that were given besides the name.
    pub fn options(&self) -> Options {
        self.options
    }
}

impl SystemSpec {
    /// Names a row with options.
    ///
    /// # Errors
    /// [`BuildError::BadOption`] for an option that the row does not take, [`BuildError::Contradiction`] for a value
    /// that it cannot have there.
    pub fn with(row: &'static Row, options: &Options) -> Result<Self, BuildError> {
        if let Some(key) = options.given().find(|key| !row.takes(key)) {
            return Err(BuildError::BadOption(key));
        }
        match fit(options, row) {
            Ok(()) => Ok(Self {
                row,
                options: *options,
            }),
            Err((key, needs)) => Err(BuildError::Contradiction { key, needs }),
        }
    }
}

/// Refuses options that contradict each other in a row, as far as that needs no machine.
fn fit(options: &Options, row: &Row) -> Result<(), (&'static str, &'static str)> {
    if row.rule.has_ratios() {
        let ratio = |own: Option<Ratio>| own.unwrap_or(Ratio::HALF).thousandths();
        let needs = "a ratio from `lazy` (0.5 where it is not given) to 0.5";
        if ratio(options.lazy) > ratio(options.speedup) {
            return Err(("speedup", needs));
        }
    }
    Ok(())
}

impl FromStr for SystemSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let row =
            ROWS.iter()
                .find(|row| row.name == name)
                .ok_or_else(|| SpecError::UnknownSystem {
                    nearest: nearest(name, ROWS.iter().map(|row| row.name)),
                })?;
        let mut options = Options::NONE;
        for (text, part) in parts.zip(1..) {
            let (key, value) = text.split_once('=').ok_or(SpecError::Malformed { part })?;
            let option = OptionRow::of(key).ok_or_else(|| SpecError::UnknownOption {
                part,
                nearest: nearest_option(key),
            })?;
            let (key, system) = (option.key, row.name);
            if !option.applies(row) {
                return Err(SpecError::NotTaken { key, system });
            }
            if option.is_set(&options) {
                return Err(SpecError::Repeated { key });
            }
            if !option.set(&mut options, value) {
                let needs = option.values;
                return Err(SpecError::BadValue { key, needs });
            }
        }
        fit(&options, row).map_err(|(key, needs)| SpecError::BadValue { key, needs })?;
        Ok(Self { row, options })
    }
}

impl fmt::Display for SystemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.row.name, self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn not_taken(system: &'static str, key: &'static str) -> SpecError {
        SpecError::NotTaken { key, system }
    }

    #[test]
    fn specs_are_read_as_they_are_written() {
        for text in [
            "bs",
            "bs+order=18",
            "lbs-31+batch=7+high=42",
            "linux-6+percpu=locked",
            "lbs-31+batch=7+lock=ticket+hold=when-contended+line=own",
            "lbs-31+zone=spaces+space=16MiB",
            "lis-1+select=fresh",
            "lis-1+zone=spaces+exchange=single",
            "spring-core+idle=8",
            "lbs-31+zone=domains",
            "fixlazy-744+drain=merged",
            "is+order=3+space=32KiB",
            "is+space=1GiB",
            "delay-2+reclaim=on+debt=on",
            "spring+batch=7+high=30+predict=region+idle=8+spring=locked",
            "watermark+lazy=0.25+speedup=0.5",
            "serewa+lock=ticket+separate=on+manager=thread+remnants=first+queue=16+sync=lock",
            "serewa+structure=bitmap+division=off",
            "spring+batch=32+predict=none",
        ] {
            assert_eq!(text.parse::<SystemSpec>().unwrap().to_string(), text);
        }
        #[rustfmt::skip]
        let cases = [
            ("", SpecError::UnknownSystem { nearest: None }),
            ("BS", SpecError::UnknownSystem { nearest: Some("bs") }),
            ("everybudy+order=3", SpecError::UnknownSystem { nearest: Some("everybuddy") }),
            ("jemalloc", SpecError::UnknownSystem { nearest: None }),
            ("lbs-31+bacth=3", SpecError::UnknownOption { part: 1, nearest: Some("batch") }),
            ("bs+", SpecError::Malformed { part: 1 }),
            ("watermark+debt=on", not_taken("watermark", "debt")),
            ("bs+batch=3", not_taken("bs", "batch")),
            ("lbs-31+batch=7+colour=red", SpecError::UnknownOption { part: 2, nearest: None }),
            ("lbs-31+batch=7+batch=8", SpecError::Repeated { key: "batch" }),
            ("delay-2+lazy=0.5", not_taken("delay-2", "lazy")),
            ("serewa+select=used", not_taken("serewa", "select")),
            ("linux-6+space=4MiB", not_taken("linux-6", "space")),
            ("is+idle=8", not_taken("is", "idle")),
            ("linux-6+drain=merged", not_taken("linux-6", "drain")),
            ("delay-2+drain=merged", not_taken("delay-2", "drain")),
            // These compositions are not compiled.
            ("delay-2+zone=spaces", not_taken("delay-2", "zone")),
            ("watermark+batch=7", not_taken("watermark", "batch")),
            ("never+hold=iteration", not_taken("never", "hold")),
            ("spring+zone=one", not_taken("spring", "zone")),
            ("spring+shards=2", not_taken("spring", "shards")),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<SystemSpec>().unwrap_err(), error, "{text}");
        }
        for text in [
            "bs+order=19",
            "lbs-31+batch=0",
            "lbs-31+batch=x",
            "is+space=5MiB",
            "watermark+lazy=0.6",
            "watermark+speedup=-1",
            "watermark+lazy=half",
            "watermark+lazy=0.4+speedup=0.3",
            "watermark+speedup=0.3",
            "is+space=4",
            "is+space=1KiB",
            "lbs-31+hold=never",
            "spring+predict=far",
        ] {
            let error = text.parse::<SystemSpec>().unwrap_err();
            assert!(
                matches!(error, SpecError::BadValue { .. }),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn an_error_suggests_what_was_meant() {
        let message = |text: &str| text.parse::<SystemSpec>().unwrap_err().to_string();
        #[rustfmt::skip]
        let cases = [
            ("everybudy", "no system has this name; did you mean `everybuddy`?"),
            ("jemalloc", "no system has this name"),
            ("bs+ordr=3", "there is no such option; did you mean `order`?"),
            (
                "bs+batch=3",
                "`bs` does not take `batch`; it takes order, zone, space, select, exchange, shards, idle, \
                 spring, state, lock, line",
            ),
        ];
        for (text, error) in cases {
            assert_eq!(message(text), error);
        }
    }

    #[test]
    fn a_system_whose_lock_has_one_place_says_why_it_takes_no_line() {
        for text in ["is+line=own", "zones-4+line=own", "is+zone=one+line=own"] {
            let message = text.parse::<SystemSpec>().unwrap_err().to_string();
            assert!(
                message.contains("one zone of free blocks"),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn an_error_names_the_part_that_is_wrong() {
        for (text, part) in [
            ("bz+order=3", "bz"),
            ("", ""),
            ("lbs-31+batch=7+colour=red+high=9", "colour=red"),
            ("lbs-31+batch", "batch"),
            ("bs+order=3+", ""),
            ("lbs-31+batch=7+batch=8", "batch=8"),
            ("bs+order=3+batch=7", "batch=7"),
            ("lbs-31+high=9+batch=x", "batch=x"),
            ("watermark+lazy=0.4+speedup=0.3", "speedup=0.3"),
            ("watermark+speedup=0.3+lazy=0.4", "speedup=0.3"),
        ] {
            let error = text.parse::<SystemSpec>().unwrap_err();
            assert_eq!(error.part(text), part, "{text}: {error}");
        }
    }

    #[test]
    fn rows_are_consistent() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.name != row.name));
            assert!(row.takes("order"), "{}", row.name);
        }
    }

    #[test]
    fn options_given_as_values_are_judged_as_those_in_a_text() {
        let with = |system: &str, options: &Options| {
            let spec: SystemSpec = system.parse().unwrap();
            SystemSpec::with(spec.row, options)
        };
        let batch = Options {
            batch: Some(super::super::Count::preset(7)),
            ..Options::NONE
        };
        assert_eq!(with("bs", &batch), Err(BuildError::BadOption("batch")));
        assert_eq!(with("lbs-31", &batch).unwrap().options(), batch);
        let ratios = Options {
            speedup: Ratio::new(300).ok(),
            ..Options::NONE
        };
        let refused = with("watermark", &ratios).unwrap_err();
        assert!(
            matches!(refused, BuildError::Contradiction { key: "speedup", .. }),
            "{refused:?}"
        );
    }
}
