//! Device trees in their flattened form, which firmware and boot loaders pass on ARM and RISC-V.
//!
//! The nodes of memory, the reservations of the header, and the children of `/reserved-memory` become the regions of a
//! map. A kernel also finds its CPUs, its command line and its serial line in the tree, by [`Tree::find`].
//!
//! No crate reads the trees here: dtoolkit 0.4 refuses names of more than 31 bytes, which Linux's tree of the RK3588
//! has; hermit-dtb 0.1 has no reservations, and fdt-raw 0.3 no checks of the structure.
//!
//! # Invariants
//! [`Tree::new`] checks the whole tree: every token, every name, and every address that becomes a region. So iterators
//! have no errors. Source of the format: the Devicetree Specification 0.4, chapter 5.
//!
//! # Complexity
//! A lookup reads the tree from the node on: O(bytes).

use core::fmt;

use crate::map::Region;

const MAGIC: u32 = 0xd00d_feed;
/// The version that introduced the size of the structure block. All later ones are compatible with it.
const VERSION: u32 = 17;
const HEADER_BYTES: usize = 40;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const FINISH: u32 = 9;

/// The reason why a device tree could not be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdtError {
    /// The bytes do not begin with the number that marks a flattened device tree.
    NoTree {
        /// The number at the start.
        found: u32,
    },
    /// The tree has more bytes than were passed.
    TooShort {
        /// The bytes that the header states, or those of the header itself.
        needed: u64,
        /// The bytes that were passed.
        given: usize,
    },
    /// The tree's format is older or newer than version 17.
    Version {
        /// The version of the tree.
        version: u32,
        /// The oldest version that it is compatible with.
        compatible: u32,
    },
    /// The tree is damaged.
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// The byte of the block, or of the whole tree for a field of the header.
        offset: usize,
    },
    /// The `reg` of a memory node, or of a reservation, is not a list of addresses and sizes of at most 64 bits.
    Addresses {
        /// The byte of the node in the structure block.
        offset: usize,
    },
}

impl fmt::Display for FdtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTree { found } => write!(
                f,
                "not a device tree, which begins with {MAGIC:#x}: this begins with {found:#x}"
            ),
            Self::TooShort { needed, given } => {
                write!(
                    f,
                    "the device tree has {needed} bytes, but {given} were passed"
                )
            }
            Self::Version {
                version,
                compatible,
            } => write!(
                f,
                "the device tree has version {version}, compatible with {compatible}: this reads version {VERSION}"
            ),
            Self::Damaged { what, offset } => {
                write!(f, "the device tree is damaged at byte {offset}: {what}")
            }
            Self::Addresses { offset } => write!(
                f,
                "the node at byte {offset} of the device tree has no list of addresses and sizes of at most 64 bits"
            ),
        }
    }
}

impl core::error::Error for FdtError {}

/// Returns the bytes of the tree that begins with these ones: a kernel has its address only.
///
/// # Errors
/// [`NoTree`](FdtError::NoTree).
pub fn total_bytes(start: [u8; 8]) -> Result<usize, FdtError> {
    match u64::from_be_bytes(start) {
        start if start >> 32 == u64::from(MAGIC) => Ok(start as u32 as usize),
        start => Err(FdtError::NoTree {
            found: (start >> 32) as u32,
        }),
    }
}

/// A device tree that was checked.
///
/// ```
/// use everybuddy::{FrameRange, Pfn};
/// use everybuddy_adapters::{fdt::Tree, map::usable};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/maps/qemu-riscv64.dtb");
/// # let bytes = std::fs::read(path).unwrap();
/// let tree = Tree::new(&bytes)?;
/// let mut room = [FrameRange::new(Pfn(0), 0); 8];
/// let ranges = usable(tree.regions(), &mut room)?;
/// // 64 MiB, whose first 512 KiB the firmware keeps.
/// assert_eq!(ranges, [FrameRange::new(Pfn(0x8_0080), 0x3f80)]);
/// assert_eq!(tree.find("/chosen").unwrap().text("bootargs"), Some("cpus=5"));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a> {
    structure: &'a [u8],
    strings: &'a [u8],
    /// Pairs of an address and a size, without the pair of zeros at the end.
    reservations: &'a [u8],
}

