//! The fields of an event as text: `pfn=0x1f order=0`.
//!
//! # Purpose
//!
//! The same field is written differently by tools and by ages of the kernel: frames in
//! decimal by older ones and hexadecimal since, absent pages as `(nil)`, `(null)` or zeros.
//!
//! # Invariants
//!
//! A value that can't be read is `None`, never a guess.

use super::events::{ContentionFields, Fields, SystemCallFields};
use super::system_calls;

/// Fields as text.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl<'a> Text<'a> {
    /// Finds the value after the first, or the last, `name=`, up to the next space.
    fn value(&self, name: &str, wants_last: bool) -> Option<&'a str> {
        let start = self.find(name, wants_last)?;
        let rest = self.0[start..].trim_start();
        rest.split_ascii_whitespace().next()
    }

    /// Finds the start of the value of a field.
    fn find(&self, name: &str, wants_last: bool) -> Option<usize> {
        let is_field = |at: &usize| {
            let before = self.0[..*at].bytes().next_back();
            let after = &self.0[at + name.len()..];
            before.is_none_or(|byte| matches!(byte, b' ' | b',' | b'\t')) && after.starts_with('=')
        };
        let mut places = self.0.match_indices(name).map(|(at, _)| at);
        let place = match wants_last {
            true => places.filter(is_field).last(),
            false => places.find(is_field),
        };
        place.map(|at| at + name.len() + 1)
    }
}

impl Fields for Text<'_> {
    fn frame(&self) -> Option<Option<u64>> {
        let pfn = number(self.value("pfn", false)?, 10)?;
        let has_page = self.value("page", false).is_none_or(|page| {
            let page = page.trim_start_matches("0x");
            !matches!(page, "(nil)" | "(null)") && page.bytes().any(|byte| byte != b'0')
        });
        // No allocator returns frame 0: the kernel writes it if there is no page.
        Some((pfn != 0 || (has_page && self.find("page", false).is_some())).then_some(pfn))
    }

    fn unsigned(&self, name: &str) -> Option<u64> {
        number(self.value(name, false)?, 10)
    }

    fn signed(&self, name: &str) -> Option<i64> {
        self.value(name, false)?.parse().ok()
    }

    fn address(&self, name: &str) -> Option<u64> {
        number(self.value(name, false)?, 16)
    }

    fn mask(&self, name: &str) -> Option<u64> {
        number(self.value(name, true)?, 16)
    }

    fn late(&self, name: &str) -> Option<u64> {
        number(self.value(name, true)?, 10)
    }

    fn flag(&self, name: &str) -> Option<bool> {
        match self.value(name, false)? {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }

    fn contention(&self) -> Option<ContentionFields> {
        // `0000000021018bee (flags=SPIN)`, `0000000021018bee (ret=0)`.
        let (lock, rest) = self.0.split_once(" (")?;
        let lock = number(lock.trim(), 16)?;
        let (name, value) = rest.strip_suffix(')')?.split_once('=')?;
        let (is_spin, result) = match name {
            "flags" => (Some(value == "SPIN"), None),
            "ret" => (None, Some(value.parse().ok()?)),
            _ => return None,
        };
        Some(ContentionFields {
            lock,
            is_spin,
            result,
        })
    }

    fn text(&self, name: &str, next: &str) -> Option<String> {
        let rest = &self.0[self.find(name, false)?..];
        let end = rest.rfind(&format!(" {next}=")).unwrap_or(rest.len());
        Some(rest[..end].to_string())
    }

    fn system_call(&self) -> Option<SystemCallFields> {
        let rest = self.0.strip_prefix("NR ")?;
        if let Some((number, result)) = rest.split_once(" = ") {
            let value = result.split_ascii_whitespace().next()?.parse().ok()?;
            return Some(SystemCallFields::end(number.parse().ok()?, value));
        }
        let (call, arguments) = rest.split_once(" (")?;
        let mut values = arguments.strip_suffix(')')?.split(", ");
        let mut read = [0; 6];
        for argument in &mut read {
            *argument = u64::from_str_radix(values.next()?, 16).ok()?;
        }
        Some(SystemCallFields::begin(call.parse().ok()?, read))
    }

    fn named_call(&self, name: &str) -> Option<SystemCallFields> {
        let number = system_calls::number(name)? as i64;
        let fields = self.0.trim();
        // The result of a call: `0x7f..` from perf and trace-cmd, `-> 0x7f..` from the kernel.
        let result = fields.strip_prefix("-> ").unwrap_or(fields);
        if let Some(value) = result.strip_prefix("0x") {
            let value = u64::from_str_radix(value, 16).ok()?;
            return Some(SystemCallFields::end(number, value as i64));
        }
        if let Ok(value) = result.parse() {
            return Some(SystemCallFields::end(number, value));
        }
        let fields = fields.strip_prefix('(').unwrap_or(fields);
        let fields = fields.strip_suffix(')').unwrap_or(fields);
        let mut read = [0; 6];
        let mut values = fields
            .split(", ")
            .filter_map(|field| field.split_once(": "));
        for argument in &mut read {
            let Some((_, value)) = values.next() else {
                break;
            };
            // Text and structures replace their address, which is not needed, so it is unknown.
            let value = value.trim().trim_start_matches("0x");
            *argument = u64::from_str_radix(value, 16).unwrap_or(0);
        }
        Some(SystemCallFields::begin(number, read))
    }
}

