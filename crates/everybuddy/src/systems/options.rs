//! What can be said about a system beside its name, and how it is written: `+key=value`.
//!
//! Why it exists: a variant is written the same way everywhere a system can be named, so no option of a
//! whole run ever changes one system.
//!
//! Invariant: what is read is written the same way.

use core::fmt;

use super::rows::Kind;
use super::spec::SpecError;
use crate::frame::Order;
use crate::lock::{Hold, Line, LockKind};
use crate::serewa::{Manager, Remnants};
use crate::structure::Kept;
use crate::zone::Select;

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
    /// `zone=one`, `zone=spaces` or `zone=domains`: who owns free frames.
    pub zone: Option<ZoneKind>,
    /// `space=SIZE`: frames of a buddy space.
    pub space: Option<u32>,
    /// `select=used` or `select=fresh`: which unassigned space is preferred.
    pub select: Option<Select>,
    /// `idle=N`: a CPU looks for idle domains after it moved N blocks, times the number of domains.
    pub idle: Option<u32>,
    /// `lock=spin` or `lock=ticket`: the kind of a zone's lock.
    pub lock: Option<LockKind>,
    /// `hold=batch`, `hold=iteration`, `hold=when-contended`: for how long it is held while a batch moves.
    pub hold: Option<Hold>,
    /// `line=own` or `line=beside`: where it lies.
    pub line: Option<Line>,
    /// `bulk=blocks` or `bulk=rows`: whether neighbours of a batch move at once.
    pub rows: Option<bool>,
    /// `reclaim=off` or `reclaim=on`: whether delayed coalescing is done before a request is refused.
    pub reclaim: Option<bool>,
    /// `lazy=RATIO`: up to which usage blocks are freed locally, in thousandths.
    pub lazy: Option<u32>,
    /// `speedup=RATIO`: above which usage a second block is freed globally, in thousandths.
    pub speedup: Option<u32>,
    /// `separate=on` or `separate=off`: whether dividing and linking are left to services.
    pub separate: Option<bool>,
    /// `manager=caller` or `manager=thread`: who answers requests.
    pub manager: Option<Manager>,
    /// `remnants=wait` or `remnants=first`: whether what waits to be divided is, before a larger block is taken.
    pub remnants: Option<Remnants>,
    /// `structure=list`, `structure=tree` or `structure=bitmap`: how the free blocks of an order are kept.
    pub structure: Option<Kept>,
    /// `division=on` or `division=off`: whether memory is divided in the beginning as statistics say.
    pub division: Option<bool>,
    /// `queue=N`: slots of each queue between services.
    pub queue: Option<u32>,
    /// `sync=ring` or `sync=semaphore`: whether each operation of such a queue is done under a binary semaphore.
    pub semaphore: Option<bool>,
    /// `list=linux` and others: what each CPU keeps, of a system that may have any list or none.
    pub list: Option<ListKind>,
    /// `debt=off` or `debt=on`: whether a call coalesces at most two blocks of a class, and owes the others.
    pub debt: Option<bool>,
}

/// What each CPU keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListKind {
    /// `list=none`: nothing.
    #[default]
    None,
    /// `list=linux`: a list as in `lbs-31`.
    Linux,
    /// `list=bypass`: a list as in `lbs-1`.
    Bypass,
    /// `list=linux-6`: lists as in `linux-6`.
    Linux6,
    /// `list=spring`: a list as in `spring`.
    Predictive,
}

impl ListKind {
    /// Returns the per-CPU layer.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::None => Kind::Bare,
            Self::Linux => Kind::LinuxBatch,
            Self::Bypass => Kind::LinuxBypass,
            Self::Linux6 => Kind::Linux6,
            Self::Predictive => Kind::Predictive,
        }
    }
}

/// Who owns free frames, under which lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneKind {
    /// `zone=one`: one zone under one lock.
    #[default]
    One,
    /// `zone=spaces`: iBuddy's spaces, a lock each.
    Spaces,
    /// `zone=domains`: Spring Buddy's domains.
    Domains,
    /// `separate=on`: one zone, whose blocks are divided and linked by services.
    Separated,
}

