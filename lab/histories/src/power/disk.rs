//! Computes what a disk has after a power cut, from a record.
//!
//! The model: a write is durable when its file was synced after it. The name of a file (its creation, removal or
//! renaming) is durable when the folder was synced after it. Of all other writes, any part may be there: the first
//! writes and some sectors of the next one, or any sectors of any writes. If several writes changed a sector, it may
//! have the content after any of these writes. A sector of 512 bytes is written whole or not at all, and bytes around a
//! write keep their values. A file that has grown may have any content where nothing was written.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::{fs, io};

use super::record::{FileOperation, RecordedOperation};

/// The unit in which a disk writes.
const SECTOR: usize = 512;

/// Which syncs a disk ignores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Honesty {
    /// The disk ignores no sync.
    #[default]
    Honest,
    /// Syncs of files do nothing.
    IgnoresFileSyncs,
    /// Syncs of the folder do nothing.
    IgnoresFolderSyncs,
}

/// What was not durable when the power was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostWrites {
    /// Writes that are whole.
    pub kept: usize,
    /// Writes of which some sectors or bytes are there.
    pub torn: usize,
    /// Writes that are gone.
    pub lost: usize,
    /// Creations and removals of files that did not happen.
    pub names: usize,
}

/// The files of a folder, on a disk that has a cache.
#[derive(Debug, Default)]
pub struct Disk {
    honesty: Honesty,
    files: Vec<StoredFile>,
    /// The file that each inode belongs to now.
    inodes: HashMap<u64, usize>,
    /// The names as the programs see them.
    names: BTreeMap<String, usize>,
    /// The names as they are on the disk.
    durable_names: BTreeMap<String, usize>,
    /// Changes of names that were not synced. A change may change two names, and happens as a whole or not at all.
    changes: Vec<Vec<(String, Option<usize>)>>,
}

/// A file, whatever its names.
#[derive(Debug, Default)]
struct StoredFile {
    durable: Vec<u8>,
    pending: Vec<FileChange>,
}

#[derive(Debug)]
enum FileChange {
    Write { offset: usize, data: Vec<u8> },
    Truncate(usize),
}

impl Disk {
    /// Returns the disk that has the files of a folder, all of them durable.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn of(folder: &Path, honesty: Honesty) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let mut disk = Self { honesty, ..Self::default() };
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let number = disk.add(fs::metadata(&path)?.ino(), fs::read(&path)?);
            disk.names.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), number);
        }
        disk.durable_names.clone_from(&disk.names);
        Ok(disk)
    }

    fn add(&mut self, inode: u64, durable: Vec<u8>) -> usize {
        self.files.push(StoredFile { durable, pending: Vec::new() });
        self.inodes.insert(inode, self.files.len() - 1);
        self.files.len() - 1
    }

    /// Applies an operation of a program.
    ///
    /// # Errors
    ///
    /// The operation is on a file that the disk does not have, so the record is incomplete.
    pub fn apply(&mut self, entry: &RecordedOperation) -> Result<(), String> {
        let inode = entry.inode;
        match &entry.operation {
            FileOperation::Create(name) => {
                let linked = self.inodes.get(&inode).copied().filter(|file| self.names.values().any(|it| it == file));
                let file = linked.unwrap_or_else(|| self.add(inode, Vec::new()));
                self.rename(vec![(name.clone(), Some(file))]);
            }
            FileOperation::Remove(name) => self.rename(vec![(name.clone(), None)]),
            FileOperation::Rename(old, new) => {
                let file = self.names.get(old).copied();
                self.rename(vec![(old.clone(), None), (new.clone(), file)]);
            }
            FileOperation::Write { offset, data } => {
                let (offset, data) = (*offset, data.clone());
                self.file(inode)?.pending.push(FileChange::Write { offset, data });
            }
            FileOperation::Truncate(length) => self.file(inode)?.pending.push(FileChange::Truncate(*length)),
            FileOperation::Sync if self.honesty == Honesty::IgnoresFileSyncs => {}
            FileOperation::Sync => self.file(inode)?.sync(),
            FileOperation::SyncFolder if self.honesty == Honesty::IgnoresFolderSyncs => {}
            FileOperation::SyncFolder => {
                self.durable_names.clone_from(&self.names);
                self.changes.clear();
            }
            FileOperation::Print(_) => {}
        }
        Ok(())
    }

    fn file(&mut self, inode: u64) -> Result<&mut StoredFile, String> {
        let file = self.inodes.get(&inode).and_then(|file| self.files.get_mut(*file));
        file.ok_or_else(|| format!("the record has no file with the inode {inode}"))
    }

    fn rename(&mut self, change: Vec<(String, Option<usize>)>) {
        apply_names(&mut self.names, &change);
        self.changes.push(change);
    }

    /// Returns the files as the programs see them.
    #[must_use]
    pub fn seen(&self) -> BTreeMap<String, Vec<u8>> {
        self.names.iter().map(|(name, file)| (name.clone(), self.files[*file].all())).collect()
    }

    /// Cuts the power. Returns the files that the disk has then, and what was lost.
    #[must_use]
    pub fn cut(&self, random: &mut fastrand::Rng) -> (BTreeMap<String, Vec<u8>>, LostWrites) {
        let mut loss = LostWrites::default();
        let mut names = self.durable_names.clone();
        let kept = KeptChanges::choose(random, self.changes.len());
        for (number, change) in self.changes.iter().enumerate() {
            if kept.has(number, random) {
                apply_names(&mut names, change);
            } else {
                loss.names += 1;
            }
        }
        let files = names.into_iter().map(|(name, file)| (name, self.files[file].after_cut(random, &mut loss)));
        (files.collect(), loss)
    }
}

