//! The fields of an event as text: `pfn=0x1f order=0`.
//!
//! The same field is written differently by tools and by ages of the kernel: frames in decimal by older ones and
//! hexadecimal since, absent pages as `(nil)`, `(null)` or zeros. Tools that hide addresses write zeros for every page.
//!
//! # Invariants
//! A value that can't be read is `None`, never a guess.

use super::descriptors::is_kernel_address;
use super::events::{ContentionFields, Fields, Frame, SystemCallFields};
use super::system_calls;

/// The frame at 1 PiB, which no machine has. Old kernels compute a higher one of page 0.
const TOO_HIGH: u64 = 1 << 38;

/// The number of "no page" of a 32-bit kernel.
const NO_PAGE_32: u64 = u32::MAX as u64;

/// Fields as text.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
    /// Whether a tool printed the fields by their types, without the kernel's format: long integers in hexadecimal
    /// with `0x`, others in decimal.
    pub(crate) is_raw: bool,
}

/// Returns `true` if the fields of an event can only be printed by their types: with `trace-cmd report -R`, or of a
/// format that the tool could not parse.
pub(crate) fn is_raw(event: &str, fields: &str) -> bool {
    let text = Text {
        text: fields,
        is_raw: false,
    };
    let place = |name| text.find(name, false);
    let is_typed = match event {
        // In the kernel's format, the flags are last.
        "mm_page_alloc" => matches!(
            (place("gfp_flags"), place("migratetype")),
            (Some(flags), Some(kind)) if flags < kind
        ),
        "sys_enter" => fields.contains("=ARRAY["),
        _ => event.starts_with("sys_") && fields.starts_with("__syscall_nr="),
    };
    is_typed || fields.starts_with("[FAILED TO PARSE]")
}

impl<'a> Text<'a> {
    /// Finds the value after the first, or the last, `name=`, up to the next space.
    fn value(&self, name: &str, wants_last: bool) -> Option<&'a str> {
        let start = self.find(name, wants_last)?;
        let rest = self.text[start..].trim_start();
        rest.split_ascii_whitespace().next()
    }

    /// Finds the start of the value of a field.
    fn find(&self, name: &str, wants_last: bool) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let is_field = |at: &usize| {
            if bytes[*at] != b'=' {
                return false;
            }
            let before = bytes[..*at].strip_suffix(name.as_bytes());
            let before = before.map(|before| before.last().copied().unwrap_or(b' '));
            matches!(before, Some(b' ' | b',' | b'\t'))
        };
        let mut places = 0..bytes.len();
        let place = if wants_last {
            places.rev().find(is_field)
        } else {
            places.find(is_field)
        };
        place.map(|at| at + 1)
    }
}

