//! Requests: which zones, nodes and classes serve one, and what zones withhold from it.
//!
//! The first line of a report has the flags of a request. What a zone withholds depends on the highest zone that the
//! request may use.
//!
//! # Invariants
//! Where the input permits several numbers, the one that withholds the most is used.

use crate::state::{Event, MigrateType, State, Zone, ZoneKind};

/// How urgent a request is: the kernel lets it use a part of the watermark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// It leaves the watermark.
    #[default]
    Ordinary,
    /// It uses a half (`__GFP_HIGH`).
    High,
    /// It uses five eighths (`GFP_ATOMIC`).
    Atomic,
}

/// Which requests are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The memory can be moved later, as that of processes and huge pages: CMA serves such requests.
    pub is_movable: bool,
    /// The request may use no zone above this one, so the reserve of this zone does not apply to it.
    pub is_for_zone: bool,
    /// The highest zone that the request may use.
    pub highest: ZoneKind,
    /// How urgent it is.
    pub urgency: Urgency,
    /// It may use blocks of the class HighAtomic.
    pub is_high_atomic: bool,
}

impl Request {
    /// A request for the memory of processes and huge pages, which all zones serve.
    pub const MOVABLE: Request = Request {
        is_movable: true,
        is_for_zone: false,
        highest: ZoneKind::Movable,
        urgency: Urgency::Ordinary,
        is_high_atomic: false,
    };

    /// Returns the request whose answers are shown for a zone: an ordinary one, if its frames are unknown or if it
    /// serves such requests.
    #[must_use]
    pub fn shown(zone: &Zone) -> Request {
        if zone.windows.is_some() && !Request::default().may_use(zone) {
            Request::MOVABLE
        } else {
            Request::default()
        }
    }

    /// Returns the request of a report: `0xcc1(GFP_KERNEL|GFP_DMA)`, or the number alone before Linux 4.6. The lowest
    /// four bits name the zone in all versions.
    #[must_use]
    pub fn of_event(event: &Event) -> Request {
        let flags = event.flags.as_deref().unwrap_or_default();
        let (number, names) = flags.split_once('(').unwrap_or((flags, ""));
        let digits = number.trim_start_matches("0x");
        let bits = u64::from_str_radix(digits, 16).unwrap_or(0);
        let has = |bit: u64| bits & bit != 0;
        let is_named = |name: &str| names.split(['|', ')']).any(|own| own == name);
        let highest = match () {
            () if has(1) => ZoneKind::Dma,
            () if has(4) => ZoneKind::Dma32,
            () if has(2) && has(8) => ZoneKind::Movable,
            () if has(2) => ZoneKind::HighMem,
            () => ZoneKind::Normal,
        };
        // Without names, the bits are those of Linux before 4.6: a request that may wait has one of the two last ones.
        let is_unnamed_high = names.is_empty() && has(0x20);
        let is_atomic = is_named("GFP_ATOMIC") || is_named("__GFP_ATOMIC");
        let urgency = match () {
            () if is_atomic || is_unnamed_high && !has(0x10 | 0x40_0000) => Urgency::Atomic,
            () if is_named("__GFP_HIGH") || is_unnamed_high => Urgency::High,
            () => Urgency::Ordinary,
        };
        Request {
            is_movable: has(8),
            is_for_zone: false,
            highest,
            urgency,
            // Single frames come from the CPUs' lists, which have none of this class.
            is_high_atomic: urgency == Urgency::Atomic && event.order > Some(0),
        }
    }

    /// Returns `true` if a zone serves such requests.
    #[must_use]
    pub fn may_use(self, zone: &Zone) -> bool {
        self.is_for_zone || zone.kind().is_none_or(|kind| kind <= self.highest)
    }

    /// Returns `true` if blocks of a class serve such requests.
    #[must_use]
    pub fn may_use_class(self, name: &MigrateType) -> bool {
        match name {
            MigrateType::Cma => self.is_movable,
            MigrateType::HighAtomic => self.is_high_atomic,
            name => name.is_general(),
        }
    }

    /// Returns the frames below which a zone refuses the request, without its reserves.
    pub(crate) fn watermark(self, min: u64) -> u64 {
        match self.urgency {
            Urgency::Ordinary => min,
            Urgency::High => min - min / 2,
            Urgency::Atomic => min - min / 2 - (min - min / 2) / 4,
        }
    }