/// The choices of each option that has names for values.
const PERCPU: [(&str, bool); 2] = [("token", false), ("locked", true)];
const CHECK: [(&str, bool); 2] = [("on", true), ("off", false)];
const ZONE: [(&str, ZoneKind); 3] = [
    ("one", ZoneKind::One),
    ("spaces", ZoneKind::Spaces),
    ("domains", ZoneKind::Domains),
];
const SELECT: [(&str, Select); 2] = [("used", Select::Used), ("fresh", Select::Fresh)];
const LOCK: [(&str, LockKind); 2] = [("spin", LockKind::Spin), ("ticket", LockKind::Ticket)];
const LINE: [(&str, Line); 2] = [("own", Line::Own), ("beside", Line::Beside)];
const MANAGER: [(&str, Manager); 2] = [("caller", Manager::Caller), ("thread", Manager::Thread)];
const REMNANTS: [(&str, Remnants); 2] = [("wait", Remnants::Wait), ("first", Remnants::First)];
const STRUCTURE: [(&str, Kept); 3] = [
    ("list", Kept::List),
    ("tree", Kept::Tree),
    ("bitmap", Kept::Bitmap),
];
const SYNC: [(&str, bool); 2] = [("ring", false), ("semaphore", true)];
const BULK: [(&str, bool); 2] = [("blocks", false), ("rows", true)];
const LIST: [(&str, ListKind); 5] = [
    ("none", ListKind::None),
    ("linux", ListKind::Linux),
    ("bypass", ListKind::Bypass),
    ("linux-6", ListKind::Linux6),
    ("spring", ListKind::Predictive),
];
const HOLD: [(&str, Hold); 3] = [
    ("batch", Hold::Batch),
    ("iteration", Hold::Iteration),
    ("when-contended", Hold::WhenContended),
];

impl Options {
    /// Says nothing.
    pub const NONE: Options = Options {
        batch: None,
        high: None,
        order: None,
        locked: None,
        check: None,
        zone: None,
        space: None,
        select: None,
        idle: None,
        lock: None,
        hold: None,
        line: None,
        rows: None,
        reclaim: None,
        lazy: None,
        speedup: None,
        separate: None,
        manager: None,
        remnants: None,
        structure: None,
        division: None,
        queue: None,
        semaphore: None,
        list: None,
        debt: None,
    };

    /// The most frames that a list may be told to keep or move.
    const MOST: u32 = 1 << 20;

    /// The most slots that a queue may have.
    const MOST_SLOTS: u32 = 1 << 16;

    /// Takes `key=value`.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
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
            "percpu" => self.locked = choose("percpu", "`token` or `locked`", value, &PERCPU)?,
            "check" => self.check = choose("check", "`on` or `off`", value, &CHECK)?,
            "zone" => self.zone = choose("zone", "`one`, `spaces` or `domains`", value, &ZONE)?,
            "idle" => self.idle = count("idle", "a number, 1 to 1048576")?,
            "select" => self.select = choose("select", "`used` or `fresh`", value, &SELECT)?,
            "lock" => self.lock = choose("lock", "`spin` or `ticket`", value, &LOCK)?,
            "line" => self.line = choose("line", "`own` or `beside`", value, &LINE)?,
            "bulk" => self.rows = choose("bulk", "`blocks` or `rows`", value, &BULK)?,
            "reclaim" => self.reclaim = choose("reclaim", "`on` or `off`", value, &CHECK)?,
            "debt" => self.debt = choose("debt", "`on` or `off`", value, &CHECK)?,
            "lazy" => self.lazy = Some(ratio("lazy", value)?),
            "speedup" => self.speedup = Some(ratio("speedup", value)?),
            "separate" => self.separate = choose("separate", "`on` or `off`", value, &CHECK)?,
            "manager" => {
                self.manager = choose("manager", "`caller` or `thread`", value, &MANAGER)?;
            }
            "remnants" => {
                self.remnants = choose("remnants", "`wait` or `first`", value, &REMNANTS)?;
            }
            "structure" => {
                let needs = "`list`, `tree` or `bitmap`";
                self.structure = choose("structure", needs, value, &STRUCTURE)?;
            }
            "division" => self.division = choose("division", "`on` or `off`", value, &CHECK)?,
            "queue" => {
                let slots = value
                    .parse()
                    .ok()
                    .filter(|slots: &u32| slots.is_power_of_two() && *slots <= Self::MOST_SLOTS);
                let needs = "a number of areas, a power of two up to 65536";
                self.queue = Some(slots.ok_or(SpecError::BadValue {
                    key: "queue",
                    needs,
                })?);
            }
            "sync" => self.semaphore = choose("sync", "`ring` or `semaphore`", value, &SYNC)?,
            "list" => {
                let needs = "`none`, `linux`, `bypass`, `linux-6` or `spring`";
                self.list = choose("list", needs, value, &LIST)?;
            }
            "hold" => {
                let needs = "`batch`, `iteration` or `when-contended`";
                self.hold = choose("hold", needs, value, &HOLD)?;
            }
            "space" => {
                let needs = "a power of two of memory, as 4MiB or 64MiB";
                self.space = Some(space(value).ok_or(SpecError::BadValue {
                    key: "space",
                    needs,
                })?);
            }
            _ => return Err(SpecError::UnknownOption),
        }
        Ok(())
    }
}

fn choose<T: Copy>(
    key: &'static str,
    needs: &'static str,
    value: &str,
    choices: &[(&str, T)],
) -> Result<Option<T>, SpecError> {
    match choices.iter().find(|(name, _)| *name == value) {
        Some((_, choice)) => Ok(Some(*choice)),
        None => Err(SpecError::BadValue { key, needs }),
    }
}

