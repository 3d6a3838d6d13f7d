//! `scratchbook token`: creates tokens with which clients log in to a server.

use jiff::Timestamp;
use scratchbook::Error;
use scratchbook_server::NewToken;
use serde_json::json;

use crate::args::NewTokenArgs;
use crate::failure::CommandFailure;
use crate::output::{BOLD, DIM, Format, Output, styled};

/// Creates a token and shows it once.
pub(crate) fn new(args: NewTokenArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let mut token = NewToken::new(args.name).with_rights(args.rights);
    if let Some(app) = args.app {
        token = token.with_app(app);
    }
    if let Some(user) = args.user {
        token = token.with_user(user);
    }
    if let Some(expires) = args.expires {
        if expires.0 <= Timestamp::now() {
            let message =
                format!("--expires {} is past, and the token would open nothing; name a time to come", expires.0);
            return Err(Error::invalid(message).into());
        }
        token = token.with_expires(expires.0);
    }
    let token = token.make()?;
    if out.format() == Format::Json {
        return Ok(out.json(&json!({"token": token.secret(), "entry": token.entry()}))?);
    }
    out.line(styled(DIM, "The token, shown this once; clients send it as 'Authorization: Bearer TOKEN':"))?;
    out.line("")?;
    out.text(styled(BOLD, token.secret()))?;
    out.line("")?;
    out.line(styled(DIM, "For the file of scratchbook serve --tokens FILE:"))?;
    out.line("")?;
    Ok(out.text(token.entry().trim_end())?)
}
