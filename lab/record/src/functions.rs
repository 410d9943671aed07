//! Functions of the kernel that acquire a zone's lock.
//!
//! `lock:contention_begin` contains only the address of the lock. The innermost caller that is not part of a lock or of
//! the tracer itself tells whose lock it is.
//!
//! # Invariants
//! A name that is not listed here is another function: then a wait is left out and counted, never attributed wrongly.

/// What a function says about a lock that it waits for.
///
/// If several symbols have the same address, the largest decides: linkers put labels where functions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Function {
    /// It is something else.
    Other,
    /// It is part of locks or of the tracer: its caller decides.
    Lock,
    /// It is part of the page allocator, and the lock is that of a zone: a position in the list of such functions.
    Allocator(u8),
}

/// Beginnings of the names of functions that are part of locks, or of the tracer.
const LOCKS: &str = "\
    trace_ __traceiter_ __bpf_trace_ __ftrace_ ftrace_ event_trigger perf_trace_ stacktrace_ __pv_ pv_ kvm_ \
    native_queued_ queued_ resilient_ __raw_callee_ _raw_spin_ __raw_spin_ do_raw_spin_ spin_ zone_lock \
    __zone_lock __raw_call";

/// Functions that acquire a zone's lock, or into which compilers inline one that does, in Linux 4.18 to 6.18. The lock
/// of a per-CPU list, which some of them also acquire, is only tried there, and never waited for.
const ALLOCATOR: &str = "\
    rmqueue rmqueue_bulk rmqueue_buddy rmqueue_pcplist __rmqueue_pcplist get_page_from_freelist \
    __alloc_pages_direct_compact free_pcppages_bulk free_one_page __free_one_page __free_pages_ok __free_pages \
    __free_frozen_pages ___free_pages free_unref_page free_unref_page_commit free_unref_page_list \
    free_unref_folios free_frozen_page_commit free_frozen_pages free_frozen_pages_nolock drain_pages_zone \
    drain_zone_pages decay_pcp_high reserve_highatomic_pageblock unreserve_highatomic_pageblock split_free_page";

impl Function {
    /// Returns what a function of this name says. A compiler's suffix, as in `free_unref_page.part.0`, does not matter.
    pub(crate) fn named(name: &str) -> Function {
        let name = name.split('.').next().unwrap_or(name);
        let mut allocator = (0..).zip(ALLOCATOR.split(' '));
        if let Some((at, _)) = allocator.find(|(_, own)| *own == name) {
            Function::Allocator(at)
        } else if LOCKS.split(' ').any(|begin| name.starts_with(begin)) {
            Function::Lock
        } else {
            Function::Other
        }
    }

    /// Returns the name of a function of the page allocator; `None` for every other function.
    pub(crate) fn allocator(self) -> Option<&'static str> {
        match self {
            Function::Allocator(at) => ALLOCATOR.split(' ').nth(usize::from(at)),
            _ => None,
        }
    }
}

/// A line of `/proc/kallsyms` or of a `System.map`: `ffffffff81000000 t name`, and a module in brackets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol<'a> {
    pub(crate) address: u64,
    kind: &'a str,
    name: &'a str,
    is_of_module: bool,
}

impl Symbol<'_> {
    /// Parses a line.
    pub(crate) fn parse(line: &str) -> Option<Symbol<'_>> {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next().filter(|kind| kind.len() == 1)?;
        Some(Symbol {
            address,
            kind,
            name: words.next()?,
            is_of_module: words.next().is_some(),
        })
    }
}

/// The functions of a kernel, by address. The default value is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// The first address of each run of functions of one kind.
    starts: Vec<(u64, Function)>,
    /// The addresses of the symbols from which the load address of a recorded kernel is computed.
    references: Vec<(String, u64)>,
}

impl Functions {
    /// Parses `/proc/kallsyms`. Addresses are 0 for users who may not know them: then no function is known.
    pub(crate) fn parse(kallsyms: &str) -> Functions {
        let mut functions = Functions::default();
        let symbols = kallsyms.lines().filter_map(Symbol::parse);
        symbols.for_each(|symbol| functions.add(&symbol));
        functions.sorted()
    }