/// Reads a ratio from 0 to 1/2, in thousandths.
fn ratio(key: &'static str, text: &str) -> Result<u32, SpecError> {
    let value = match text {
        "1/2" => Ok(0.5),
        other => other.parse::<f64>(),
    };
    match value {
        Ok(ratio) if (0.0..=0.5).contains(&ratio) => Ok((ratio * 1000.0 + 0.5) as u32),
        _ => Err(SpecError::BadValue {
            key,
            needs: "a ratio from 0 to 0.5",
        }),
    }
}

/// Writes an option that is a ratio.
fn write_ratio(f: &mut fmt::Formatter<'_>, key: &str, thousandths: Option<u32>) -> fmt::Result {
    match thousandths {
        Some(thousandths) => write!(f, "+{key}={}", f64::from(thousandths) / 1000.0),
        None => Ok(()),
    }
}

/// Returns the name of a choice.
fn name_of<T: PartialEq>(choice: &T, choices: &[(&'static str, T)]) -> &'static str {
    let found = choices.iter().find(|(_, own)| own == choice);
    found.map_or("", |(name, _)| name)
}

/// Units of a space's size, in frames of 4 KiB.
const UNITS: [(&str, u32); 3] = [("KiB", 0), ("MiB", 1 << 8), ("GiB", 1 << 18)];

/// Reads the size of a space: frames, a power of two.
fn space(text: &str) -> Option<u32> {
    let (unit, frames) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
    let frames = match frames {
        // A frame is 4 KiB.
        0 if number.is_multiple_of(4) => number / 4,
        0 => return None,
        frames => number.checked_mul(*frames)?,
    };
    (frames.is_power_of_two() && frames <= 1 << 24).then_some(frames)
}

/// `+key=value` for everything that is said.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options {
            batch,
            high,
            order,
            locked,
            check,
            zone,
            space,
            select,
            idle,
            lock,
            hold,
            line,
            rows,
            reclaim,
            lazy,
            speedup,
            separate,
            manager,
            remnants,
            structure,
            division,
            queue,
            semaphore,
            list,
            debt,
        } = *self;
        if let Some(list) = list {
            write!(f, "+list={}", name_of(&list, &LIST))?;
        }
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
            write!(f, "+percpu={}", name_of(&locked, &PERCPU))?;
        }
        if let Some(check) = check {
            write!(f, "+check={}", name_of(&check, &CHECK))?;
        }
        if let Some(zone) = zone {
            write!(f, "+zone={}", name_of(&zone, &ZONE))?;
        }
        if let Some(frames) = space {
            f.write_str("+space=")?;
            write_space(f, frames)?;
        }
        if let Some(select) = select {
            write!(f, "+select={}", name_of(&select, &SELECT))?;
        }
        if let Some(idle) = idle {
            write!(f, "+idle={idle}")?;
        }
        if let Some(lock) = lock {
            write!(f, "+lock={}", name_of(&lock, &LOCK))?;
        }
        if let Some(hold) = hold {
            write!(f, "+hold={}", name_of(&hold, &HOLD))?;
        }
        if let Some(line) = line {
            write!(f, "+line={}", name_of(&line, &LINE))?;
        }
        if let Some(rows) = rows {
            write!(f, "+bulk={}", name_of(&rows, &BULK))?;
        }
        if let Some(reclaim) = reclaim {
            write!(f, "+reclaim={}", name_of(&reclaim, &CHECK))?;
        }
        if let Some(debt) = debt {
            write!(f, "+debt={}", name_of(&debt, &CHECK))?;
        }
        write_ratio(f, "lazy", lazy)?;
        write_ratio(f, "speedup", speedup)?;
        if let Some(separate) = separate {
            write!(f, "+separate={}", name_of(&separate, &CHECK))?;
        }
        if let Some(manager) = manager {
            write!(f, "+manager={}", name_of(&manager, &MANAGER))?;
        }
        if let Some(remnants) = remnants {
            write!(f, "+remnants={}", name_of(&remnants, &REMNANTS))?;
        }
        if let Some(structure) = structure {
            write!(f, "+structure={}", name_of(&structure, &STRUCTURE))?;
        }
        if let Some(division) = division {
            write!(f, "+division={}", name_of(&division, &CHECK))?;
        }
        if let Some(queue) = queue {
            write!(f, "+queue={queue}")?;
        }
        if let Some(semaphore) = semaphore {
            write!(f, "+sync={}", name_of(&semaphore, &SYNC))?;
        }
        Ok(())
    }
}

/// Writes the size of a space in the largest unit that fits.
pub(super) fn write_space(f: &mut fmt::Formatter<'_>, frames: u32) -> fmt::Result {
    let fits = |unit: &&(&str, u32)| unit.1 > 0 && frames.is_multiple_of(unit.1);
    match UNITS.iter().rev().find(fits) {
        Some((unit, size)) => write!(f, "{}{unit}", frames / size),
        None => write!(f, "{}KiB", frames * 4),
    }
}
