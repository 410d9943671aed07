//! Rows of measurements in files that may be packed with gzip.
//!
//! Rows repeat their words: packed, they need a thirtieth of the space. A reader need not know whether a file is
//! packed, nor whether the rows of several runs are in one file or in a folder with a file for each.
//!
//! # Invariants
//! The first bytes of a file decide whether it is packed, and not its name. A file that was cut off or changed is an
//! error. So is one that unpacks to more than 1 GiB.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// How packed files begin.
const MAGIC: [u8; 2] = [0x1F, 0x8B];

/// The most bytes that a packed file may unpack to. The packed file may be a thousand times smaller.
const MOST: u64 = 1 << 30;

/// The names of files with rows end so.
const ENDINGS: [&str; 2] = [".jsonl", ".jsonl.gz"];

/// Returns the text of a file, unpacked if it is packed with gzip. The file may be a pipe. Of a folder, returns the
/// lines of all its files that end in `.jsonl` or `.jsonl.gz`, in the order of their names.
///
/// # Errors
/// Fails if a file cannot be read, if it is packed and damaged, if it unpacks to more than 1 GiB, if it is not text in
/// UTF-8, or if a folder has no such file.
pub fn read(path: &Path) -> io::Result<String> {
    if !path.is_dir() {
        return text(File::open(path)?, MOST);
    }
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let names = entries.into_iter().map(|entry| entry.file_name());
    let is_of_rows = |name: &str| ENDINGS.iter().any(|ending| name.ends_with(ending));
    let mut names: Vec<_> = names
        .filter(|name| is_of_rows(&name.to_string_lossy()))
        .collect();
    if names.is_empty() {
        let what = "the folder has no file that ends in .jsonl or .jsonl.gz";
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    names.sort();
    let mut joined = String::new();
    for name in names {
        let own = File::open(path.join(&name)).and_then(|file| text(file, MOST));
        let own = own.map_err(|cause| {
            io::Error::new(cause.kind(), format!("{}: {cause}", name.display()))
        })?;
        joined += &own;
        if !own.is_empty() && !own.ends_with('\n') {
            joined.push('\n');
        }
    }
    Ok(joined)
}

fn text(mut reader: impl Read, most: u64) -> io::Result<String> {
    let mut head = Vec::new();
    reader
        .by_ref()
        .take(MAGIC.len() as u64)
        .read_to_end(&mut head)?;
    let is_packed = head == MAGIC;
    let mut reader = Cursor::new(head).chain(reader);
    let mut text = String::new();
    if !is_packed {
        reader.read_to_string(&mut text)?;
        return Ok(text);
    }
    let mut bytes = Vec::new();
    let unpacked = MultiGzDecoder::new(reader)
        .take(most + 1)
        .read_to_end(&mut bytes);
    unpacked.map_err(|cause| {
        let what = format!("it is packed with gzip and damaged: {cause}");
        io::Error::new(cause.kind(), what)
    })?;
    if bytes.len() as u64 > most {
        let what = format!("it is packed with gzip, and longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    bytes.as_slice().read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn text_is_read_packed_or_not() {
        for own in ["", "a", "\u{1F}", "rows\nof a run\n"] {
            let own = own.as_bytes();
            let read = |bytes: &[u8]| text(bytes, 100).expect("text").into_bytes();
            assert_eq!(read(own), own);
            assert_eq!(read(&packed(own)), own);
            let joined = [packed(own), packed(b"more")].concat();
            assert_eq!(read(&joined), [own, b"more"].concat());
        }
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || read(folder.path()).map_err(|error| error.to_string());
        assert!(read().expect_err("it is empty").contains(".jsonl.gz"));
        let files: [(&str, &[u8]); 4] = [
            ("b.jsonl.gz", &packed(b"2\n3\n")),
            ("a.jsonl", b"1"),
            ("c.jsonl", b""),
            ("d.txt", b"not a row\n"),
        ];
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).expect("a file");
        }
        assert_eq!(read().as_deref(), Ok("1\n2\n3\n"));
        fs::write(folder.path().join("c.jsonl"), MAGIC).expect("a file");
        assert!(read().expect_err("it is cut off").starts_with("c.jsonl: "));
    }

    #[test]
    fn every_damage_of_a_packed_file_is_an_error() {
        let whole = packed(b"a row\nanother row\n");
        for length in MAGIC.len()..whole.len() {
            let error = text(&whole[..length], 100).expect_err("it is cut off");
            assert!(error.to_string().contains("damaged"), "{length}: {error}");
        }
        for at in whole.len() - 8..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            text(changed.as_slice(), 100).expect_err("its sum or its length is wrong");
        }
        text([whole.as_slice(), b"x"].concat().as_slice(), 100).expect_err("something follows");
        text(packed(b"\xFF").as_slice(), 100).expect_err("it is not text");
    }

    #[test]
    fn a_small_file_does_not_fill_the_memory() {
        let bytes = packed(&[b' '; 101]);
        assert!(text(bytes.as_slice(), 101).is_ok());
        let error = text(bytes.as_slice(), 100).expect_err("it is too long");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
