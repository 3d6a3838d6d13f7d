//! SQL files for the command line client: with a prefix to fill in, and `DELIMITER` lines around statements that
//! contain semicolons.

/// Fills the prefix of the tables into a statement or a file.
pub(super) fn with_prefix(sql: &str, prefix: &str) -> String {
    sql.replace("{prefix}", prefix)
}

/// Returns the statements of a file. A statement ends at a line that ends with the delimiter.
pub(super) fn statements(file: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut delimiter = ";";
    let mut statement = String::new();
    for line in file.lines() {
        if let Some(new) = line.strip_prefix("DELIMITER ") {
            delimiter = new.trim();
            continue;
        }
        let is_remark = line.trim_start().starts_with("--");
        if statement.is_empty() && (is_remark || line.trim().is_empty()) {
            continue;
        }
        let end = (!is_remark).then(|| line.trim_end().strip_suffix(delimiter)).flatten();
        statement.push_str(end.unwrap_or(line));
        if end.is_some() {
            statements.push(std::mem::take(&mut statement));
        } else {
            statement.push('\n');
        }
    }
    if !statement.trim().is_empty() {
        statements.push(statement);
    }
    statements
}

/// Returns the name of the view or procedure that a statement creates, because MySQL has no IF NOT EXISTS for them.
pub(super) fn made(statement: &str) -> Option<&str> {
    let starts = ["CREATE SQL SECURITY INVOKER VIEW `", "CREATE PROCEDURE `"];
    starts.iter().find_map(|start| statement.strip_prefix(start)?.split_once('`')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::{made, statements};

    #[test]
    fn a_script_is_cut_into_its_statements() {
        let file = "-- a remark;\n\nCREATE TABLE a (\n  b INT -- why\n);\nDELIMITER //\nCREATE PROCEDURE p()\nBEGIN\n  \
            SELECT 1;\nEND //\nDELIMITER ;\nSELECT 2;\nSELECT 3";
        let all = statements(file);
        assert_eq!(all[0], "CREATE TABLE a (\n  b INT -- why\n)");
        assert_eq!(all[1], "CREATE PROCEDURE p()\nBEGIN\n  SELECT 1;\nEND ");
        assert_eq!(all[2..], ["SELECT 2", "SELECT 3\n"]);
    }

    #[test]
    fn what_makes_a_view_or_a_procedure_is_known() {
        assert_eq!(made("CREATE PROCEDURE `a_p` (\n)"), Some("a_p"));
        assert_eq!(made("CREATE SQL SECURITY INVOKER VIEW `v` AS"), Some("v"));
        assert_eq!(made("CREATE TABLE IF NOT EXISTS `t` ("), None);
    }
}
