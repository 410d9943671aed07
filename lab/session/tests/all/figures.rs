//! The walk-throughs of the papers, step by step, against what their text says.

use everybuddy_session::scripts::{Script, scripts};
use everybuddy_session::{Kind, Picture, Piece, Session};

fn script(name: &str) -> Script {
    scripts().find(|script| script.name == name).unwrap()
}

/// Runs a script to its end. Returns the picture before the first step, and those after each.
fn run(name: &str, system: &str) -> Vec<Picture> {
    let script = script(name);
    let mut session = Session::open(system, script.frames, script.order).unwrap();
    for step in script.before() {
        session.apply(&step);
    }
    let mut pictures = vec![session.picture(String::new())];
    for step in script.steps() {
        pictures.push(session.apply(&step));
        session.check().unwrap();
    }
    pictures
}

/// Returns the lists of orders 0 to 3.
fn lists(picture: &Picture) -> [Vec<u32>; 4] {
    std::array::from_fn(|order| {
        let lists = picture.lists.iter();
        let own = lists.filter(|list| usize::from(list.order) == order);
        own.flat_map(|list| list.heads.clone()).collect()
    })
}

/// Returns the first frame of each slot.
fn starts(picture: &Picture) -> Vec<Option<u32>> {
    let slots = picture.slots.iter();
    slots.map(|slot| slot.map(|(start, _)| start)).collect()
}

/// Returns the numbers of locally and globally free blocks of order 0, of which `total` exist.
fn class(picture: &Picture, total: u32) -> (u32, u32) {
    let class = picture
        .classes
        .iter()
        .find(|class| class.order == 0)
        .unwrap();
    assert_eq!(class.total, total);
    assert_eq!(class.slack, class.total - 2 * class.local - class.global);
    (class.local, class.global)
}

#[test]
fn ibuddy_figures_5_and_6_of_the_standard_buddy() {
    let pictures = run("ibuddy-6", "bs");
    assert_eq!(lists(&pictures[0]), [vec![11], vec![8], vec![], vec![0]]);
    assert_eq!(starts(&pictures[1])[16..], [Some(11)], "found at level 0");
    assert!(pictures[1].why.ends_with("Nothing is split."));
    assert_eq!(starts(&pictures[2])[17..], [Some(8)]);
    assert!(pictures[2].why.ends_with("A block of order 1 is split."));
    assert_eq!(lists(&pictures[2]), [vec![9], vec![], vec![], vec![0]]);
}

#[test]
fn ibuddy_figures_5_and_6_of_ibuddy() {
    let pictures = run("ibuddy-6", "is");
    let singles = vec![1, 3, 5, 7, 9, 11];
    assert_eq!(
        lists(&pictures[0]),
        [singles.clone(), vec![2, 6, 8], vec![4], vec![0]]
    );
    assert_eq!(
        starts(&pictures[2])[16..],
        [Some(0), Some(4)],
        "the highest levels serve"
    );
    assert_eq!(
        lists(&pictures[2]),
        [singles, vec![2, 6, 8], vec![], vec![]]
    );
    // "The buddy system has two buddy groups while iBuddy has six" (3.2).
    assert_eq!(pictures[2].free, [3, 3]);
    assert!(
        pictures[1..]
            .iter()
            .all(|picture| picture.why.ends_with("Nothing is split."))
    );
}

#[test]
fn ibuddy_figure_7() {
    let standard = run("ibuddy-7", "bs");
    assert_eq!(lists(&standard[1]), [vec![], vec![], vec![8], vec![0]]);
    assert!(
        standard[1]
            .why
            .ends_with("Buddies of order 0 and 1 are coalesced.")
    );
    let inverse = run("ibuddy-7", "is");
    let (before, after) = (lists(&inverse[0]), lists(&inverse[1]));
    // "The only change that has occurred is at level 2."
    assert_eq!(after[2], [10, 4]);
    assert_eq!((&after[..2], &after[3]), (&before[..2], &before[3]));
    // Section 3.1.3: each of frames 0 to 7 is deleted from its list.
    assert_eq!(inverse[2].slots[16], Some((0, 8)));
    assert_eq!(lists(&inverse[2]), [vec![9, 11], vec![8], vec![10], vec![]]);
}