/// A part of memory that the tree reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved<'a> {
    /// The name of the node, or an empty one for a reservation of the header.
    pub name: &'a str,
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
    /// Whether the kernel may map it: it must not if the node has `no-map`, since speculative reads do harm.
    pub may_be_mapped: bool,
    /// Whether the kernel may use it until its driver wants it: for content that can be moved away then.
    pub is_reusable: bool,
}

impl<'a> Tree<'a> {
    /// Checks a tree. Bytes after its end are permitted.
    ///
    /// # Errors
    /// All of [`FdtError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, FdtError> {
        let given = bytes.len();
        let too_short = |needed| FdtError::TooShort { needed, given };
        let start = bytes.first_chunk().ok_or(too_short(HEADER_BYTES as u64))?;
        let total = total_bytes(*start)?;
        if total < HEADER_BYTES || total > given {
            return Err(too_short(total.max(HEADER_BYTES) as u64));
        }
        let bytes = &bytes[..total];
        let field = |index: usize| number(bytes, index * 4).unwrap_or(0) as usize;
        let (version, compatible) = (field(5) as u32, field(6) as u32);
        if version < VERSION || compatible > VERSION {
            return Err(FdtError::Version {
                version,
                compatible,
            });
        }
        let block = |offset: usize, size: usize, what| {
            let end = field(offset).checked_add(field(size));
            end.and_then(|end| bytes.get(field(offset)..end))
                .ok_or(FdtError::Damaged {
                    what,
                    offset: offset * 4,
                })
        };
        let tree = Self {
            structure: block(2, 9, "the structure does not lie in the tree")?,
            strings: block(3, 8, "the strings do not lie in the tree")?,
            reservations: reservations(bytes, field(4))?,
        };
        tree.check()?;
        Ok(tree)
    }

    /// Checks all tokens, and the addresses of memory.
    fn check(self) -> Result<(), FdtError> {
        let (mut at, mut depth, mut has_children) = (0, 0, false);
        loop {
            let (token, next) = self.token(at)?;
            let damaged = |what| Err(FdtError::Damaged { what, offset: at });
            match token {
                Token::Begin(_) if depth == 0 && at > 0 => return damaged("a second root"),
                Token::Begin(_) => (depth, has_children) = (depth + 1, false),
                Token::Property(..) if depth == 0 => return damaged("a property outside of nodes"),
                Token::Property(..) if has_children => return damaged("a property after a child"),
                Token::Property(..) => {}
                Token::End if depth == 0 => return damaged("the end of a node that did not begin"),
                Token::End => (depth, has_children) = (depth - 1, true),
                Token::Finish if depth > 0 || at == 0 => return damaged("a node does not end"),
                Token::Finish => break,
            }
            at = next;
        }
        let memory = self.memory().map(|node| (node, node.memory_property()));
        let reserved = self
            .reserved_nodes()
            .map(|node| (node, node.property("reg")));
        for (node, addresses) in memory.chain(reserved) {
            if addresses.is_some_and(|bytes| !node.divides(bytes)) {
                return Err(FdtError::Addresses { offset: node.body });
            }
        }
        Ok(())
    }

    /// Returns the token at a byte of the structure, and the byte after it.
    fn token(self, at: usize) -> Result<(Token<'a>, usize), FdtError> {
        let damaged = |what| FdtError::Damaged { what, offset: at };
        let mut start = at;
        while number(self.structure, start) == Some(NOP) {
            start += 4;
        }
        let kind = number(self.structure, start).ok_or(damaged("the structure has no end"))?;
        let rest = &self.structure[start + 4..];
        let (token, bytes) = match kind {
            BEGIN_NODE => {
                let name = text(rest).ok_or(damaged("a node has no name"))?;
                (Token::Begin(name), name.len() + 1)
            }
            PROPERTY => {
                let length = number(rest, 0).ok_or(damaged("a property has no length"))? as usize;
                let name = number(rest, 4).and_then(|offset| self.strings.get(offset as usize..));
                let name = name
                    .and_then(text)
                    .ok_or(damaged("a property has no name"))?;
                let value = rest.get(8..).and_then(|rest| rest.get(..length));
                let value = value.ok_or(damaged("a property has no value"))?;
                (Token::Property(name, value), 8 + length)
            }
            END_NODE => (Token::End, 0),
            FINISH => (Token::Finish, 0),
            _ => return Err(damaged("unknown token")),
        };
        Ok((token, start + 4 + bytes.next_multiple_of(4)))
    }

    /// Returns the root.
    pub fn root(&self) -> Node<'a> {
        // The name of the root is empty: its token has two words.
        let body = self.token(0).map_or(0, |(_, next)| next);
        Node {
            tree: *self,
            name: "",
            body,
            cells: Cells::DEFAULT,
        }
    }

    /// Returns the first node at a path such as `/cpus`. A name of it may leave out the address of the node.
    pub fn find(&self, path: &str) -> Option<Node<'a>> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(self.root(), |node, name| node.child(name))
    }

    /// Returns the nodes of memory that can be used.
    fn memory(self) -> impl Iterator<Item = Node<'a>> + Clone + use<'a> {
        let nodes = self.root().children();
        nodes.filter(|node| node.text("device_type") == Some("memory") && node.is_available())
    }

    fn reserved_nodes(self) -> impl Iterator<Item = Node<'a>> + Clone {
        let parent = self.find("/reserved-memory").into_iter();
        parent
            .flat_map(|parent| parent.children())
            .filter(Node::is_available)
    }

    /// Returns what the tree reserves: by its header, and by `/reserved-memory`.
    ///
    /// A node without `reg` is not among them. It asks the kernel to allocate memory of the size that it states.
    pub fn reserved(&self) -> impl Iterator<Item = Reserved<'a>> + Clone + use<'a> {
        let header = self.reservations.chunks_exact(16).map(|entry| {
            let start = wide(&entry[..8]);
            Reserved {
                name: "",
                start,
                end: start.saturating_add(wide(&entry[8..])),
                may_be_mapped: true,
                is_reusable: false,
            }
        });
        let nodes = self.reserved_nodes().flat_map(|node| {
            node.reg().map(move |(start, bytes)| Reserved {
                name: node.name,
                start,
                end: start.saturating_add(bytes),
                may_be_mapped: node.property("no-map").is_none(),
                is_reusable: node.property("reusable").is_some(),
            })
        });
        header.chain(nodes)
    }

    /// Returns the regions of the map: memory, and what is reserved in it, for [`map::usable`](crate::map::usable).
    ///
    /// The kernel adds what it knows itself: where it lies, and the tree if it reads that later.
    pub fn regions(&self) -> impl Iterator<Item = Region> + Clone + use<'a> {
        let memory = self.memory().flat_map(|node| {
            pairs(node.memory_property().unwrap_or(&[]), node.cells)
                .map(|(start, bytes)| Region::of_bytes(start, bytes, true))
        });
        let reserved = self.reserved().map(|reserved| Region {
            start: reserved.start,
            end: reserved.end,
            is_usable: false,
        });
        memory.chain(reserved)
    }
}

