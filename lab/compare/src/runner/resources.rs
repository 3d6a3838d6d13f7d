//! Measures bytes on the disk and in memory, and how long a start takes.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use scratchbook::{CreateSessionConfig, GetSessionConfig, SessionServiceExt};
use scratchbook_compare::protocol::{CellRequest, Measurement};

use crate::events::{APP, event, events};
use crate::failure::{CellFailure, Result};
use crate::measure::LatencyClock;
use crate::processor;
use crate::store::{BenchStore, uri};

/// The minimum number of events in memory when the memory is measured.
const IN_MEMORY: u64 = 10_000;

/// Measures the bytes on the disk for each event of a session, in a separate database.
pub(crate) fn size_on_disk(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let path = bench.folder().join(format!("size-{}-{}", request.size, request.round));
    let location = match bench.store.as_str() {
        "sqlite" => {
            fs::create_dir_all(&path)?;
            path.display().to_string()
        }
        "postgres" => bench.location.clone(),
        _ => return Err(CellFailure::Unsupported("the store has nothing on the disk".to_owned())),
    };
    let started = Instant::now();
    let bytes = bench.runtime.block_on(async {
        // Closing the store writes its log into the file.
        let uri = uri(&bench.store, &location)?;
        scratchbook::connect(&uri).await?.sessions.close().await?;
        let before = bytes_of(&bench.store, &location).await?;
        let store = scratchbook::connect(&uri).await?;
        let id = format!("size-{}-{}", request.size, request.round);
        let config = CreateSessionConfig::default().with_session_id(id);
        let mut session = store.sessions.create_session(APP, "user-0", config).await?;
        for n in 0..usize::try_from(request.size)? {
            store.sessions.append_event(&mut session, event(n)?).await?;
            if started.elapsed().as_secs() > 50 {
                let seconds = 50 * request.size / (n as u64 + 1);
                return Err(CellFailure::Unsupported(format!("to append {} events takes {seconds} s", request.size)));
            }
        }
        store.sessions.close().await?;
        Ok((bytes_of(&bench.store, &location).await? - before).max(0.0))
    })?;
    let (operations, seconds) = (request.size, started.elapsed().as_secs_f64());
    Ok(Measurement { operations, seconds, bytes: Some(bytes / request.size as f64), ..Measurement::default() })
}

async fn bytes_of(store: &str, location: &str) -> Result<f64> {
    if store == "postgres" {
        let client = crate::limits::connect(location).await?;
        let row = client.query_one("SELECT pg_database_size(current_database())", &[]).await?;
        return Ok(row.try_get::<_, i64>(0)? as f64);
    }
    let mut bytes = 0;
    for entry in fs::read_dir(location)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64)
}

/// Measures the resident memory for each event of sessions that the store in memory or the caller holds.
pub(crate) fn memory(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let count = (IN_MEMORY / request.size.max(1)).max(1);
    bench.runtime.block_on(async {
        let no_memory = || CellFailure::Unsupported("this system does not show the memory of a process".to_owned());
        let started = Instant::now();
        let before = processor::resident_bytes().ok_or_else(no_memory)?;
        let mut held = Vec::new();
        for n in 0..count {
            let id = format!("memory-{}-{}-{n}", request.size, request.round);
            let config = CreateSessionConfig::default().with_session_id(id).with_events(events(request.size)?);
            let key = bench.sessions.create_session(APP, "user-0", config).await?.key().clone();
            held.push(bench.sessions.get_session(&key, &GetSessionConfig::default()).await?);
        }
        let bytes = (processor::resident_bytes().ok_or_else(no_memory)? - before).max(0.0);
        let operations = count * request.size;
        let note = Some(format!("{count} sessions, {:.0} bytes a session", bytes / count as f64));
        drop(held);
        let seconds = started.elapsed().as_secs_f64();
        Ok(Measurement { operations, seconds, bytes: Some(bytes / operations as f64), note, ..Measurement::default() })
    })
}

/// Measures processes that open the store, create a session and end.
pub(crate) fn cold_start(bench: &BenchStore, request: &CellRequest) -> Result<Measurement> {
    let program = std::env::current_exe()?;
    // A separate process opens its own file, as a command would.
    let folder = bench.folder().join("cold");
    let location = match bench.store.as_str() {
        "sqlite" => {
            fs::create_dir_all(&folder)?;
            folder.display().to_string()
        }
        _ => bench.location.clone(),
    };
    let mut clock = LatencyClock::start(None);
    while clock.elapsed().as_secs_f64() < request.seconds {
        let started = Instant::now();
        let mut command = Command::new(&program);
        let status = command.args(["cold", &bench.store, &location]).stdout(Stdio::null()).status()?;
        if !status.success() {
            return Err(CellFailure::new(format!("a start ended with {status}")));
        }
        clock.add_one(started.elapsed());
    }
    Ok(clock.measured())
}
