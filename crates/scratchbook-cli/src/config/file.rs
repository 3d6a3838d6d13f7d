//! The config file. It is TOML, and its keys are names of options.

use std::fs;
use std::io;
use std::path::Path;

use clap::{ArgAction, Command};
use scratchbook::{Error, ErrorKind};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{SERVE, options};

/// How similar a name must be to be suggested.
const ALIKE: f64 = 0.75;

/// Makes the file's values the defaults of their options. Returns the command and the names of these options.
pub(super) fn apply(mut command: Command, file: &Path) -> Result<(Command, Vec<String>), Error> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|e| unreadable(&name, e))?;
    let lines = FileText { name: &name, text: &text };
    let table = DeTable::parse(&text).map_err(|e| {
        let place = e.span().map_or_else(|| name.clone(), |span| lines.place(span.start));
        Error::invalid(format!("{place}: this is not TOML: {}", one_line(e.message())))
    })?;
    let mut found = Vec::new();
    flatten(&mut found, "", table.get_ref(), &lines)?;
    // Tables are sorted by name. Sorting by position makes the errors come in the order of the file.
    found.sort_by_key(|found| found.at);
    for (n, FileSetting { option, place, values, .. }) in found.iter().enumerate() {
        if let Some(earlier) = found[..n].iter().find(|earlier| earlier.option == *option) {
            let message = format!("{place}: '{option}' is set already, at {}; write it once", earlier.place);
            return Err(Error::invalid(message));
        }
        command = set(command, option, place, values)?;
    }
    Ok((command, found.into_iter().map(|found| found.option).collect()))
}

/// A setting in the file.
struct FileSetting {
    /// The position in the file, in bytes.
    at: usize,
    option: String,
    /// The file and the line, for messages.
    place: String,
    values: Vec<String>,
}

struct FileText<'a> {
    name: &'a str,
    text: &'a str,
}

impl FileText<'_> {
    fn place(&self, at: usize) -> String {
        let line = self.text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        format!("{}:{line}", self.name)
    }
}

/// Collects the settings of a table and of its nested tables. The names in a nested table are prefixed with the table's
/// name.
fn flatten(found: &mut Vec<FileSetting>, prefix: &str, table: &DeTable<'_>, lines: &FileText<'_>) -> Result<(), Error> {
    for (key, value) in table {
        let option = format!("{prefix}{}", key.get_ref().replace('_', "-"));
        let place = lines.place(key.span().start);
        if let DeValue::Table(table) = value.get_ref() {
            flatten(found, &format!("{option}-"), table, lines)?;
            continue;
        }
        let values = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| text(item, &place)).collect::<Result<_, _>>()?,
            _ => vec![text(value, &place)?],
        };
        found.push(FileSetting { at: key.span().start, option, place, values });
    }
    Ok(())
}

/// Returns a value in the form that it has on the command line.
fn text(value: &Spanned<DeValue<'_>>, place: &str) -> Result<String, Error> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        DeValue::Boolean(yes) => Ok(yes.to_string()),
        _ => Err(Error::invalid(format!("{place}: a value is a string, a number, true or false, or a list of them"))),
    }
}

/// Checks the values of an option, and makes them its default.
fn set(command: Command, option: &str, place: &str, values: &[String]) -> Result<Command, Error> {
    let Some(arg) = options(&command).find(|arg| arg.get_long() == Some(option)) else {
        return Err(unknown(&command, option, place));
    };
    let (id, is_switch) = (arg.get_id().to_string(), matches!(arg.get_action(), ArgAction::SetTrue));
    if is_switch {
        let right = matches!(values, [value] if matches!(value.as_str(), "true" | "false"));
        if !right {
            return Err(Error::invalid(format!("{place}: '{option}' is true or false")));
        }
    } else {
        check(&command, option, place, values)?;
    }
    let values = values.to_vec();
    if command.get_arguments().any(|arg| arg.get_id() == id.as_str()) {
        return Ok(command.mut_arg(id, |arg| arg.default_values(values)));
    }
    Ok(command.mut_subcommand(SERVE, |serve| serve.mut_arg(id, |arg| arg.default_values(values))))
}

/// Checks values by parsing them as if they were on the command line.
fn check(command: &Command, option: &str, place: &str, values: &[String]) -> Result<(), Error> {
    let words = [command.get_name().to_owned(), SERVE.to_owned()];
    let words = words.into_iter().chain(values.iter().map(|value| format!("--{option}={value}")));
    match command.clone().try_get_matches_from(words) {
        Ok(_) => Ok(()),
        Err(error) => {
            let said = error.render().to_string();
            let said = said.split("\n\nUsage").next().unwrap_or(&said).split("\n\nFor more").next().unwrap_or_default();
            let said = said.trim_start_matches("error: ");
            Err(Error::invalid(format!("{place}: {}", one_line(said))))
        }
    }
}

fn unknown(command: &Command, option: &str, place: &str) -> Error {
    let names: Vec<_> = options(command).filter_map(clap::Arg::get_long).collect();
    let alike = |name: &&str| strsim::jaro_winkler(name, option);
    let nearest = names.iter().max_by(|a, b| alike(a).total_cmp(&alike(b))).filter(|name| alike(name) > ALIKE);
    let hint = match nearest {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("there are {}", names.join(", ")),
    };
    Error::invalid(format!("{place}: there is no setting '{option}'; {hint}"))
}

/// Joins the lines of a parser's message.
fn one_line(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn unreadable(name: &str, error: io::Error) -> Error {
    let (kind, what) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::NotFound, "is not there; name a TOML file with --config"),
        io::ErrorKind::PermissionDenied => (ErrorKind::PermissionDenied, "may not be read"),
        io::ErrorKind::InvalidData => (ErrorKind::InvalidArgument, "is not UTF-8; it is to be TOML"),
        io::ErrorKind::IsADirectory => (ErrorKind::InvalidArgument, "is a folder; name a file"),
        _ => (ErrorKind::Unavailable, "cannot be read"),
    };
    Error::new(kind, format!("{name} {what}")).with_source(error)
}
