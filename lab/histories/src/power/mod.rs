//! Simulates power cuts: what a SQLite database has if the disk forgets what was not synced.
//!
//! Processes write to a database while everything that they do to its folder is recorded ([`record`]). The record is
//! then cut at many places. For each place, a model of a disk computes files that may be there after a power cut
//! ([`disk`]), and the database is opened from them and checked: against what the processes had acknowledged until
//! then, and against the order of all their commits. The next processes continue with the files of one of these cuts.

mod append;
mod check;
pub mod disk;
pub mod record;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{fmt, fs, io};

use scratchbook::store::Synchronous;

pub use self::append::Work;
use self::check::{Acknowledged, DatabaseContents, check, found_in};
use self::disk::{Disk, Honesty, LostWrites};
use self::record::{FileOperation, OperationRecorder, RecordedOperation};
use crate::faults::FaultError;

/// The head of a table whose rows are an [`Attack`] and its [`PowerOutcome`].
pub const HEAD: &str = "| synchronous, processes | disk | cuts of operations | unsynced writes kept / torn / lost / names \
                        lost | acknowledged | lost | deletions | lost, text left | copies | violations |\n\
                        |---|---|---|---|---|---|---|---|---|---|";

/// How many places of one record are cut.
const CUTS: usize = 10;

/// How many records follow each other on one database.
const RECORDS: usize = 3;

/// About how many events the processes of one record append.
const EVENTS: usize = 320;

/// The name of the database.
const DATABASE: &str = "agents.db";

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// When the commit is on the disk: `synchronous=full`, the default.
    Full,
    /// When the commit is in the log, which is not synced: `synchronous=normal`.
    Normal,
}

impl From<Durability> for Synchronous {
    fn from(setting: Durability) -> Self {
        match setting {
            Durability::Full => Self::Full,
            Durability::Normal => Self::Normal,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Full { "full" } else { "normal" })
    }
}

/// Power cuts with one setting.
#[derive(Debug)]
pub struct Attack<'a> {
    /// The command `histories`, which also does the work that is recorded.
    pub program: &'a Path,
    /// When a commit is acknowledged.
    pub setting: Durability,
    /// How many processes write at the same time.
    pub processes: usize,
    /// Which syncs the disk ignores.
    pub honesty: Honesty,
    /// How often the power is cut.
    pub cuts: usize,
    /// The seed of everything random except the order in which threads run.
    pub seed: u64,
    /// Where the files of a cut with a violation are kept.
    pub folder: Option<&'a Path>,
}

/// What power cuts have shown.
#[derive(Clone, Debug, Default)]
pub struct PowerOutcome {
    /// How often the power was cut.
    pub cuts: usize,
    /// Operations that were recorded.
    pub operations: usize,
    /// Events that had been acknowledged, summed up over the cuts.
    pub acknowledged: usize,
    /// Acknowledged events that were missing.
    pub lost: usize,
    /// The maximum number of these events after one cut.
    pub most_lost: usize,
    /// Copies of the database that had been acknowledged, summed up over the cuts.
    pub copies: usize,
    /// Sessions whose deletion had been acknowledged, summed up over the cuts.
    pub deletions: usize,
    /// Acknowledged deletions that were missing.
    pub deletions_lost: usize,
    /// Acknowledged deletions whose text was still in a file, although nothing reads it there.
    pub traces: usize,
    /// What the disk forgot.
    pub loss: LostWrites,
    /// What no database may show.
    pub violations: Vec<String>,
}

impl fmt::Display for Attack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let disk = match self.honesty {
            Honesty::Honest => "honest",
            Honesty::IgnoresFileSyncs => "ignores syncs of files",
            Honesty::IgnoresFolderSyncs => "ignores syncs of the folder",
        };
        write!(f, "| {}, {} | {disk} ", self.setting, self.processes)
    }
}

impl fmt::Display for PowerOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostWrites { kept, torn, lost, names } = self.loss;
        write!(f, "| {} of {} ", self.cuts, self.operations)?;
        write!(f, "| {kept} / {torn} / {lost} / {names} ")?;
        write!(f, "| {} | {}, {} at most ", self.acknowledged, self.lost, self.most_lost)?;
        write!(f, "| {} | {}, {} ", self.deletions, self.deletions_lost, self.traces)?;
        write!(f, "| {} | {} |", self.copies, self.violations.len())
    }
}

/// The files with which the processes of a record begin.
#[derive(Debug, Default)]
struct Beginning {
    files: FileContents,
    /// How many events are in the files. These events are on the disk, so no later power cut may lose them.
    events: usize,
}

/// Files by name.
type FileContents = BTreeMap<String, Vec<u8>>;

