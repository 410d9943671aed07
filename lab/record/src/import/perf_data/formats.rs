//! The layout of each event's fields, as described by the recorded kernel.
//!
//! Fields move from kernel to kernel; each perf.data file brings the descriptions of the events that it holds.
//!
//! # Invariants
//! A field is read only if it lies inside the sample, and as wide as it was described.

use std::collections::HashMap;

use super::super::events::{ContentionFields, Fields, Frame, SystemCallFields};
use super::super::system_calls;
use super::bytes::Bytes;
use crate::format::Format;

/// Flags of a thread's state that mean that an interrupt had suspended it (hard, soft, non-maskable).
const IN_INTERRUPT: u64 = 0x08 | 0x10 | 0x40;

/// The flags of a wait for a plain spin lock.
const SPIN: u64 = 1;

/// The formats of a file, by the number at the start of each sample's data.
#[derive(Debug, Default)]
pub(crate) struct Formats {
    by_number: HashMap<u16, Format>,
}

impl Formats {
    /// Parses the formats of a file. Returns `None` if they are damaged.
    pub(crate) fn read(bytes: &[u8]) -> Option<Formats> {
        let mut bytes = Bytes(bytes);
        if bytes.take(10)? != b"\x17\x08\x44tracing" {
            return None;
        }
        bytes.text()?;
        let _order_of_bytes = bytes.u8()?;
        let _size_of_long = bytes.u8()?;
        let _size_of_page = bytes.u32()?;
        for _ in ["header_page", "header_event"] {
            bytes.text()?;
            let size = bytes.u64()?;
            bytes.take(size)?;
        }
        let mut formats = Formats::default();
        for _ in 0..bytes.u32()? {
            let size = bytes.u64()?;
            bytes.take(size)?;
        }
        for _ in 0..bytes.u32()? {
            bytes.text()?;
            for _ in 0..bytes.u32()? {
                let size = bytes.u64()?;
                let text = std::str::from_utf8(bytes.take(size)?).ok()?;
                let format = Format::parse(text);
                if !format.name.is_empty() {
                    formats.by_number.insert(format.id, format);
                }
            }
        }
        Some(formats)
    }

    /// Returns the format of a sample's data.
    pub(crate) fn of(&self, data: &[u8]) -> Option<&Format> {
        let number = u16::from_le_bytes(data.get(..2)?.try_into().ok()?);
        self.by_number.get(&number)
    }
}

/// The fields of one sample.
pub(crate) struct Sample<'a> {
    pub(crate) format: &'a Format,
    pub(crate) data: &'a [u8],
}

impl Sample<'_> {
    fn number(&self, name: &str) -> Option<u64> {
        self.format.field(name)?.value(self.data)
    }

    /// Returns the thread, as recorded in the event by the kernel.
    pub(crate) fn tid(&self) -> Option<u32> {
        u32::try_from(self.number("common_pid")?).ok()
    }

    /// Returns `true` if an interrupt had suspended the thread.
    pub(crate) fn in_interrupt(&self) -> bool {
        self.number("common_flags")
            .is_some_and(|flags| flags & IN_INTERRUPT != 0)
    }

    fn arguments(&self) -> [u64; 6] {
        let mut arguments = [0; 6];
        if let Some(field) = self.format.field("args") {
            for (index, argument) in arguments.iter_mut().enumerate() {
                *argument = field.entry(index, 6).value(self.data).unwrap_or(0);
            }
        }
        arguments
    }
}

