//! What a program does with memory between two calls.
//!
//! A simulation of calls alone leaves caches to the allocator. A program uses the frames that it gets, and a kernel the
//! records that it keeps of them. Both decide where the lines of the next call are.
//!
//! # Invariants
//! Nothing here takes time of a call. What a program uses has no lines of its own: only how many there are counts.

use std::fmt;
use std::str::FromStr;

use everybuddy::{LINE, MetadataPart};
use everybuddy_measure::size::Size;
use everybuddy_sim::{Records, Region, SimCpu};

/// The bytes of a frame.
const FRAME: u64 = 4096;
/// What an element of the table holds in which a system keeps a record of each frame.
const RECORD: &str = "frame record";

/// What a program, and its kernel, do between two calls. Nothing by default.
///
/// As text, its parts in any order: `zeroes=64,record=64,touch,sweep=65536/4MiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The lines of each frame that are used once it is allocated. A frame has 64, and a kernel that gives one to a
    /// program zeroes it.
    pub zeroes: u32,
    /// The bytes of the record that the kernel keeps of a frame, of which the allocator's record is a part; 0 if the
    /// allocator's record is all that there is. Linux has 64, which are a line of their own.
    pub record: u32,
    /// Whether the kernel stores to that record once a frame is allocated, and before it is freed: to its count of
    /// users, and to what it is used for.
    pub touch: bool,
    /// The lines of other memory that are used before each call.
    pub sweep: u32,
    /// The bytes of that memory, which is used in turn.
    pub reach: u64,
    /// Whether each call ends when all of its loads are done, as one does that is timed alone.
    pub fence: bool,
}

impl Program {
    /// The most lines of a term, and bytes of a record.
    const MOST: u32 = 1 << 24;
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms = Vec::new();
        if self.zeroes > 0 {
            terms.push(format!("zeroes={}", self.zeroes));
        }
        if self.record > 0 {
            terms.push(format!("record={}", self.record));
        }
        if self.touch {
            terms.push("touch".to_string());
        }
        if self.sweep > 0 {
            terms.push(format!("sweep={}/{}KiB", self.sweep, self.reach >> 10));
        }
        if self.fence {
            terms.push("fence".to_string());
        }
        out.write_str(&terms.join(","))
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut own = Program::default();
        let number = |text: &str| {
            let number = text.parse().ok().filter(|own| *own <= Program::MOST);
            number.ok_or_else(|| format!("`{text}`: a number up to {} is needed", Program::MOST))
        };
        for term in text.split(',').map(str::trim) {
            match term.split_once('=') {
                None if term == "touch" => own.touch = true,
                None if term == "fence" => own.fence = true,
                Some(("zeroes", lines)) => own.zeroes = number(lines)?,
                Some(("record", bytes)) => {
                    own.record = number(bytes)?;
                    if u64::from(own.record) > FRAME {
                        return Err(format!("`{term}`: a record has {FRAME} bytes at most"));
                    }
                }
                Some(("sweep", both)) => {
                    let (lines, size) = both
                        .split_once('/')
                        .ok_or_else(|| format!("`{term}`: such as sweep=8192/8MiB is needed"))?;
                    let size: Size = size.parse().map_err(|cause| format!("`{term}`: {cause}"))?;
                    (own.sweep, own.reach) = (number(lines)?, size.frames * FRAME);
                }
                _ => {
                    return Err(format!(
                        "`{term}`: choose from zeroes=LINES, record=BYTES, touch, sweep=LINES/SIZE, fence"
                    ));
                }
            }
        }
        Ok(own)
    }
}

/// Returns the frames of a size.
pub(crate) fn frames(size: everybuddy::Size) -> u32 {
    match size {
        everybuddy::Size::Order(order) => order.frames(),
        everybuddy::Size::Frames(frames) => frames.0,
    }
}

/// What is used in a run.
#[derive(Debug, Default)]
pub(crate) struct Used {
    program: Program,
    /// The frames of the memory, and of each zone.
    span: u64,
    zone: u64,
    /// The records of each zone's frames, if the system has some.
    tables: Vec<Records>,
}

impl Used {
    /// Lets the elements in which a system keeps records of frames stand for those of the program's kernel. Returns the
    /// region with the lines of these, and what is used of a memory of `span` frames.
    pub(crate) fn new(
        program: Program,
        span: u64,
        mut region: Region,
        parts: &[MetadataPart],
    ) -> (Region, Self) {
        let mut tables = Vec::new();
        // Pairs of lines are those of the kernel's array.
        let mut first = region.end().0.next_multiple_of(2);
        let own = parts
            .iter()
            .filter(|part| part.what == RECORD && part.size > 0);
        for part in own.take(Region::MOST_TABLES) {
            let records = Records {
                start: part.start,
                length: part.length,
                element: part.size,
                record: program.record as usize,
                first,
            };
            if program.record > 0 {
                region = region.with_records(records);
                first += records.lines().next_multiple_of(2);
                tables.push(records);
            }
        }
        let zone = span / tables.len().max(1) as u64;
        (
            region,
            Self {
                program,
                span,
                zone,
                tables,
            },
        )
    }

