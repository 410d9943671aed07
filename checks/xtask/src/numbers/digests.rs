//! The digests of what systems and machines do today.
//!
//! `lab/simulate/src/digest.rs` says what a digest is of, and its test writes the table.
//!
//! # Invariants
//! Nothing is compiled or run to know what is older.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use everybuddy::SystemSpec;
use everybuddy_text::sum;

/// The table.
pub(crate) const DIGESTS: &str = "results/digests.tsv";

/// What stands for a digest of something that has none.
pub(crate) const NONE: &str = "-";

/// The digests of today, by system or machine: with the assertions of development, which access memory, too, and
/// without. None in a folder without them.
pub(crate) struct Digests(pub(crate) BTreeMap<String, [String; 2]>);

impl Digests {
    pub(crate) fn new(root: &Path) -> Self {
        let text = fs::read_to_string(root.join(DIGESTS)).unwrap_or_default();
        let lines = text.lines().map(|line| {
            let mut words = line.split('\t').map(str::to_owned);
            let mut next = || words.next().unwrap_or_default();
            (next(), [next(), next()])
        });
        Self(lines.collect())
    }

    /// Returns `true` if a row of this contender on this platform is of an older program.
    pub(crate) fn is_older(&self, system: &str, platform: &str, program: &str) -> bool {
        let mut words = program.split(' ');
        let [commit, own, machine] = [(); 3].map(|()| words.next().unwrap_or_default());
        let is_simulated = platform.starts_with("sim:");
        let is_of_today = |form: usize| {
            let today = self.0.get(platform).map_or(NONE, |own| &own[form]);
            own == self.of_system(system, form) && (!is_simulated || machine == today)
        };
        !self.0.is_empty() && (["", NONE].contains(&commit) || !is_of_today(0) && !is_of_today(1))
    }

    /// Returns the digest of the systems in a name, as a row has it.
    fn of_system(&self, name: &str, form: usize) -> String {
        let digests = systems(name).map(|own| self.0.get(own).map_or("?", |own| &own[form]));
        let digests = digests.collect::<Vec<_>>().join("+");
        if digests.is_empty() {
            NONE.to_owned()
        } else {
            digests
        }
    }

    /// Returns a sum of the digests that a command names. If it names no systems, the sum is of those without options,
    /// so that a row of another option does not change it. A comment after the command can name them, too:
    /// `# --systems all,lbs-31+lock=ticket`.
    pub(crate) fn of_command(&self, command: &str) -> String {
        let words = || command.split_whitespace();
        let after = |option: &str| {
            let mut words = words().skip_while(|word| *word != option);
            words.nth(1).map(|names| names.split(',').collect())
        };
        let named: Vec<&str> = after("--systems").unwrap_or_default();
        let is_all = named.is_empty() || named.contains(&"all");
        let machines: Vec<&str> = after("--machine").unwrap_or_default();
        let is_meant = |name: &str| match name.strip_prefix("sim:") {
            Some(machine) => machines.is_empty() || machines.contains(&machine),
            None => is_all && !name.contains('+') || named.contains(&name),
        };
        let meant = self.0.iter().filter(|own| is_meant(own.0));
        let sum = sum::bytes(meant.flat_map(|(name, own)| name.bytes().chain(own[0].bytes())));
        format!("{sum:08x}")
    }
}

/// Returns the systems in a name: it can have words besides.
pub(crate) fn systems(name: &str) -> impl Iterator<Item = &str> {
    let is_system = |word: &&str| word.parse::<SystemSpec>().is_ok();
    name.split_whitespace().filter(is_system)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests() -> Digests {
        let own = [("bs", "1"), ("is", "2"), ("lbs-31", "3"), ("sim:flat", "4")];
        Digests(
            own.map(|(name, own)| (name.to_owned(), [own.to_owned(), format!("{own}r")]))
                .into(),
        )
    }

    #[test]
    fn a_row_is_older_if_what_its_system_or_its_machine_does_has_changed() {
        let digests = digests();
        for (system, platform, program, is_older) in [
            ("bs", "native", "0123abc 1 amd-25-1", false),
            ("bs", "native", "0123abc 1 intel-6-207", false),
            ("bs", "native", "0123abc 2 amd-25-1", true),
            ("bs", "sim:flat", "0123abc 1 4", false),
            ("bs", "sim:flat", "0123abc 1 5", true),
            ("bs", "sim:host", "0123abc 1 -", false),
            ("bs rounded against is", "native", "0123abc 1+2 amd", false),
            (
                "bs rounded against is",
                "native",
                "0123abc 1r+2r amd",
                false,
            ),
            ("bs rounded against is", "native", "0123abc 1r+2 amd", true),
            ("bs rounded against is", "native", "0123abc 1+3 amd", true),
            ("lbs-31+batch=7", "native", "0123abc 7 amd", true),
            // An option that is gone.
            ("bs+gone=7", "native", "0123abc 1 amd", true),
            ("another", "native", "0123abc - amd", false),
            ("another", "native", "- - -", true),
            ("another", "native", "", true),
        ] {
            let found = digests.is_older(system, platform, program);
            assert_eq!(found, is_older, "{system} {platform} {program}");
        }
    }

    #[test]
    fn a_sum_is_of_what_the_command_names() {
        let all = digests();
        let other = |changed: &str| {
            let mut digests = digests();
            digests.0.insert(changed.into(), ["9", "9"].map(Into::into));
            digests
        };
        let named = "everybuddy simulate --systems bs,is --machine flat";
        for (command, changed, is_other) in [
            (named, "bs", true),
            (named, "lbs-31", false),
            (named, "sim:flat", true),
            (named, "sim:x5570", false),
            ("everybuddy compare", "lbs-31", true),
            ("everybuddy compare", "lbs-31+lock=queued", false),
            (
                "ci/a.sh # --systems all,bs+lock=queued",
                "bs+lock=queued",
                true,
            ),
            ("ci/a.sh # --systems all,bs+lock=queued", "is", true),
        ] {
            let found = other(changed).of_command(command) != all.of_command(command);
            assert_eq!(found, is_other, "{command}: {changed}");
        }
    }
}