/// A node of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    tree: Tree<'a>,
    name: &'a str,
    /// The byte of the structure after the name.
    body: usize,
    /// Those of the parent.
    cells: Cells,
}

impl<'a> Node<'a> {
    /// Returns the name, with the address of the node.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the value of a property.
    pub fn property(&self, name: &str) -> Option<&'a [u8]> {
        let mut at = self.body;
        while let Ok((Token::Property(found, value), next)) = self.tree.token(at) {
            if found == name {
                return Some(value);
            }
            at = next;
        }
        None
    }

    /// Returns the value of a property that is a text, or the first one of a list.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.property(name).and_then(text)
    }

    /// Returns the value of a property that is a number of 32 or 64 bits.
    pub fn number(&self, name: &str) -> Option<u64> {
        let value = self.property(name)?;
        matches!(value.len(), 4 | 8).then(|| wide(value))
    }

    /// Returns the addresses and sizes of `reg`, in the cells of the parent.
    pub fn reg(&self) -> impl Iterator<Item = (u64, u64)> + Clone + use<'a> {
        pairs(self.property("reg").unwrap_or(&[]), self.cells)
    }

    /// Says whether the node's `status` permits its use.
    pub fn is_available(&self) -> bool {
        matches!(self.text("status"), None | Some("ok" | "okay"))
    }

    /// Returns the children.
    pub fn children(&self) -> impl Iterator<Item = Node<'a>> + Clone + use<'a> {
        let cells = |name, default| match self.number(name) {
            Some(cells) => u32::try_from(cells).unwrap_or(u32::MAX),
            None => default,
        };
        let cells = Cells {
            address: cells("#address-cells", Cells::DEFAULT.address),
            size: cells("#size-cells", Cells::DEFAULT.size),
        };
        Children {
            tree: self.tree,
            at: self.body,
            cells,
        }
    }

    /// Returns the first child of a name, with or without the address of the node.
    pub fn child(&self, name: &str) -> Option<Node<'a>> {
        let is_it = |node: &Node<'_>| {
            let rest = node.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
        };
        self.children().find(is_it)
    }

    /// Returns the addresses of a node of memory. Kernels replace `reg` for a kernel that they start.
    fn memory_property(&self) -> Option<&'a [u8]> {
        self.property("linux,usable-memory")
            .or(self.property("reg"))
    }

    /// Says whether a value is a list of addresses and sizes.
    fn divides(&self, value: &[u8]) -> bool {
        self.cells
            .bytes()
            .is_some_and(|bytes| value.len().is_multiple_of(bytes))
    }
}

