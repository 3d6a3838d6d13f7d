//! Asks for confirmation on the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use scratchbook::{Error, ErrorKind};

use crate::failure::CommandFailure;

/// Asks a question. Any other answer than yes means no.
///
/// # Errors
///
/// `InvalidArgument` without a terminal, `FailedPrecondition` if the answer is not yes. The messages contain `action`,
/// such as `erasing the user`, and `done`, such as `erased`.
pub(crate) async fn confirm(question: &str, action: &str, done: &str) -> Result<(), CommandFailure> {
    if !io::stdin().is_terminal() {
        let message = format!("{action} cannot be undone, and there is no terminal to ask on; add --yes");
        return Err(Error::invalid(message).into());
    }
    let question = format!("{question} This cannot be undone. [y/N] ");
    // This runs on another thread, so that Ctrl-C works while it waits.
    let answered = tokio::task::spawn_blocking(move || {
        let mut err = io::stderr();
        write!(err, "{question}")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok::<_, io::Error>(answer)
    });
    let answer =
        answered.await.map_err(io::Error::other).flatten().map_err(|e| {
            Error::new(ErrorKind::Unavailable, "the terminal cannot be asked; add --yes").with_source(e)
        })?;
    if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes" | "YES") {
        return Ok(());
    }
    Err(Error::new(ErrorKind::FailedPrecondition, format!("nothing was {done}: the answer was not yes")).into())
}