    /// Returns the frames that a zone keeps from the request, because a higher zone could serve it. `None` if the input
    /// does not tell.
    #[must_use]
    pub fn reserve(self, state: &State, zone: &Zone) -> Option<u64> {
        let reserves = &zone.lowmem_reserve;
        let Some(last) = reserves.last().copied().filter(|_| !self.is_for_zone) else {
            // The kernel states no reserve of its highest zone that differs from 0.
            let kind = zone.kind().unwrap_or_default();
            let is_highest = kind >= ZoneKind::Normal && self.higher(state, zone) == 0;
            return (self.is_for_zone || is_highest).then_some(0);
        };
        let columns = layouts(state, reserves.len()).into_iter().map(|layout| {
            let kind = match self.highest {
                kind if has(layout, kind) => kind,
                ZoneKind::Movable if has(layout, ZoneKind::HighMem) => ZoneKind::HighMem,
                _ => ZoneKind::Normal,
            };
            column(layout, kind)
        });
        let values = columns.filter_map(|column| reserves.get(column).copied());
        Some(values.max().unwrap_or(last))
    }

    /// Returns the number of zones above one, on its node, that the request may use.
    fn higher(self, state: &State, zone: &Zone) -> usize {
        let higher = state.zones.iter().filter(|other| {
            other.extent.node == zone.extent.node
                && other.kind() > zone.kind()
                && other.extent.managed != Some(0)
                && self.may_use(other)
        });
        higher.count()
    }

    /// Returns `true` if a zone that may serve the request is missing: each zone with memory adds to the reserves of
    /// those below it.
    pub(crate) fn lacks_zone(self, state: &State, zone: &Zone) -> bool {
        let reserve = self.reserve(state, zone).unwrap_or(0);
        let mut steps = zone.lowmem_reserve.clone();
        steps.retain(|step| (1..=reserve).contains(step));
        steps.dedup();
        steps.len() > self.higher(state, zone)
    }

    /// Returns the frames of the zones that are missing from a report and may serve the request: a report ends with the
    /// frames of all zones.
    pub(crate) fn missing_frames(self, state: &State) -> u64 {
        let listed = |is_high: bool| -> Option<u64> {
            let is_part = |zone: &&Zone| !is_high || zone.kind() > Some(ZoneKind::Normal);
            let mut zones = state.zones.iter().filter(is_part);
            zones.try_fold(0u64, |sum, zone| {
                Some(sum.saturating_add(zone.extent.present?))
            })
        };
        let missing = |all: Option<u64>, is_high| {
            all.zip(listed(is_high))
                .map_or(0, |(all, listed)| all.saturating_sub(listed))
        };
        let all = missing(state.ram, false);
        if self.highest > ZoneKind::Normal {
            return all;
        }
        all.saturating_sub(missing(state.high, true))
    }
}

fn has(layout: u8, kind: ZoneKind) -> bool {
    layout >> kind as u8 & 1 == 1
}

/// Returns the position of a zone in a kernel's list of zones.
fn column(layout: u8, kind: ZoneKind) -> usize {
    (layout & ((1 << kind as u8) - 1)).count_ones() as usize
}

/// Returns the sets of zones that the kernel may have been built with, a bit for each.
///
/// Reports list the zones that have memory only, so that the others follow from the number of reserves. A zone has no
/// reserve against itself and those below it. No kernel has both `HighMem` and a zone of 64-bit machines.
fn layouts(state: &State, columns: usize) -> Vec<u8> {
    const HIGH: u8 = 1 << ZoneKind::HighMem as u8;
    const WIDE: u8 = 1 << ZoneKind::Dma32 as u8 | 1 << ZoneKind::Device as u8;
    let mut named = 1 << ZoneKind::Normal as u8;
    if state.high.is_some_and(|frames| frames > 0) {
        named |= HIGH;
    }
    let mut zeros = [columns; ZoneKind::ALL.len()];
    for zone in &state.zones {
        let Some(kind) = zone.kind() else {
            continue;
        };
        named |= 1 << kind as u8;
        if zone.lowmem_reserve.len() == columns {
            let leading = zone.lowmem_reserve.iter().take_while(|value| **value == 0);
            let zeros = &mut zeros[kind as usize];
            *zeros = (*zeros).min(leading.count());
        }
    }
    let fits = |layout: &u8| {
        let is_mixed = layout & HIGH != 0 && layout & WIDE != 0;
        let is_right =
            |kind: ZoneKind| !has(*layout, kind) || column(*layout, kind) < zeros[kind as usize];
        layout.count_ones() as usize == columns
            && layout & named == named
            && !(is_mixed && layout & (HIGH | WIDE) & !named != 0)
            && ZoneKind::ALL.into_iter().all(is_right)
    };
    let mut layouts: Vec<u8> = (0..1 << ZoneKind::ALL.len()).filter(fits).collect();
    // Kernels since 2.6.23 have the zone `Movable`.
    if layouts.iter().any(|layout| has(*layout, ZoneKind::Movable)) {
        layouts.retain(|layout| has(*layout, ZoneKind::Movable));
    }
    layouts
}