    /// Adds a symbol. Ignores symbols that are not functions.
    pub(crate) fn add(&mut self, symbol: &Symbol<'_>) {
        if symbol.address == 0 || !matches!(symbol.kind, "t" | "T" | "w" | "W") {
            return;
        }
        if matches!(symbol.name, "_text" | "_stext") {
            let reference = (symbol.name.to_string(), symbol.address);
            self.references.push(reference);
        }
        let function = match Function::named(symbol.name) {
            // The page allocator is not a module.
            Function::Allocator(_) if symbol.is_of_module => Function::Other,
            function => function,
        };
        self.starts.push((symbol.address, function));
    }

    /// Sorts the functions by address. Call it after the last symbol.
    pub(crate) fn sorted(mut self) -> Functions {
        self.starts.sort_unstable();
        self.starts.dedup_by(|next, own| next.1 == own.1);
        self
    }

    /// Returns `true` if no function of the page allocator is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.starts
            .iter()
            .all(|(_, function)| function.allocator().is_none())
    }

    /// Returns the address of `_text` or `_stext`. Returns `None` if the list lacks the symbol.
    pub(crate) fn reference(&self, name: &str) -> Option<u64> {
        let mut references = self.references.iter();
        references
            .find(|(own, _)| own == name)
            .map(|(_, address)| *address)
    }

    /// Returns the function to which a call returns at an address. The last symbol has no end: in complete lists it is
    /// another function, such as `_etext`.
    pub(crate) fn at(&self, address: u64) -> Function {
        // The last instruction of a function may be a call: the address then belongs to the next one.
        let after = self.starts.partition_point(|(start, _)| *start < address);
        match after.checked_sub(1) {
            Some(place) => self.starts[place].1,
            None => Function::Other,
        }
    }
}

/// Returns the function that waits for a lock, from its callers, the innermost first. Returns `None` while all of them
/// are part of the lock.
pub(crate) fn waiting(mut callers: impl Iterator<Item = Function>) -> Option<Function> {
    callers.find(|function| *function != Function::Lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_caller_outside_of_the_lock_decides() {
        let chain = |names: &[&str]| {
            let waiting = waiting(names.iter().map(|name| Function::named(name)));
            waiting.map(|function| function.allocator())
        };
        let (tracer, lock) = (
            "trace_event_raw_event_contention_end",
            "_raw_spin_lock_irqsave",
        );
        assert_eq!(chain(&[tracer, lock]), None);
        for (name, expected) in [
            ("free_pcppages_bulk", Some("free_pcppages_bulk")),
            (
                "get_page_from_freelist.isra.0",
                Some("get_page_from_freelist"),
            ),
            ("folio_lruvec_lock_irqsave", None),
            ("try_to_wake_up", None),
            ("resilient_queued_spin_lock_slowpath", Some("rmqueue_bulk")),
        ] {
            let names = [tracer, lock, name, "rmqueue_bulk"];
            assert_eq!(chain(&names), Some(expected), "{name}");
        }
    }

    #[test]
    fn addresses_belong_to_the_function_before_them() {
        let functions = Functions::parse(
            "ffffffff81000300 T rmqueue_bulk\nffffffff81000100 t _raw_spin_lock\n\
             ffffffff81000200 t other\nffffffff81000250 d rmqueue\nffffffff81000400 T next\nnonsense\n",
        );
        assert!(!functions.is_empty());
        let at = |low: u64| functions.at(0xffff_ffff_8100_0000 + low);
        assert_eq!(at(0x100), Function::Other);
        assert_eq!(at(0x101), Function::Lock);
        assert_eq!(at(0x260), Function::Other, "data is not code");
        // A call that is the last instruction of `rmqueue_bulk` returns to the start of `next`.
        assert_eq!(at(0x400).allocator(), Some("rmqueue_bulk"));
        assert_eq!(at(0x401), Function::Other);
        // The label of a section, before and after the function at the same address.
        let [label, lock] = ["T __lock_text_start", "T _raw_spin_lock"];
        for (first, second) in [(label, lock), (lock, label)] {
            let list = format!("1000 T other\n2000 {first}\n2000 {second}\n3000 T rmqueue_bulk\n");
            let functions = Functions::parse(&list);
            let kinds = [0x2000, 0x2010, 0x3001].map(|address| functions.at(address));
            let bulk = Function::named("rmqueue_bulk");
            assert_eq!(kinds, [Function::Other, Function::Lock, bulk]);
        }
        let module = "ffffffffa0000000 t rmqueue_bulk\t[other]\n";
        assert!(Functions::parse(module).is_empty());
        let hidden = Functions::parse("0000000000000000 T rmqueue_bulk\n");
        assert!(hidden.is_empty());
        assert_eq!(hidden.at(5), Function::Other);
    }
}