impl Attack<'_> {
    /// Cuts the power again and again.
    ///
    /// # Errors
    ///
    /// The work cannot be recorded, or the record is incomplete.
    pub async fn run(&self) -> Result<PowerOutcome, FaultError> {
        let recorder = OperationRecorder::compile()?;
        let mut random = fastrand::Rng::with_seed(self.seed);
        let (mut outcome, mut beginning) = (PowerOutcome::default(), Beginning::default());
        for number in 0.. {
            if outcome.cuts == self.cuts {
                break;
            }
            // If a disk forgets what was synced, the next processes cannot use its files.
            if number % RECORDS == 0 || self.honesty != Honesty::Honest {
                beginning = Beginning::default();
            }
            beginning = self.record(&recorder, number, beginning, &mut random, &mut outcome).await?;
        }
        Ok(outcome)
    }

    /// Records processes, and cuts the record. Returns what the last cut has left.
    async fn record(
        &self,
        recorder: &OperationRecorder,
        number: usize,
        beginning: Beginning,
        random: &mut fastrand::Rng,
        outcome: &mut PowerOutcome,
    ) -> Result<Beginning, FaultError> {
        let folder = tempfile::tempdir()?;
        let live = folder.path().join("live");
        write(&beginning.files, &live)?;
        let (mut disk, whole) = (Disk::of(&live, self.honesty)?, Disk::of(&live, self.honesty)?);
        let commands = (0..self.processes).map(|process| self.command(&live, number, process, random.u64(..)));
        let entries = recorder.run(&live, commands.collect())?;
        outcome.operations += entries.len();
        compare(whole, &entries, &live)?;
        let whole = found_in(&live.join(DATABASE), self.setting).await?;
        let (mut acknowledged, mut done, mut last) = (Acknowledged::default(), 0, Beginning::default());
        acknowledged.at_least = beginning.events;
        for cut in cuts(&entries, CUTS.min(self.cuts - outcome.cuts), random) {
            for entry in &entries[done..cut] {
                disk.apply(entry)?;
                if let FileOperation::Print(text) = &entry.operation {
                    acknowledged.add(text);
                }
            }
            done = cut;
            let (files, loss) = disk.cut(random);
            outcome.loss.add(loss);
            let path = folder.path().join("cut");
            write(&files, &path)?;
            let before = outcome.violations.len();
            let events = self.check(&path, &whole, &acknowledged, outcome).await;
            let name = format!("record {number} of seed {}, cut after {cut} of {}", self.seed, entries.len());
            outcome.violations[before..].iter_mut().for_each(|violation| *violation = format!("{name}: {violation}"));
            if let Some(kept) = self.folder.filter(|_| outcome.violations.len() > before) {
                write(&files, &kept.join(format!("{}-{number}-{cut}", self.seed)))?;
            }
            fs::remove_dir_all(path)?;
            last = Beginning { files, events };
        }
        last.files.retain(|name, _| name.starts_with(DATABASE));
        Ok(last)
    }

    fn command(&self, live: &Path, number: usize, process: usize, seed: u64) -> Command {
        let mut command = Command::new(self.program);
        command.arg("append").arg(live.join(DATABASE));
        command.arg("--setting").arg(self.setting.to_string());
        command.arg("--events").arg((EVENTS / self.processes).to_string());
        command.arg("--name").arg(format!("{number}-{process}")).arg("--seed").arg(seed.to_string());
        command
    }

    /// Checks what a cut has left, and returns how many events it has.
    async fn check(
        &self,
        folder: &Path,
        whole: &DatabaseContents,
        acknowledged: &Acknowledged,
        outcome: &mut PowerOutcome,
    ) -> usize {
        let path = folder.join(DATABASE);
        let (found, missing) = check(&path, self.setting, whole, acknowledged, &mut outcome.violations).await;
        outcome.cuts += 1;
        outcome.acknowledged += acknowledged.events.len();
        outcome.lost += missing.events;
        outcome.most_lost = outcome.most_lost.max(missing.events);
        outcome.copies += acknowledged.copies.len();
        outcome.deletions += acknowledged.deleted.len();
        outcome.deletions_lost += missing.deletions;
        outcome.traces += missing.traces;
        found.events.len()
    }
}

/// Fails if the recorded files differ from the files in the folder. In this case, the record lacks an operation.
fn compare(mut disk: Disk, entries: &[RecordedOperation], folder: &Path) -> Result<(), FaultError> {
    entries.iter().try_for_each(|entry| disk.apply(entry))?;
    let mut recorded = disk.seen();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let recorded = recorded.remove(&name).ok_or_else(|| format!("the record lacks the file {name}"))?;
        // Memory that processes share: SQLite writes it without the file system, and the first process to open the
        // database creates it.
        if !name.ends_with("-shm") && recorded != fs::read(&path)? {
            return Err(format!("the record of {name} lacks something").into());
        }
    }
    match recorded.keys().next() {
        None => Ok(()),
        Some(name) => Err(format!("the record has the file {name}, which is not there").into()),
    }
}

/// Chooses places to cut a record, in their order: half of them anywhere, the others at its beginning or near an
/// operation that is rare.
fn cuts(entries: &[RecordedOperation], count: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let is_rare = |entry: &RecordedOperation| {
        !matches!(entry.operation, FileOperation::Write { .. } | FileOperation::Sync | FileOperation::Print(_))
    };
    let rare: Vec<_> = (0..entries.len()).filter(|number| is_rare(&entries[*number])).collect();
    let mut cuts: Vec<_> = (0..count)
        .map(|_| match random.u8(..4) {
            0 => random.usize(..=entries.len().min(100)),
            1 => random.choice(&rare).map_or(0, |number| (number + random.usize(..4)).saturating_sub(1)),
            _ => random.usize(..=entries.len()),
        })
        .map(|cut| cut.min(entries.len()))
        .collect();
    cuts.sort_unstable();
    cuts
}

fn write(files: &FileContents, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    files.iter().try_for_each(|(name, content)| fs::write(folder.join(name), content))
}