fn apply_names(names: &mut BTreeMap<String, usize>, change: &[(String, Option<usize>)]) {
    for (name, file) in change {
        match file {
            Some(file) => names.insert(name.clone(), *file),
            None => names.remove(name),
        };
    }
}

/// Which of several pending changes are kept.
#[derive(Clone, Copy, Debug)]
enum KeptChanges {
    All,
    None,
    /// The first ones.
    First(usize),
    /// Each change with this probability.
    Each(f64),
}

impl KeptChanges {
    fn choose(random: &mut fastrand::Rng, count: usize) -> Self {
        match random.u8(..8) {
            0 => Self::All,
            1 => Self::None,
            2..5 => Self::First(random.usize(..=count)),
            _ => Self::Each(random.choice([0.1, 0.5, 0.9, 0.99]).unwrap_or(0.5)),
        }
    }

    fn has(self, number: usize, random: &mut fastrand::Rng) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::First(count) => number < count,
            Self::Each(probability) => random.f64() < probability,
        }
    }
}

impl StoredFile {
    fn sync(&mut self) {
        let mut durable = std::mem::take(&mut self.durable);
        self.pending.drain(..).for_each(|change| change.apply(&mut durable));
        self.durable = durable;
    }

    /// Returns the content as the programs see it.
    fn all(&self) -> Vec<u8> {
        let mut content = self.durable.clone();
        self.pending.iter().for_each(|change| change.apply(&mut content));
        content
    }

    fn after_cut(&self, random: &mut fastrand::Rng, loss: &mut LostWrites) -> Vec<u8> {
        match KeptChanges::choose(random, self.pending.len()) {
            KeptChanges::All => {
                loss.kept += writes_in(&self.pending);
                self.all()
            }
            KeptChanges::None => {
                loss.lost += writes_in(&self.pending);
                self.durable.clone()
            }
            KeptChanges::First(count) => self.first(count, random, loss),
            KeptChanges::Each(probability) => self.sectors(probability, random, loss),
        }
    }

