//! The limit on open files of this process. Each connection is an open file.

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::LimitArgs;

/// Files for other purposes: the database and its pools, the listener, and connections that wait to be accepted.
const RESERVE: u64 = 192;

/// Raises the limit on open files as far as possible. Returns how many connections fit, but not more than requested.
pub(super) fn room_for_connections(args: &LimitArgs) -> usize {
    let asked = args.max_connections.get();
    let Some(files) = raise() else { return asked };
    let room = room(files, args.max_runs.get());
    if room >= asked {
        return asked;
    }
    tracing::info!(
        connections = room,
        asked,
        files,
        "fewer connections than requested: the number of open files is limited"
    );
    room
}

/// Returns how many connections fit into this many open files. Each run may have a connection to its model.
fn room(files: u64, runs: usize) -> usize {
    let reserve = RESERVE + u64::try_from(runs).unwrap_or(u64::MAX).min(files / 4);
    let room = files - reserve.min(files / 2);
    usize::try_from(room.max(1)).unwrap_or(usize::MAX)
}

/// Raises the limit, and returns the new one, if there is any.
#[cfg(unix)]
fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit on open files cannot be raised");
            current
        }
    }
}

#[cfg(not(unix))]
fn raise() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        for (files, runs, connections) in [
            (1_048_576, 1000, 1_047_384),
            (4096, 1000, 2904),
            (1024, 1000, 576),
            (1024, 1, 831),
            (64, 1000, 32),
            (1, 1, 1),
        ] {
            assert_eq!(room(files, runs), connections, "{files} files, {runs} runs");
        }
    }
}
