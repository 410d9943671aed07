//! How a system is named: `NAME+key=value+key=value`.
//!
//! Why it exists: all that is said about a system is one word, on the command line, in experiments and in results.
//!
//! Invariant: a [`SystemSpec`] names a row and holds only options that the row takes.

use core::fmt;
use core::str::FromStr;

use super::parameters::Area;
use super::rows::{ROWS, Row};
use super::{ListKind, Options, ZoneKind};
use crate::coalesce::delay::Rule;

/// Why a text names no system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No system has this name.
    UnknownSystem,
    /// There is no such option, or this system doesn't take it.
    UnknownOption,
    /// An option is not written `key=value`.
    Malformed,
    /// An option can't have this value.
    BadValue {
        /// The option.
        key: &'static str,
        /// What it takes.
        needs: &'static str,
    },
    /// The same option is given twice.
    Repeated,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownSystem => write!(f, "no system has this name"),
            Self::UnknownOption => write!(f, "this system has no such option"),
            Self::Malformed => write!(f, "options are written NAME+key=value"),
            Self::BadValue { key, needs } => write!(f, "`{key}` takes {needs}"),
            Self::Repeated => write!(f, "an option is given twice"),
        }
    }
}

impl core::error::Error for SpecError {}

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

    /// Returns what was said beside the name.
    pub fn options(&self) -> Options {
        self.options
    }
}

impl Options {
    /// Refuses what means nothing for a row whose list is an option, or does not go together there.
    fn fit(&self, row: &Row) -> Result<(), SpecError> {
        if !row.options.contains(&"list") {
            return Ok(());
        }
        let list = self.list.unwrap_or_default();
        let is_given = |given: bool, fits: bool, key, needs| match given && !fits {
            true => Err(SpecError::BadValue { key, needs }),
            false => Ok(()),
        };
        let moves = matches!(
            list,
            ListKind::Linux | ListKind::Linux6 | ListKind::Predictive
        );
        let is_long = matches!(
            list,
            ListKind::Linux | ListKind::Bypass | ListKind::Predictive
        );
        let needs = "list=linux beside it: other lists have no batch to choose";
        is_given(
            self.batch.is_some(),
            list == ListKind::Linux,
            "batch",
            needs,
        )?;
        let needs = "list=linux, list=bypass or list=spring beside it";
        is_given(self.high.is_some(), is_long, "high", needs)?;
        let needs = "list=linux, list=linux-6 or list=spring beside it: without a batch a lock is held for one block";
        is_given(self.hold.is_some(), moves, "hold", needs)?;
        let in_domains = self.zone == Some(ZoneKind::Domains);
        let needs = "`one` or `spaces` here: what is allocated belongs to no domain, so a class has no slack there";
        is_given(in_domains, false, "zone", needs)?;
        let in_spaces = self.zone == Some(ZoneKind::Spaces);
        let needs = "`none`, `linux`, `bypass` or `spring` with zone=spaces";
        is_given(in_spaces, list != ListKind::Linux6, "list", needs)
    }
}

impl FromStr for SystemSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let row = ROWS
            .iter()
            .find(|row| row.name == name)
            .ok_or(SpecError::UnknownSystem)?;
        let mut options = Options::NONE;
        for (index, part) in parts.enumerate() {
            let (key, value) = part.split_once('=').ok_or(SpecError::Malformed)?;
            if !row.options.contains(&key) {
                return Err(SpecError::UnknownOption);
            }
            let earlier = text.split('+').skip(1).take(index);
            if earlier
                .filter_map(|part| part.split_once('='))
                .any(|(other, _)| other == key)
            {
                return Err(SpecError::Repeated);
            }
            options.set(key, value)?;
        }
        if let Area::Delayed(Rule::Watermarks { lazy, speedup }) = row.area
            && options.lazy.unwrap_or(lazy) > options.speedup.unwrap_or(speedup)
        {
            let needs = "a ratio from `lazy` (0.5 where it is not given) to 0.5";
            return Err(SpecError::BadValue {
                key: "speedup",
                needs,
            });
        }
        options.fit(row)?;
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

    #[test]
    fn specs_are_read_as_they_are_written() {
        for text in [
            "bs",
            "bs+order=18",
            "lbs-31+batch=7+high=42",
            "linux-6+percpu=locked",
            "fixlazy-744+check=off",
            "lbs-31+batch=7+lock=ticket+hold=when-contended+line=own",
            "lbs-31+zone=spaces+space=16MiB+bulk=rows",
            "lis-1+select=fresh",
            "spring-core+idle=8",
            "lbs-31+zone=domains",
            "is+order=3+space=32KiB",
            "is+space=1GiB",
            "delay-2+reclaim=on",
            "watermark+lazy=0.25+speedup=0.5",
            "serewa+lock=ticket+separate=on+manager=thread+remnants=first+queue=16+sync=semaphore",
            "serewa+structure=bitmap+division=off",
            "delay-2+list=linux+batch=7+high=42+zone=spaces+hold=iteration",
            "delay-2+zone=spaces+reclaim=on+debt=on",
            "watermark+list=linux-6",
            "watermark+list=spring+high=30",
        ] {
            assert_eq!(text.parse::<SystemSpec>().unwrap().to_string(), text);
        }
        for (text, error) in [
            ("", SpecError::UnknownSystem),
            ("BS", SpecError::UnknownSystem),
            ("bs+", SpecError::Malformed),
            ("watermark+debt=on", SpecError::UnknownOption),
            ("bs+batch=3", SpecError::UnknownOption),
            ("lbs-31+colour=red", SpecError::UnknownOption),
            ("lbs-31+batch=7+batch=8", SpecError::Repeated),
            ("delay-2+lazy=0.5", SpecError::UnknownOption),
            ("bs+list=linux", SpecError::UnknownOption),
        ] {
            assert_eq!(text.parse::<SystemSpec>().unwrap_err(), error, "{text}");
        }
        for text in [
            "bs+order=19",
            "lbs-31+batch=0",
            "lbs-31+batch=x",
            "lbs-31+check=maybe",
            "is+space=5MiB",
            "watermark+lazy=0.6",
            "watermark+speedup=-1",
            "watermark+lazy=half",
            "watermark+lazy=0.4+speedup=0.3",
            "watermark+speedup=0.3",
            "is+space=4",
            "is+space=1KiB",
            "lbs-31+hold=never",
            "delay-2+list=lbs-31",
            "delay-2+batch=7",
            "delay-2+list=bypass+batch=7",
            "delay-2+list=linux-6+high=42",
            "watermark+list=none+hold=iteration",
            "watermark+list=linux-6+zone=spaces",
            "watermark+zone=domains",
        ] {
            let error = text.parse::<SystemSpec>().unwrap_err();
            assert!(
                matches!(error, SpecError::BadValue { .. }),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn rows_are_consistent() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.name != row.name));
            if let Some(alias) = row.alias_of {
                assert!(ROWS.iter().any(|other| other.name == alias));
            }
            for key in row.options {
                let needs_value = Options::NONE.clone().set(key, "no value fits");
                assert!(
                    matches!(needs_value, Err(SpecError::BadValue { .. })),
                    "{key}"
                );
            }
        }
    }
}