    /// Keeps the first changes, and the first sectors of the next one.
    fn first(&self, count: usize, random: &mut fastrand::Rng, loss: &mut LostWrites) -> Vec<u8> {
        let mut content = self.durable.clone();
        let (kept, rest) = self.pending.split_at(count);
        kept.iter().for_each(|change| change.apply(&mut content));
        (loss.kept, loss.lost) = (loss.kept + writes_in(kept), loss.lost + writes_in(rest));
        if let Some(FileChange::Write { offset, data }) = rest.first() {
            let end = (offset + random.usize(..=data.len())) / SECTOR * SECTOR;
            let there = end.saturating_sub(*offset);
            write(&mut content, *offset, &data[..there]);
            loss.lost -= 1;
            loss.count(there, data.len());
        }
        content
    }

    /// Gives each sector the content that it had after one of the writes to it: with this probability after the newest
    /// write, otherwise after any of them. If a truncation is lost, all later writes are lost, too.
    fn sectors(&self, probability: f64, random: &mut fastrand::Rng, loss: &mut LostWrites) -> Vec<u8> {
        let mut content = self.durable.clone();
        let mut rest = &self.pending[..];
        while let Some(length) = rest.iter().position(|change| matches!(change, FileChange::Truncate(_))) {
            sectors_of(&rest[..length], &mut content, probability, random, loss);
            rest = &rest[length..];
            if random.f64() > probability {
                loss.lost += writes_in(rest);
                return content;
            }
            rest[0].apply(&mut content);
            rest = &rest[1..];
        }
        sectors_of(rest, &mut content, probability, random, loss);
        content
    }
}

fn writes_in(changes: &[FileChange]) -> usize {
    changes.iter().filter(|change| matches!(change, FileChange::Write { .. })).count()
}

/// Writes some sectors of these writes.
fn sectors_of(
    writes: &[FileChange],
    content: &mut Vec<u8>,
    probability: f64,
    random: &mut fastrand::Rng,
    loss: &mut LostWrites,
) {
    // How many of the writes to a sector are kept.
    let mut kept = HashMap::<usize, usize>::new();
    for (_, sector, _) in pieces(writes) {
        *kept.entry(sector).or_default() += 1;
    }
    let mut sectors: Vec<_> = kept.iter_mut().collect();
    sectors.sort_unstable();
    for (_, count) in sectors {
        if random.f64() > probability {
            *count = random.usize(..=*count);
        }
    }
    let old = content.len();
    // The file has the length after any one of the writes.
    let lengths: Vec<_> = writes.iter().map(FileChange::end).collect();
    let length = lengths[..random.usize(..=lengths.len())].iter().copied().max().unwrap_or(0).max(old);
    content.resize(length, 0);
    if random.bool() {
        content[old..].fill_with(|| random.u8(..));
    }
    let mut there = vec![0; writes.len()];
    for (number, sector, bytes) in pieces(writes) {
        let FileChange::Write { offset, data } = &writes[number] else { continue };
        let Some(left) = kept.get_mut(&sector).filter(|left| **left > 0) else { continue };
        *left -= 1;
        let end = bytes.end.min(length);
        if bytes.start < end {
            content[bytes.start..end].copy_from_slice(&data[bytes.start - offset..end - offset]);
            there[number] += end - bytes.start;
        }
    }
    writes.iter().zip(there).for_each(|(write, there)| loss.count(there, write.data_length()));
}

/// Splits writes into parts that are in one sector each. Returns the number of the write, the number of the sector, and
/// the range of bytes in the file.
fn pieces(writes: &[FileChange]) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    writes.iter().enumerate().flat_map(|(number, change)| {
        let (start, end) = match change {
            FileChange::Write { offset, data } => (*offset, offset + data.len()),
            FileChange::Truncate(_) => (0, 0),
        };
        let sectors = start / SECTOR..end.div_ceil(SECTOR);
        sectors.map(move |sector| (number, sector, start.max(sector * SECTOR)..end.min((sector + 1) * SECTOR)))
    })
}

impl FileChange {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => write(content, *offset, data),
            Self::Truncate(length) => content.resize(*length, 0),
        }
    }

    /// Returns the minimum length of a file after this change.
    fn end(&self) -> usize {
        match self {
            Self::Write { offset, data } => offset + data.len(),
            Self::Truncate(length) => *length,
        }
    }

    fn data_length(&self) -> usize {
        match self {
            Self::Write { data, .. } => data.len(),
            Self::Truncate(_) => 0,
        }
    }
}

