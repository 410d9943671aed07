//! The layout of events and pages: a parser for the kernel's own descriptions.
//!
//! Kernels differ: fields move, grow and disappear between versions and machines. Each event has a file `format`,
//! pages have `events/header_page`, and a perf.data file contains the descriptions of its events. This crate has no
//! other knowledge of offsets.
//!
//! # Invariants
//! A [`Field`] parsed from any text extracts its value from any bytes without reading past their end. Numbers are
//! little-endian, as on every machine that this crate records on and in every file that it accepts.

/// The location of a field in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// First byte.
    pub(crate) offset: usize,
    /// Number of bytes.
    pub(crate) size: usize,
    /// Whether its value has a sign.
    pub(crate) is_signed: bool,
    /// Whether its value is the location of the actual text (`__data_loc`).
    pub(crate) is_elsewhere: bool,
}

/// A described record: its number, and its fields by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    /// The number of this kind of record; 0 in descriptions of pages.
    pub(crate) id: u16,
    /// The name of the event; empty in descriptions of pages.
    pub(crate) name: String,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Parses a description. Lines that are not fields are ignored.
    pub(crate) fn parse(text: &str) -> Format {
        let mut format = Format::default();
        for line in text.lines().map(str::trim) {
            if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().unwrap_or(0);
            } else if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_string();
            } else if let Some(rest) = line.strip_prefix("field:") {
                format.fields.extend(parse_field(rest));
            }
        }
        format
    }

    /// Finds a field by its name.
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        let found = self.fields.iter().find(|(of, _)| of == name)?;
        Some(found.1)
    }

    /// Returns all fields, in the order of the description.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, Field)> {
        self.fields
            .iter()
            .map(|(name, field)| (name.as_str(), *field))
    }
}

/// Parses `unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;`.
fn parse_field(text: &str) -> Option<(String, Field)> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let declared = declaration.split_whitespace().next_back()?;
    let name = declared.split('[').next()?.trim_start_matches('*');
    let (mut offset, mut size, mut is_signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => is_signed = value == "1",
            _ => {}
        }
    }
    let (offset, size) = (offset?, size?);
    Some((
        name.to_string(),
        Field {
            offset,
            size,
            is_signed,
            is_elsewhere: declaration.starts_with("__data_loc"),
        },
    ))
}

impl Field {
    /// Returns the field's bytes, or `None` if the record is too short.
    pub(crate) fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Returns the value of an integer of 1, 2, 4 or 8 bytes; signed values are sign-extended.
    pub(crate) fn value(self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        if !matches!(bytes.len(), 1 | 2 | 4 | 8) {
            return None;
        }
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        if self.is_signed && bytes.last().is_some_and(|byte| *byte >= 0x80) {
            wide[bytes.len()..].fill(0xff);
        }
        Some(u64::from_le_bytes(wide))
    }

    /// Returns one of `entries` equal parts of the field: an array element.
    pub(crate) fn entry(self, index: usize, entries: usize) -> Field {
        let size = self.size / entries;
        Field {
            offset: self.offset.saturating_add(index * size),
            size,
            ..self
        }
    }

    /// Returns the text of the field, up to the first zero byte. The text of a `__data_loc` field is elsewhere in the
    /// record: its lower 16 bits contain the offset, its upper bits the length.
    pub(crate) fn text(self, record: &[u8]) -> Option<String> {
        let bytes = if self.is_elsewhere {
            let place = self.value(record)?;
            let (first, size) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
            record.get(first..first + size)?
        } else {
            self.bytes(record)?
        };
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXEC: &str = "name: sched_process_exec\nID: 365\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\
        \tfield:struct page * page;\toffset:64;\tsize:8;\tsigned:0;\n\
        \nprint fmt: \"filename=%s pid=%d\", __get_str(filename), REC->pid\n";

    fn field(offset: usize, size: usize, is_signed: bool) -> Field {
        Field {
            offset,
            size,
            is_signed,
            is_elsewhere: false,
        }
    }

    #[test]
    fn a_description_is_read() {
        let format = Format::parse(EXEC);
        assert_eq!(format.id, 365);
        assert_eq!(format.field("common_pid"), Some(field(4, 4, true)));
        assert_eq!(format.name, "sched_process_exec");
        let program = format.field("filename");
        assert!(program.is_some_and(|field| field.is_elsewhere && field.offset == 8));
        assert_eq!(format.fields().count(), 5);
        assert_eq!(
            format.field("args").map(|args| args.entry(5, 6)),
            Some(field(56, 8, false))
        );
        assert_eq!(format.field("page"), Some(field(64, 8, false)));
        assert_eq!(format.field("pfn"), None);
    }

    #[test]
    fn values_are_widened_and_never_read_beyond_the_record() {
        let record = [0xff, 0xff, 0xff, 0xff, b'h', b'i', 0, b'!'];
        let value = |offset, size, is_signed| field(offset, size, is_signed).value(&record);
        assert_eq!(value(0, 4, false), Some(u64::from(u32::MAX)));
        assert_eq!(value(0, 4, true), Some(u64::MAX));
        assert_eq!(value(0, 1, true), Some(u64::MAX));
        assert_eq!(value(5, 4, false), None);
        assert_eq!(value(0, 3, false), None);
        assert_eq!(value(usize::MAX, 8, false), None);
        assert_eq!(field(4, 4, false).text(&record).as_deref(), Some("hi"));
    }

    #[test]
    fn text_elsewhere_is_found_or_not_there() {
        let mut record = vec![0; 16];
        record[0..4].copy_from_slice(&(8u32 | 5 << 16).to_le_bytes());
        record[8..13].copy_from_slice(b"make\0");
        let place = Field {
            is_elsewhere: true,
            ..field(0, 4, false)
        };
        assert_eq!(place.text(&record).as_deref(), Some("make"));
        record[0..4].copy_from_slice(&(9u32 | 800 << 16).to_le_bytes());
        assert_eq!(place.text(&record), None);
    }
}