/// Parses a number: hexadecimal after `0x`, otherwise in `radix`.
fn number(text: &str, radix: u32) -> Option<u64> {
    let text = text.trim_end_matches([',', ')']);
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => u64::from_str_radix(text, radix).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_all_ages() {
        for (text, frame) in [
            ("page=0x1ad1ed pfn=0x1ad1ed order=0", Some(0x1ad1ed)),
            ("page=ffffea0004 pfn=1757677 order=0", Some(1_757_677)),
            ("page=(nil) pfn=0x0 order=3", None),
            ("page=          (null) pfn=0 order=3", None),
            ("page=0000000000000000 pfn=0 order=3", None),
            ("pfn=0x0 order=3", None),
            ("page=00000000829bff11 pfn=0x30c99a", Some(0x30c99a)),
        ] {
            assert_eq!(Text(text).frame(), Some(frame), "{text}");
        }
        assert_eq!(Text("page=0x1 order=0").frame(), None);
        assert_eq!(Text("page=0x1 pfn=zz order=0").frame(), None);
        assert_eq!(Text("xpfn=1 order=0").frame(), None);
    }

    #[test]
    fn system_calls_of_all_tools() {
        let begin = Text("NR 9 (0, 2000, 3, 22, ffffffff, 0)").system_call();
        let arguments = [0, 0x2000, 3, 0x22, 0xffff_ffff, 0];
        assert_eq!(begin, Some(SystemCallFields::begin(9, arguments)));
        assert_eq!(
            Text("NR 9 = -12").system_call(),
            Some(SystemCallFields::end(9, -12))
        );
        for text in [
            "(addr: 0, len: 0x2000, prot: 3, flags: 0x22, fd: 0xffffffff, off: 0)",
            "addr: 0x00000000, len: 0x00002000, prot: 0x00000003, flags: 0x00000022, \
             fd: 0xffffffff, off: 0x00000000",
        ] {
            assert_eq!(Text(text).named_call("mmap"), begin, "{text}");
        }
        for text in ["-> 0x7f00", "0x7f00", "32512"] {
            let end = Text(text).named_call("mmap");
            assert_eq!(end, Some(SystemCallFields::end(9, 0x7f00)), "{text}");
        }
        assert_eq!(Text("0x0").named_call("nonsense"), None);
    }

    #[test]
    fn names_with_spaces_end_before_the_next_field() {
        let text = Text("pid=7 comm=Web Content x clone_flags=4100 oom_score_adj=0");
        assert_eq!(
            text.text("comm", "clone_flags").as_deref(),
            Some("Web Content x")
        );
        assert_eq!(text.mask("clone_flags"), Some(0x4100));
    }
}