impl Fields for Text<'_> {
    fn frame(&self) -> Option<Frame> {
        let page = self.value("page", false);
        let is_null = page.is_some_and(|page| matches!(page, "(nil)" | "(null)"));
        let is_zero = page.is_some_and(|page| {
            let page = page.trim_start_matches("0x");
            page.bytes().all(|byte| byte == b'0')
        });
        let Some(pfn) = self.value("pfn", false) else {
            return Some(if is_null || is_zero {
                Frame::Absent
            } else {
                Frame::Descriptor(number(page?, 16)?)
            });
        };
        // As above.
        if is_null || pfn == "-1" {
            return Some(Frame::Absent);
        }
        let pfn = number(pfn, 10)?;
        let is_absent = match pfn {
            // No allocator returns frame 0: the kernel writes it if there is no page.
            0 => page.is_none() || is_zero,
            // A tool prints the number of the page as its address, too.
            NO_PAGE_32 => page.is_none_or(|page| is_zero || number(page, 16) == Some(pfn)),
            u64::MAX => true,
            TOO_HIGH.. => is_zero,
            _ => false,
        };
        Some(if is_absent {
            Frame::Absent
        } else {
            Frame::Number(pfn)
        })
    }

    fn descriptor(&self) -> Option<u64> {
        number(self.value("page", false)?, 16).filter(|page| is_kernel_address(*page))
    }

    fn unsigned(&self, name: &str) -> Option<u64> {
        number(self.value(name, false)?, 10)
    }

    fn signed(&self, name: &str) -> Option<i64> {
        let value = self.value(name, false)?;
        if value.starts_with("0x") {
            // A negative number has as many digits as its type.
            number(value, 16).map(|value| match value {
                0x8000_0000..=0xffff_ffff => i64::from(value as u32 as i32),
                value => value as i64,
            })
        } else {
            value.parse().ok()
        }
    }

    fn address(&self, name: &str) -> Option<u64> {
        number(self.value(name, false)?, 16)
    }

    fn mask(&self, name: &str) -> Option<u64> {
        let radix = if self.is_raw { 10 } else { 16 };
        number(self.value(name, true)?, radix)
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
        if let Some(lock) = self.address("lock_addr") {
            // As printed by type: the flag of a plain spin lock is 1.
            return Some(ContentionFields {
                lock,
                is_spin: self.unsigned("flags").map(|flags| flags == 1),
                result: self.signed("ret"),
            });
        }
        // `0000000021018bee (flags=SPIN)`, `0000000021018bee (ret=0)`.
        let (lock, rest) = self.text.split_once(" (")?;
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
        let rest = &self.text[self.find(name, false)?..];
        let end = rest.rfind(&format!(" {next}=")).unwrap_or(rest.len());
        Some(rest[..end].to_string())
    }

    fn system_call(&self) -> Option<SystemCallFields> {
        let Some(rest) = self.text.strip_prefix("NR ") else {
            return self.raw_call();
        };
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
        if let Some(call) = self.raw_named_call(number) {
            return Some(call);
        }
        let fields = self.text.trim();
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

/// System calls as printed by type.
impl Text<'_> {
    /// Parses `id=9 args=ARRAY[00, 10, ...]`, which lists the bytes of six integers, or `id=9 ret=0`.
    fn raw_call(&self) -> Option<SystemCallFields> {
        let call = self.signed("id")?;
        if let Some(result) = self.signed("ret") {
            return Some(SystemCallFields::end(call, result));
        }
        let (_, bytes) = self.text.split_once("args=ARRAY[")?;
        let bytes = bytes.split(']').next()?.split(',');
        let bytes: Option<Vec<u8>> = bytes
            .map(|byte| u8::from_str_radix(byte.trim(), 16).ok())
            .collect();
        let bytes = bytes.filter(|bytes| matches!(bytes.len(), 24 | 48))?;
        let mut read = [0; 6];
        for (argument, bytes) in read.iter_mut().zip(bytes.chunks_exact(bytes.len() / 6)) {
            *argument = bytes
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte));
        }
        Some(SystemCallFields::begin(call, read))
    }

    /// Parses `__syscall_nr=9 addr=0x0 len=0x2000 ...`, or `__syscall_nr=9 ret=0`.
    fn raw_named_call(&self, number_of_call: i64) -> Option<SystemCallFields> {
        let at = self
            .find("__syscall_nr", false)
            .or(self.find("nr", false))?;
        if let Some(result) = self.signed("ret") {
            return Some(SystemCallFields::end(number_of_call, result));
        }
        let mut read = [0; 6];
        let fields = self.text[at..].split_ascii_whitespace().skip(1);
        for (argument, field) in read
            .iter_mut()
            .zip(fields.filter_map(|field| field.split_once('=')))
        {
            *argument = number(field.1, 10).unwrap_or(0);
        }
        Some(SystemCallFields::begin(number_of_call, read))
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

    fn fields(text: &str) -> Text<'_> {
        Text {
            text,
            is_raw: is_raw("mm_page_alloc", text),
        }
    }

    #[test]
    fn frames_of_all_ages() {
        for (text, frame) in [
            ("page=0x1ad1ed pfn=0x1ad1ed order=0", Some(0x1ad1ed)),
            ("page=ffffea0004 pfn=1757677 order=0", Some(1_757_677)),
            ("page=(nil) pfn=0x0 order=3", None),
            ("page=          (null) pfn=0 order=3", None),
            ("page=0000000000000000 pfn=0 order=3", None),
            ("page=0 pfn=1155800 order=0", Some(1_155_800)),
            ("page=0000000000000000 pfn=0x8a3f0", Some(0x8a3f0)),
            ("page=0000000000000000 pfn=377957122048 order=3", None),
            ("page=0000000000000000 pfn=0xffffffff order=3", None),
            ("pfn=0x0 order=3", None),
            ("page=00000000829bff11 pfn=0x30c99a", Some(0x30c99a)),
            // A page that is absent has no frame, whatever an old kernel computed.
            ("page=          (null) pfn=377957122048 order=3", None),
            ("pfn=0xffffffffffffffff order=3", None),
            ("pfn=18446744073709551615 order=3", None),
            ("pfn=-1 order=3", None),
            ("pfn=0xffffffff order=3", None),
            ("page=0xffffffff pfn=0xffffffff order=3", None),
            ("page=0xffffffff pfn=4294967295 order=3", None),
            (
                "page=00000000829bff11 pfn=0xffffffff order=0",
                Some(0xffff_ffff),
            ),
            ("page=00000000829bff11 pfn=0x0 order=0", Some(0)),
            ("pfn=0x3070e0 (3174624) order=0x1 (1)", Some(0x3070e0)),
        ] {
            let wanted = frame.map_or(Frame::Absent, Frame::Number);
            assert_eq!(fields(text).frame(), Some(wanted), "{text}");
        }
        for (text, frame) in [
            (
                "page=0xffffea0000a44ec0 order=0",
                Frame::Descriptor(0xffff_ea00_00a4_4ec0),
            ),
            ("page=(nil) order=0", Frame::Absent),
            ("page=0x0 order=0", Frame::Absent),
        ] {
            assert_eq!(fields(text).frame(), Some(frame), "{text}");
        }
        assert_eq!(fields("page=0x1 pfn=zz order=0").frame(), None);
        assert_eq!(fields("xpfn=1 order=0").frame(), None);
    }

    /// A number without a base is decimal, unless the kernel's format of the field is hexadecimal without `0x`.
    #[test]
    fn numbers_without_a_base_have_that_of_their_field() {
        #[rustfmt::skip]
        let cases = [
            ("pfn=0x1 order=0 gfp_flags=131290 migratetype=0", Some(131_290)),
            ("pfn=0x1 order=0 migratetype=0 gfp_flags=131290", Some(131_290)),
            ("pfn=0x1 order=0 gfp_flags=0x152c4a migratetype=0", Some(0x15_2c4a)),
            ("pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL", None),
            ("pfn=0x1 order=0 migratetype=0 gfp_flags=24200ca", None),
        ];
        for (text, flags) in cases {
            assert_eq!(fields(text).late("gfp_flags"), flags, "{text}");
        }
        let clone = "pid=7 comm=a b clone_flags=1200000 oom_score_adj=0";
        assert_eq!(fields(clone).mask("clone_flags"), Some(0x120_0000));
        let raw = Text {
            text: clone,
            is_raw: true,
        };
        assert_eq!(raw.mask("clone_flags"), Some(1_200_000));
        assert_eq!(fields("migratetype=0x1 (1)").signed("migratetype"), Some(1));
        assert_eq!(fields("ret=0xfffffff4").signed("ret"), Some(-12));
        assert_eq!(fields("address=7f00 ip=1").address("address"), Some(0x7f00));
    }

    #[test]
    fn fields_printed_by_type_are_read() {
        let array = |values: [u64; 6]| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes());
            bytes
                .map(|byte| format!("{byte:02x}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let arguments = [0, 0x2000, 3, 0x22, 0xffff_ffff, 0];
        let begin = Some(SystemCallFields::begin(9, arguments));
        let text = format!("id=9 args=ARRAY[{}]", array(arguments));
        assert!(is_raw("sys_enter", &text));
        assert_eq!(fields(&text).system_call(), begin);
        let end = |result| Some(SystemCallFields::end(9, result));
        assert_eq!(fields("id=9 ret=-12").system_call(), end(-12));
        let named = "__syscall_nr=9 addr=0x0 len=0x2000 prot=0x3 flags=34 fd=0xffffffff off=0x0";
        assert_eq!(fields(named).named_call("mmap"), begin);
        assert_eq!(
            fields("__syscall_nr=9 ret=32512").named_call("mmap"),
            end(0x7f00)
        );
        let wait = fields("lock_addr=0xffff888012 flags=1")
            .contention()
            .unwrap();
        assert_eq!(wait.lock, 0xff_ff88_8012);
        assert_eq!(wait.is_spin, Some(true));
        assert_eq!(wait.result, None);
        let got = fields("lock_addr=0xffff888012 ret=0").contention().unwrap();
        assert_eq!((got.is_spin, got.result), (None, Some(0)));
    }

    #[test]
    fn system_calls_of_all_tools() {
        let begin = fields("NR 9 (0, 2000, 3, 22, ffffffff, 0)").system_call();
        let arguments = [0, 0x2000, 3, 0x22, 0xffff_ffff, 0];
        assert_eq!(begin, Some(SystemCallFields::begin(9, arguments)));
        assert_eq!(
            fields("NR 9 = -12").system_call(),
            Some(SystemCallFields::end(9, -12))
        );
        for text in [
            "(addr: 0, len: 0x2000, prot: 3, flags: 0x22, fd: 0xffffffff, off: 0)",
            "addr: 0x00000000, len: 0x00002000, prot: 0x00000003, flags: 0x00000022, \
             fd: 0xffffffff, off: 0x00000000",
        ] {
            assert_eq!(fields(text).named_call("mmap"), begin, "{text}");
        }
        for text in ["-> 0x7f00", "0x7f00", "32512"] {
            let end = fields(text).named_call("mmap");
            assert_eq!(end, Some(SystemCallFields::end(9, 0x7f00)), "{text}");
        }
        assert_eq!(fields("0x0").named_call("nonsense"), None);
    }

    #[test]
    fn names_with_spaces_end_before_the_next_field() {
        let text = fields("pid=7 comm=Web Content x clone_flags=4100 oom_score_adj=0");
        assert_eq!(
            text.text("comm", "clone_flags").as_deref(),
            Some("Web Content x")
        );
        assert_eq!(text.mask("clone_flags"), Some(0x4100));
    }
}