#[test]
fn spring_figure_5() {
    let pictures = run("spring-5", "spring-core");
    assert_eq!(
        (pictures[0].domains, pictures[1].domains),
        (1, 1),
        "a: one domain serves CPU 0"
    );
    // b and c: CPU 1 waits as a ghost. d and e: it gets a part. f and g: both are put back.
    let why = &pictures[2].why;
    assert!(
        why.contains("A domain is divided for the CPU that waits."),
        "{why}"
    );
    assert!(why.contains("it waits as a ghost"), "{why}");
    assert_eq!(pictures[2].domains, 2);
    assert_ne!(pictures[2].cpus[0].parts, pictures[2].cpus[1].parts);
    // In the standard buddy, CPU 1 waits for the lock.
    assert!(run("spring-5", "bs")[2].why.contains("so it waits."));
    // "Subsequent concurrent requests can be handled without the above extension operations."
    assert_eq!(pictures[3].domains, 2);
    assert!(!pictures[3].why.contains("ghost") && !pictures[3].why.contains("divided"));
    // Frames go into any domain: the block of CPU 0 is now in the domain of CPU 1.
    let (frame, _) = pictures[3].slots[0].unwrap();
    let mut pieces = pictures[4].pieces.iter();
    let covers = |piece: &&Piece| (piece.start..piece.start + piece.frames).contains(&frame);
    let freed = pieces.find(covers).unwrap();
    assert_eq!(freed.kind, Kind::Free);
    assert_eq!([freed.part], pictures[4].cpus[1].parts[..]);
}

#[test]
fn spring_figure_6() {
    let pictures = run("spring-6", "spring-core");
    assert_eq!(pictures[0].domains, 2);
    let last = pictures.last().unwrap();
    assert_eq!(last.domains, 1, "the two domains are merged");
    assert!(
        pictures
            .iter()
            .any(|picture| picture.why.contains("Two domains are merged."))
    );
    // All frames are free; what was separate has coalesced.
    assert_eq!(last.free, [0, 0, 0, 8]);
    assert_ne!(pictures[0].free, last.free);
}

#[test]
fn spring_figure_7() {
    let drains = |system: &str| {
        let pictures = run("spring-7", system);
        pictures[..17]
            .iter()
            .filter(|picture| picture.why.contains("its list.") && picture.why.contains("leave"))
            .count()
    };
    let (spring, fixed) = (drains("spring"), drains("fixlazy-186"));
    assert!(
        spring < fixed,
        "{spring} and {fixed} global interactions during a run of frees"
    );
}

#[test]
fn barkley_and_lee_figure_2() {
    let states: Vec<_> = run("delay-2", "delay-2")
        .iter()
        .map(|picture| class(picture, 6))
        .collect();
    assert_eq!(
        states,
        [
            (0, 0),
            (1, 0),
            (2, 0),
            (3, 0),
            (2, 2),
            (1, 2),
            (0, 2),
            (0, 1),
            (1, 1)
        ]
    );
}

#[test]
fn serewa_figure_1() {
    let pictures = run("serewa-1", "serewa");
    let kinds = |picture: &Picture, kind: Kind| {
        let pieces = picture.pieces.iter().filter(|piece| piece.kind == kind);
        pieces.map(|piece| piece.frames).sum::<u32>()
    };
    // The request is answered, and the rest of the block is processed separately.
    assert_eq!(pictures[1].slots[0].unwrap().1, 5);
    assert_eq!(kinds(&pictures[1], Kind::Dividing), 32 - 5);
    assert_eq!(kinds(&pictures[4], Kind::Dividing), 0, "dividing is done");
    // A free is an entry in the linking queue.
    assert_eq!(kinds(&pictures[6], Kind::Linking), 5);
    let last = pictures.last().unwrap();
    assert_eq!(kinds(last, Kind::Linking) + kinds(last, Kind::Dividing), 0);
    assert_eq!(last.free.last(), Some(&2), "all is linked: {last:?}");
}

#[test]
fn every_script_ends_on_every_system() {
    for script in scripts() {
        for system in everybuddy_session::systems::names() {
            for picture in run(script.name, system) {
                let at = format!("{} on {system}: {picture:?}", script.name);
                let covered: u32 = picture.pieces.iter().map(|piece| piece.frames).sum();
                assert_eq!(covered, script.frames, "{at}");
                assert!(
                    picture.pieces.iter().all(|piece| piece.kind != Kind::Other),
                    "{at}"
                );
                for (slot, held) in picture.slots.iter().enumerate() {
                    let Some((start, frames)) = *held else {
                        continue;
                    };
                    let shown = picture.pieces.iter().find(|piece| piece.start == start);
                    let shown = shown.unwrap_or_else(|| panic!("slot {slot} of {at}"));
                    assert_eq!(shown.frames, frames, "{at}");
                    assert!(
                        matches!(shown.kind, Kind::Allocated(of, _) if of == slot),
                        "{at}"
                    );
                }
            }
        }
    }
}