impl Fields for Sample<'_> {
    fn frame(&self) -> Option<Frame> {
        let Some(field) = self.format.field("pfn") else {
            return Some(match self.number("page")? {
                0 => Frame::Absent,
                address => Frame::Descriptor(address),
            });
        };
        // The kernel's value if there is no page, as wide as its integers; older kernels wrote frame 0.
        let pfn = field.value(self.data)?;
        let is_absent =
            pfn == 0 || pfn == u64::MAX || (field.size == 4 && pfn == u64::from(u32::MAX));
        Some(if is_absent {
            Frame::Absent
        } else {
            Frame::Number(pfn)
        })
    }

    fn unsigned(&self, name: &str) -> Option<u64> {
        self.number(name)
    }

    fn signed(&self, name: &str) -> Option<i64> {
        self.number(name).map(|value| value as i64)
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.number(name).map(|value| value != 0)
    }

    fn contention(&self) -> Option<ContentionFields> {
        Some(ContentionFields {
            lock: self.number("lock_addr")?,
            is_spin: self.number("flags").map(|flags| flags == SPIN),
            result: self.number("ret").map(|result| result as i64),
        })
    }

    fn text(&self, name: &str, _next: &str) -> Option<String> {
        self.format.field(name)?.text(self.data)
    }

    fn system_call(&self) -> Option<SystemCallFields> {
        let number = self.number("id")? as i64;
        Some(match self.number("ret") {
            Some(result) => SystemCallFields::end(number, result as i64),
            None => SystemCallFields::begin(number, self.arguments()),
        })
    }

    fn named_call(&self, name: &str) -> Option<SystemCallFields> {
        let number = system_calls::number(name)? as i64;
        if let Some(result) = self.number("ret") {
            return Some(SystemCallFields::end(number, result as i64));
        }
        let mut arguments = [0; 6];
        let own = self
            .format
            .fields()
            .filter(|(name, _)| !name.starts_with("common_") && !name.starts_with("__"));
        for (argument, (_, field)) in arguments.iter_mut().zip(own) {
            *argument = field.value(self.data).unwrap_or(0);
        }
        Some(SystemCallFields::begin(number, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sched_process_exec\nID: 310\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:12;\tsize:4;\tsigned:0;\n";

    #[test]
    fn fields_are_where_the_kernel_said() {
        let format = Format::parse(FORMAT);
        assert_eq!(format.id, 310);
        let data = b"\x36\x01\x08\x00\xff\xff\xff\xff\x10\x00\x04\x00ab\0\0/ls\0";
        let sample = Sample {
            format: &format,
            data,
        };
        assert!(sample.in_interrupt());
        assert_eq!(sample.signed("common_pid"), Some(-1));
        assert_eq!(sample.tid(), None);
        assert_eq!(sample.text("filename", "").as_deref(), Some("/ls"));
        assert_eq!(sample.text("comm", "").as_deref(), Some("ab"));
        let short = Sample {
            format: &format,
            data: &data[..10],
        };
        assert_eq!(short.text("filename", ""), None);
        assert_eq!(short.text("comm", ""), None);
    }

    #[test]
    fn integers_are_as_wide_as_those_of_the_kernel() {
        let frame = |declared: &str, size: usize, value: u64| {
            let format = Format::parse(&format!(
                "name: mm_page_alloc\nID: 9\n\tfield:{declared};\toffset:8;\tsize:{size};\tsigned:0;\n"
            ));
            let mut data = vec![0; 8];
            data.extend(&value.to_le_bytes()[..size]);
            Sample {
                format: &format,
                data: &data,
            }
            .frame()
        };
        let pfn = "unsigned long pfn";
        assert_eq!(frame(pfn, 8, u64::MAX), Some(Frame::Absent));
        assert_eq!(frame(pfn, 4, u64::from(u32::MAX)), Some(Frame::Absent));
        let last = u64::from(u32::MAX);
        assert_eq!(frame(pfn, 8, last), Some(Frame::Number(last)));
        let page = "struct page * page";
        assert_eq!(frame(page, 8, 0), Some(Frame::Absent));
        assert_eq!(frame(page, 4, 0xc100), Some(Frame::Descriptor(0xc100)));
        let format = Format::parse(
            "name: sys_enter\nID: 9\n\tfield:unsigned long args[6];\toffset:8;\tsize:24;\tsigned:0;\n",
        );
        let mut data = vec![0; 8];
        (1..=6u32).for_each(|value| data.extend(value.to_le_bytes()));
        let sample = Sample {
            format: &format,
            data: &data,
        };
        assert_eq!(sample.arguments(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn waits_for_locks_have_an_address_and_either_flags_or_a_result() {
        let format = |field: &str| {
            Format::parse(&format!(
                "name: contention\nID: 9\n\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
                 \tfield:int {field};\toffset:16;\tsize:4;\tsigned:1;\n"
            ))
        };
        let fields = |field: &str, value: i32| {
            let mut data = vec![0; 8];
            data.extend(77u64.to_le_bytes());
            data.extend(value.to_le_bytes());
            let format = format(field);
            Sample {
                format: &format,
                data: &data,
            }
            .contention()
        };
        let contention = |is_spin, result| {
            Some(ContentionFields {
                lock: 77,
                is_spin,
                result,
            })
        };
        assert_eq!(fields("flags", 1), contention(Some(true), None));
        assert_eq!(fields("flags", 3), contention(Some(false), None));
        assert_eq!(fields("ret", -4), contention(None, Some(-4)));
    }
}