    /// Notes what is used before a call.
    pub(crate) fn before(&self, cpu: &mut SimCpu) {
        if self.program.sweep > 0 {
            cpu.foreign(self.program.sweep.into(), self.program.reach);
        }
    }

    /// Waits for the loads of a call that ends, if the program does.
    pub(crate) fn after(&self, cpu: &mut SimCpu) {
        if self.program.fence {
            cpu.fence();
        }
    }

    /// Notes what is used of frames that were allocated.
    pub(crate) fn allocated(&self, cpu: &mut SimCpu, start: u32, frames: u32) {
        self.touch(cpu, start, frames);
        if self.program.zeroes > 0 {
            let lines = u64::from(frames) * u64::from(self.program.zeroes);
            cpu.foreign(lines, self.span * FRAME);
        }
    }

    /// Notes what is used of frames that will be freed.
    pub(crate) fn freed(&self, cpu: &mut SimCpu, start: u32, frames: u32) {
        self.touch(cpu, start, frames);
    }

    /// Touches the records of frames. Where the system has none, those of the kernel are lines like any others.
    fn touch(&self, cpu: &mut SimCpu, start: u32, frames: u32) {
        if !self.program.touch {
            return;
        }
        if self.tables.is_empty() {
            let record = u64::from(self.program.record.max(1));
            let lines = (u64::from(frames) * record).div_ceil(LINE as u64);
            cpu.foreign(lines, self.span * record);
            return;
        }
        for frame in u64::from(start)..u64::from(start) + u64::from(frames) {
            let zone = (frame / self.zone) as usize;
            if let Some(records) = self.tables.get(zone) {
                cpu.touch(records.line((frame % self.zone) as usize));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use everybuddy_sim::Line;

    use super::*;

    #[test]
    fn a_program_is_read_as_it_is_written() {
        let all = "zeroes=64,record=56,touch,sweep=8192/8192KiB,fence";
        let own: Program = all.parse().unwrap();
        assert_eq!(own.to_string(), all);
        assert_eq!((own.sweep, own.reach), (8192, 8 << 20));
        assert_eq!(
            "touch, record=56".parse::<Program>().unwrap().to_string(),
            "record=56,touch"
        );
        assert_eq!(Program::default().to_string(), "");
        for (wrong, named) in [
            ("", "``"),
            ("touch=1", "`touch=1`"),
            ("touch,zeroes", "`zeroes`: choose from"),
            ("zeroes=x", "`x`: a number"),
            ("record=4097", "`record=4097`: a record"),
            ("zeroes=99999999999", "`99999999999`: a number"),
            ("sweep=8", "such as sweep=8192/8MiB"),
            ("sweep=8/x", "`sweep=8/x`"),
        ] {
            let what = wrong.parse::<Program>().unwrap_err();
            assert!(what.contains(named), "{what}");
        }
    }

    #[test]
    fn records_have_lines_of_their_own_behind_the_metadata() {
        let memory = [MaybeUninit::<u8>::uninit(); 4096];
        let region = Region::of(&memory);
        let part = |what, start| MetadataPart {
            what,
            start,
            size: 8,
            length: 100,
        };
        let parts = [part("head", 0), part(RECORD, 1024), part(RECORD, 2048)];
        let program: Program = "record=56".parse().unwrap();
        let (region, used) = Used::new(program, 200, region, &parts);
        let end = region.end().0;
        let [one, other] = used.tables[..] else {
            panic!("{used:?}")
        };
        // 100 records of 56 bytes are 88 lines.
        assert_eq!((one.first % 2, other.first), (0, one.first + 88));
        assert!(one.first >= end && used.zone == 100);
        for (index, line) in [(0, 0), (1, 0), (2, 1), (99, 86)] {
            assert_eq!(one.line(index).0, one.first + line);
        }
        // A line of records is a line of the table's part.
        for line in one.first..one.first + one.lines() {
            assert!((1024 / 64..1824_u64.div_ceil(64)).contains(&region.place(Line(line)).0));
        }
        assert_eq!(region.place(Line(3)), Line(3));
        let (_, none) = Used::new(Program::default(), 200, region, &parts);
        assert!(none.tables.is_empty());
    }
}
