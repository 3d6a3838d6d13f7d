//! A bar on the terminal for what takes long.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::output::Format;

/// How far a command has come: seen on standard error where that is a terminal, and never beside JSON.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(what: &'static str, format: Format) -> Self {
        let target = match format {
            // Draws nothing where standard error is no terminal.
            Format::Text => ProgressDrawTarget::stderr(),
            Format::Json => ProgressDrawTarget::hidden(),
        };
        Self::to(target, what)
    }

    /// The same for a command whose output is the thing itself: where both would go to the terminal, there is none.
    pub(crate) fn beside_standard_output(what: &'static str, format: Format) -> Self {
        if io::stdout().is_terminal() { Self::to(ProgressDrawTarget::hidden(), what) } else { Self::new(what, format) }
    }

    /// The same where it is not known how much there is to do: it shows what it is told.
    pub(crate) fn counting(what: &'static str, format: Format) -> Self {
        let Self { bar } = Self::new(what, format);
        Self { bar: styled(bar.with_prefix(what).with_message(""), "{spinner} {prefix} {msg}") }
    }

    fn to(target: ProgressDrawTarget, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, target).with_message(what).with_finish(ProgressFinish::AndClear);
        let bar = styled(bar, "{spinner} {msg}: {human_pos} events");
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Shows how far it has come, in words.
    pub(crate) fn tell(&self, counts: String) {
        self.bar.set_message(counts);
    }

    /// Prints something beside the bar.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Says how much there is to do.
    pub(crate) fn of(&self, events: u64) {
        self.bar.set_length(events);
        styled(self.bar.clone(), "{msg} [{wide_bar}] {human_pos}/{human_len} events, {eta} left");
    }

    pub(crate) fn advance(&self, events: usize) {
        self.bar.inc(events as u64);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    // A template that cannot be read would be a defect; the plain bar does as well.
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}