fn write(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}

impl LostWrites {
    /// Adds another loss.
    pub fn add(&mut self, other: Self) {
        self.kept += other.kept;
        self.torn += other.torn;
        self.lost += other.lost;
        self.names += other.names;
    }

    /// Counts a write, of which `there` of `all` bytes are there.
    fn count(&mut self, there: usize, all: usize) {
        match there {
            0 => self.lost += 1,
            _ if there == all => self.kept += 1,
            _ => self.torn += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INODE: u64 = 7;

    fn disk(honesty: Honesty, operations: Vec<FileOperation>) -> Disk {
        let mut disk = Disk { honesty, ..Disk::default() };
        for operation in operations {
            disk.apply(&RecordedOperation { inode: INODE, operation }).unwrap();
        }
        disk
    }

    fn created() -> FileOperation {
        FileOperation::Create("a".to_owned())
    }

    fn written(offset: usize, byte: u8, length: usize) -> FileOperation {
        FileOperation::Write { offset, data: vec![byte; length] }
    }

    /// Cuts the power many times, and returns what the disk then has.
    fn after_cuts(disk: &Disk) -> Vec<Option<Vec<u8>>> {
        let mut random = fastrand::Rng::with_seed(1);
        (0..500).map(|_| disk.cut(&mut random).0.remove("a")).collect()
    }

    #[test]
    fn what_was_synced_is_there() {
        let synced = || vec![created(), written(0, 1, 2_000), FileOperation::Sync, FileOperation::SyncFolder];
        for content in after_cuts(&disk(Honesty::Honest, synced())) {
            assert_eq!(content.unwrap(), [1; 2_000]);
        }
        let contents = after_cuts(&disk(Honesty::IgnoresFileSyncs, synced()));
        assert!(contents.iter().all(Option::is_some) && contents.iter().flatten().any(|content| content.is_empty()));
        let contents = after_cuts(&disk(Honesty::IgnoresFolderSyncs, synced()));
        assert!(contents.contains(&None) && contents.iter().flatten().all(|content| *content == [1; 2_000]));
    }

    #[test]
    fn sectors_of_what_was_not_synced_are_there_or_not() {
        let operations = vec![created(), written(0, 1, 2_048), FileOperation::Sync, FileOperation::SyncFolder];
        let more = [written(100, 2, 1_500), written(1_000, 3, 100)];
        let contents = after_cuts(&disk(Honesty::Honest, operations.into_iter().chain(more).collect()));
        for content in contents.iter().flatten() {
            assert_eq!((content.len(), &content[..100], &content[1_600..]), (2_048, &[1; 100][..], &[1; 448][..]));
            let first = &content[100..512];
            assert!(*first == [1; 412] || *first == [2; 412], "a sector is written whole or not at all");
            assert_eq!(content[1_020] == 3, content[1_000] == 3);
        }
        let has = |is: fn(&[u8]) -> bool| contents.iter().flatten().any(|content| is(content));
        assert!(has(|content| content[100] == 1 && content[600] == 2), "any sectors, not only the first");
        assert!(has(|content| content[600] == 2 && content[1_000] == 2), "a sector as an earlier write left it");
        assert!(has(|content| content[100] == 2 && content[1_000] == 3), "all of it");
    }

    #[test]
    fn a_name_that_was_not_synced_may_be_lost_or_come_back() {
        let contents = after_cuts(&disk(Honesty::Honest, vec![created(), written(0, 1, 512), FileOperation::Sync]));
        assert!(contents.contains(&None) && contents.contains(&Some(vec![1; 512])));
        let removed = vec![created(), FileOperation::SyncFolder, FileOperation::Remove("a".to_owned())];
        let contents = after_cuts(&disk(Honesty::Honest, removed));
        assert!(contents.contains(&None) && contents.contains(&Some(Vec::new())));
    }
}
