//! Replays the seeds and the former failures of fuzzing, on any compiler.

use std::path::Path;

#[test]
fn inputs_of_fuzzing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checks/fuzz/corpus/memory");
    let mut inputs = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        everybuddy_memory::fuzz_checks::text(&std::fs::read(path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0);
}