/// The words of an address and of a size.
#[derive(Clone, Copy, Debug)]
struct Cells {
    address: u32,
    size: u32,
}

impl Cells {
    /// What holds for the children of a node that states nothing.
    const DEFAULT: Self = Self {
        address: 2,
        size: 1,
    };

    /// Returns the bytes of both, or `None` if one has more than 64 bits, or none.
    fn bytes(self) -> Option<usize> {
        let fits = |cells| (1..=2).contains(&cells);
        (fits(self.address) && fits(self.size)).then(|| (self.address + self.size) as usize * 4)
    }
}

#[derive(Clone)]
struct Children<'a> {
    tree: Tree<'a>,
    at: usize,
    cells: Cells,
}

impl<'a> Iterator for Children<'a> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        let mut child = None;
        let mut depth = 0;
        loop {
            let (token, next) = self.tree.token(self.at).ok()?;
            match token {
                Token::Begin(name) => {
                    if depth == 0 {
                        child = Some(Node {
                            tree: self.tree,
                            name,
                            body: next,
                            cells: self.cells,
                        });
                    }
                    depth += 1;
                }
                Token::Property(..) => {}
                // The end of the parent.
                Token::End | Token::Finish if depth == 0 => return None,
                Token::Finish => return None,
                Token::End => {
                    depth -= 1;
                    if depth == 0 {
                        self.at = next;
                        return child;
                    }
                }
            }
            self.at = next;
        }
    }
}

enum Token<'a> {
    Begin(&'a str),
    Property(&'a str, &'a [u8]),
    End,
    Finish,
}

/// Returns the reservations of the header, without the pair of zeros at their end.
fn reservations(bytes: &[u8], offset: usize) -> Result<&[u8], FdtError> {
    let all = bytes.get(offset..).unwrap_or(&[]);
    let count = all
        .chunks_exact(16)
        .position(|entry| entry.iter().all(|byte| *byte == 0));
    let count = count.ok_or(FdtError::Damaged {
        what: "the reservations have no end",
        offset,
    })?;
    Ok(&all[..count * 16])
}

/// Returns pairs of an address and a size, or none if the cells do not permit it.
fn pairs(value: &[u8], cells: Cells) -> impl Iterator<Item = (u64, u64)> + Clone {
    let (bytes, value) = match cells.bytes() {
        Some(bytes) => (bytes, value),
        None => (1, &[][..]),
    };
    let pair = move |pair: &[u8]| {
        let (address, size) = pair.split_at(cells.address as usize * 4);
        (wide(address), wide(size))
    };
    value.chunks_exact(bytes).map(pair)
}

/// Returns a number of at most 8 bytes, the highest one first.
fn wide(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

/// Returns the text before the first zero.
fn text(bytes: &[u8]) -> Option<&str> {
    let bytes = bytes
        .split(|byte| *byte == 0)
        .next()
        .filter(|text| text.len() < bytes.len())?;
    core::str::from_utf8(bytes).ok()
}
