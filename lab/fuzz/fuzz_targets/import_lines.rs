//! Files of `scratchbook export`. An accepted file has as many lines as its counts say, and is refused if one of its
//! lines is removed or repeated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scratchbook::ErrorKind;
use scratchbook_cli::untrusted::count_lines;

/// How many lines of a file are removed and repeated, one at a time.
const PLANTED: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let counts = match count_lines(bytes) {
        Ok(counts) => counts,
        Err(error) => {
            let kinds = [ErrorKind::InvalidArgument, ErrorKind::DataCorrupted, ErrorKind::Unsupported];
            return assert!(kinds.contains(&error.kind()), "{error}");
        }
    };
    let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let total = counts.apps + counts.users + counts.puts + counts.sessions + counts.events + counts.artifacts;
    assert_eq!(total + 2, lines.len() as u64, "a header, an end, and what is counted");
    for number in 0..lines.len().min(PLANTED) {
        let (before, after) = (lines[..number].concat(), lines[number + 1..].concat());
        assert!(count_lines(&[&before[..], &after].concat()).is_err(), "line {} is missing", number + 1);
        let twice = [lines[number].trim_ascii_end(), b"\n", lines[number]].concat();
        assert!(count_lines(&[before, twice, after].concat()).is_err(), "line {} is there twice", number + 1);
    }
});
