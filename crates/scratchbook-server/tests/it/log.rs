//! Keeps what is logged while a test runs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Level};
use tracing_subscriber::fmt::MakeWriter;

/// The lines that one thread logs.
#[derive(Clone, Default)]
pub(crate) struct LogLines(Arc<Mutex<Vec<u8>>>);

/// Lines are kept until this value is dropped.
pub(crate) struct Listening {
    _log: DefaultGuard,
    _second: Dispatch,
}

impl LogLines {
    /// Keeps what the thread of this test logs from now on. A test without threads of its own runs only on that thread.
    pub(crate) fn listen(&self, level: Level) -> Listening {
        let all = || tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        // With a single subscriber, tracing asks only the thread that first reaches a log line whether the line is
        // wanted. If that is the thread of another test, it has no subscriber, and the line would never be written. A
        // second subscriber prevents this.
        let second = Dispatch::new(all().with_writer(io::sink).finish());
        let log = tracing::subscriber::set_default(all().with_writer(self.clone()).finish());
        Listening { _log: log, _second: second }
    }

    /// Returns what was logged since the last call.
    pub(crate) fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }
}

impl Write for LogLines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
