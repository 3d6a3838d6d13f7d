//! A progress bar on the terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::output::Format;

/// The progress of a command. It is shown on standard error if standard error is a terminal and the output is not JSON.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(what: &'static str, format: Format) -> Self {
        let target = match format {
            // This draws nothing if standard error is not a terminal.
            Format::Text => ProgressDrawTarget::stderr(),
            Format::Json => ProgressDrawTarget::hidden(),
        };
        Self::to(target, what)
    }

    /// Returns the progress of a command that writes data to standard output. No bar is shown if standard output is a
    /// terminal.
    pub(crate) fn beside_standard_output(what: &'static str, format: Format) -> Self {
        if io::stdout().is_terminal() { Self::to(ProgressDrawTarget::hidden(), what) } else { Self::new(what, format) }
    }

    /// Returns the progress of work of unknown size. It is shown as the text given to `show`.
    pub(crate) fn counting(what: &'static str, format: Format) -> Self {
        let Self { bar } = Self::new(what, format);
        Self { bar: styled(bar.with_prefix(what).with_message(""), "{spinner} {prefix} {wide_msg}") }
    }

    fn to(target: ProgressDrawTarget, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, target).with_message(what).with_finish(ProgressFinish::AndClear);
        let bar = styled(bar, "{spinner} {msg}: {human_pos} events");
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Shows the progress in words.
    pub(crate) fn show(&self, counts: String) {
        self.bar.set_message(counts);
    }

    /// Hides the bar while `print` writes to the terminal.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Sets the number of events to process.
    pub(crate) fn of(&self, events: u64) {
        self.bar.set_length(events);
        styled(self.bar.clone(), "{msg} [{wide_bar}] {human_pos}/{human_len} events, {eta} left");
    }

    pub(crate) fn advance(&self, events: usize) {
        self.bar.inc(events as u64);
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    // An invalid template would be a defect; the plain bar will do.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}
