//! Writes tables into a page, between markers.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::report;
use crate::summary::Summary;

/// The plots, with what they show.
const PLOTS: [(&str, &str); 3] = [
    ("throughput", "Operations in a second of each system, by workload, in memory, on SQLite and on PostgreSQL"),
    (
        "growth",
        "The time of one operation on SQLite, by what is stored: level for the systems whose cost does not grow",
    ),
    ("latency", "The time within which half, nine of ten and 99 of 100 operations are done on SQLite"),
];

/// Replaces the tables and plots of a page: the text between `<!-- table NAME -->` or `<!-- plot NAME -->` and
/// `<!-- end -->`. `images` is the folder of the plots, as the page names it.
pub(crate) fn write(summary: &Summary, path: &Path, images: &str) -> Result<()> {
    let plot = |name: &str| {
        let (name, text) = PLOTS.iter().find(|(plot, _)| *plot == name)?;
        Some(format!("![{text}]({images}/benchmarks-{name}.svg)"))
    };
    replace(path, "plot", plot)?;
    replace(path, "table", |name| report::table(summary, name))
}

/// Replaces the text between the markers of one kind, such as `<!-- table NAME -->` and `<!-- end -->`, in a page.
pub(crate) fn replace(path: &Path, kind: &str, text_of: impl Fn(&str) -> Option<String>) -> Result<()> {
    let failed = |error: String| format!("{}: {error}", path.display());
    let page = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let page = between(&page, kind, text_of).map_err(failed)?;
    fs::write(path, page).map_err(|error| failed(error.to_string()))
}

/// Replaces the text between the markers of one kind.
fn between(page: &str, kind: &str, text_of: impl Fn(&str) -> Option<String>) -> Result<String> {
    const END: &str = "<!-- end -->";
    let start = format!("<!-- {kind} ");
    let mut parts = page.split(&start);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->").ok_or_else(|| format!("a marker of a {kind} does not end"))?;
        let (_, rest) = rest.split_once(END).ok_or_else(|| format!("the {kind} {name} has no '{END}'"))?;
        let new = text_of(name).ok_or_else(|| format!("there is no {kind} '{name}'"))?;
        text.push_str(&format!("{start}{name} -->\n\n{}\n\n{END}{rest}", new.trim_end()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n<!-- table x -->\nold\n<!-- end -->\n\nB\n\n<!-- table y -->\n<!-- end -->\n";

    fn table(name: &str) -> Option<String> {
        (name != "z").then(|| format!("| {name} |\n"))
    }

    #[test]
    fn tables_are_replaced_and_the_rest_stays() {
        let page = between(PAGE, "table", table).unwrap();
        let part = |name| format!("<!-- table {name} -->\n\n| {name} |\n\n<!-- end -->\n");
        assert_eq!(page, format!("# A\n\n{}\nB\n\n{}", part("x"), part("y")));
        assert_eq!(between(&page, "table", table).unwrap(), page);
    }

    #[test]
    fn markers_that_are_wrong_are_errors() {
        assert!(between("<!-- table x", "table", table).is_err());
        assert!(between("<!-- table x -->\nold", "table", table).unwrap_err().contains("table x has no"));
        assert!(between("<!-- table z --><!-- end -->", "table", table).unwrap_err().contains("there is no table 'z'"));
    }
}
