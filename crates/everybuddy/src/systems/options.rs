//! How a system is named: `NAME+key=value+key=value`.
//!
//! Why it exists: a variant is written the same way everywhere a system can be named, so no option of a
//! whole run ever changes one system.
//!
//! Invariant: a [`SystemSpec`] names a row and holds only options that the row takes.

use core::fmt;
use core::str::FromStr;

use super::rows::{Kind, ROWS, Row};
use super::{Front, Parameters, Setup, Tuning, Watermarks};
use crate::error::BuildError;
use crate::frame::Order;

/// What can be said about a system beside its name. `None` is the row's own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `batch=N`: frames moved at once.
    pub batch: Option<u32>,
    /// `high=N`: frames at which a list gives back.
    pub high: Option<u32>,
    /// `order=N`: the largest order, 0 to 18.
    pub order: Option<Order>,
    /// `percpu=locked` or `percpu=token`: whether lists have locks.
    pub locked: Option<bool>,
    /// `check=on` or `check=off`: whether hits notice misuse.
    pub check: Option<bool>,
}

impl Options {
    /// Says nothing.
    pub const NONE: Options = Options {
        batch: None,
        high: None,
        order: None,
        locked: None,
        check: None,
    };

    /// The most frames that a list may be told to keep or move.
    const MOST: u32 = 1 << 20;

    /// Takes `key=value`.
    fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let count = |key, needs| match value.parse::<u32>() {
            Ok(count) if (1..=Self::MOST).contains(&count) => Ok(Some(count)),
            _ => Err(SpecError::BadValue { key, needs }),
        };
        match key {
            "batch" => self.batch = count("batch", "a number of frames, 1 to 1048576")?,
            "high" => self.high = count("high", "a number of frames, 1 to 1048576")?,
            "order" => {
                let order = value.parse().ok().and_then(Order::new);
                let needs = "an order, 0 to 18";
                self.order = Some(order.ok_or(SpecError::BadValue {
                    key: "order",
                    needs,
                })?);
            }
            "percpu" => {
                let choice = choose("percpu", value, [("token", false), ("locked", true)]);
                self.locked = Some(choice.map_err(|key| SpecError::BadValue {
                    key,
                    needs: "`token` or `locked`",
                })?);
            }
            "check" => {
                let choice = choose("check", value, [("on", true), ("off", false)]);
                self.check = Some(choice.map_err(|key| SpecError::BadValue {
                    key,
                    needs: "`on` or `off`",
                })?);
            }
            _ => return Err(SpecError::UnknownOption),
        }
        Ok(())
    }
}

fn choose(
    key: &'static str,
    value: &str,
    choices: [(&str, bool); 2],
) -> Result<bool, &'static str> {
    choices
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, choice)| *choice)
        .ok_or(key)
}

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
    row: &'static Row,
    options: Options,
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

    /// Returns the parameters on a machine.
    ///
    /// # Errors
    /// [`BuildError::BadCpuCount`], or [`BuildError::BadOption`] where two options don't fit each other.
    pub fn parameters(&self, setup: &Setup<'_>) -> Result<Parameters, BuildError> {
        if setup.cpus == 0 || setup.cpus == u16::MAX {
            return Err(BuildError::BadCpuCount);
        }
        let preset = &self.row.preset;
        let batch = self.options.batch.or(preset.batch);
        let high = self.options.high.or(preset.high);
        let by_memory = Watermarks::linux_batch(setup.frames());
        let watermarks = match self.row.kind {
            Kind::Bare | Kind::Linux6 => None,
            Kind::LinuxBatch => {
                let batch = batch.unwrap_or(by_memory);
                Some(Watermarks {
                    batch,
                    high: high.unwrap_or(6 * batch),
                    bypass: false,
                })
            }
            Kind::LinuxBypass => {
                let high = high.unwrap_or(6 * by_memory);
                Some(Watermarks {
                    batch: 1,
                    high,
                    bypass: true,
                })
            }
            Kind::LinuxFixed => {
                let high = high.unwrap_or(6 * by_memory);
                Some(Watermarks {
                    batch: batch.unwrap_or((high / 6).max(1)),
                    high,
                    bypass: false,
                })
            }
        };
        if watermarks.is_some_and(|marks| marks.high < marks.batch) {
            return Err(BuildError::BadOption("high"));
        }
        let front = match watermarks {
            Some(watermarks) => Front::Linux(watermarks),
            None if self.row.kind == Kind::Bare => Front::None,
            None => Front::Linux6(Tuning::linux(setup.frames(), setup.cpus)),
        };
        Ok(Parameters {
            max_order: self.options.order.unwrap_or(Order::TEN),
            front,
            locked: self.options.locked.unwrap_or(false),
            check: self.options.check.unwrap_or(true),
        })
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
        Ok(Self { row, options })
    }
}

impl fmt::Display for SystemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row.name)?;
        let Options {
            batch,
            high,
            order,
            locked,
            check,
        } = self.options;
        if let Some(batch) = batch {
            write!(f, "+batch={batch}")?;
        }
        if let Some(high) = high {
            write!(f, "+high={high}")?;
        }
        if let Some(order) = order {
            write!(f, "+order={order}")?;
        }
        if let Some(locked) = locked {
            write!(f, "+percpu={}", if locked { "locked" } else { "token" })?;
        }
        if let Some(check) = check {
            write!(f, "+check={}", if check { "on" } else { "off" })?;
        }
        Ok(())
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
        ] {
            assert_eq!(text.parse::<SystemSpec>().unwrap().to_string(), text);
        }
        for (text, error) in [
            ("", SpecError::UnknownSystem),
            ("BS", SpecError::UnknownSystem),
            ("bs+", SpecError::Malformed),
            ("bs+batch=3", SpecError::UnknownOption),
            ("lbs-31+colour=red", SpecError::UnknownOption),
            ("lbs-31+batch=7+batch=8", SpecError::Repeated),
        ] {
            assert_eq!(text.parse::<SystemSpec>().unwrap_err(), error, "{text}");
        }
        for text in [
            "bs+order=19",
            "lbs-31+batch=0",
            "lbs-31+batch=x",
            "lbs-31+check=maybe",
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
