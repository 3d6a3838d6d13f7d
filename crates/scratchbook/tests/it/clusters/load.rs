//! Processes that write to a database, and which appends were acknowledged.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use scratchbook::connect;
use serde_json::json;

use super::writer;
use crate::database::create;

/// The maximum time that a process may go without a write when a server has died and another has to take over.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many of the appends write to one key of the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppKeyLoad {
    /// Every fourth append does.
    Some,
    /// Every append does.
    Hot,
}

/// The acknowledgements of all processes together.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements {
    /// The number of each event that was acknowledged, by its id.
    pub(super) acknowledged: BTreeMap<String, u64>,
    /// The times of the acknowledgements, in microseconds since 1970.
    times: Vec<u64>,
    /// The number of acknowledgements of each process.
    counts: Vec<usize>,
    /// How often a call ended without an answer and was repeated.
    pub(super) failures: usize,
}

/// Processes that write.
pub(super) struct WriterProcesses {
    children: Vec<(Child, ChildStdin, JoinHandle<bool>)>,
    told: Arc<Mutex<Acknowledgements>>,
}

impl WriterProcesses {
    /// Creates the tables and the sessions that all processes write to, and starts a process for each URI.
    pub(super) async fn start(uris: &[String], keys: AppKeyLoad) -> Self {
        let service = connect(&uris[0]).await.unwrap().sessions;
        for session in writer::SHARED {
            create(service.as_ref(), session, json!({})).await;
        }
        service.close().await.unwrap();
        let told =
            Arc::new(Mutex::new(Acknowledgements { counts: vec![0; uris.len()], ..Acknowledgements::default() }));
        let start = |(process, uri): (usize, &String)| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["clusters::writer::a_child_writes_until_its_input_ends", "--exact", "--nocapture"]);
            child.env(writer::URI, uri).env(writer::PROCESS, process.to_string());
            child.env(writer::KEYS, if keys == AppKeyLoad::Hot { "hot" } else { "some" });
            let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let told = Arc::clone(&told);
            let reader = thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.filter(|line| told.lock().unwrap().read(process, line)).count() == 1
            });
            (child, input, reader)
        };
        let children = uris.iter().enumerate().map(start).collect();
        Self { children, told }
    }

    /// Waits until each process has had this many more appends acknowledged.
    pub(super) fn wait_for(&self, more: usize) {
        let begun = self.told.lock().unwrap().counts.clone();
        let start = Instant::now();
        loop {
            let now = self.told.lock().unwrap().counts.clone();
            if begun.iter().zip(&now).all(|(begun, now)| now - begun >= more) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "from {begun:?} appends only to {now:?} in {PATIENCE:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// How many appends were acknowledged so far.
    pub(super) fn count(&self) -> usize {
        self.told.lock().unwrap().times.len()
    }

    /// Lets the processes finish what they have begun, and returns their acknowledgements.
    pub(super) fn stop(self) -> Acknowledgements {
        let (mut waiting, mut inputs) = (Vec::new(), Vec::new());
        for (child, input, reader) in self.children {
            waiting.push((child, reader));
            inputs.push(input);
        }
        drop(inputs);
        for (mut child, reader) in waiting {
            let done = reader.join().unwrap();
            assert!(child.wait().unwrap().success() && done, "a writing process has failed");
        }
        Arc::into_inner(self.told).unwrap().into_inner().unwrap()
    }
}

impl Acknowledgements {
    /// Reads a line of a process; returns whether it was the last line.
    fn read(&mut self, process: usize, line: &str) -> bool {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("acknowledged"), Some(id), Some(seq), Some(micros)) => {
                let before = self.acknowledged.insert(id.to_owned(), seq.parse().unwrap());
                assert_eq!(before, None, "{id} was acknowledged twice");
                self.times.push(micros.parse().unwrap());
                self.counts[process] += 1;
            }
            (Some("failed"), ..) => self.failures += 1,
            _ => {}
        }
        line == "done"
    }

    /// The longest time in which nothing was acknowledged.
    pub(super) fn longest_pause(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        Duration::from_micros(longest.unwrap_or_default())
    }
}
