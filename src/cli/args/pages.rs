//! What the parser prints: help pages, the list of commands, and argh's complaints in words of ours.

use std::fmt::Write as _;

use argh::CommandInfoWithArgs;

use super::Program;

/// Adds the wrapped command, which argh does not know of, to the usage line.
pub(super) fn with_command(program: &Program<'_>, path: &[String], help: String) -> String {
    if !path.last().is_some_and(|name| program.wrapping.contains(&name.as_str())) {
        return help;
    }
    match help.split_once('\n') {
        Some((usage, rest)) => format!("{usage} [-- <command...>]\n{rest}"),
        None => help,
    }
}

/// Every command in a line.
pub(super) fn overview(program: &Program<'_>, info: &CommandInfoWithArgs) -> String {
    let mut text = format!("{}\n\nCommands:\n", info.description.trim());
    let shown: Vec<_> = info.commands.iter().filter(|command| !command.name.starts_with("__")).collect();
    let width = shown.iter().map(|command| command.name.len()).max().unwrap_or(0);
    for command in shown {
        let about = command.command.description.trim().split(". ").next().unwrap_or("").trim_end_matches('.');
        let _ = writeln!(text, "  {:width$}  {about}", command.name);
    }
    let _ = writeln!(text, "\nMore about a command: {} help <command>", program.name);
    text
}

/// argh's own complaint as one line without its decoration.
pub(in crate::cli) fn reworded(output: &str) -> String {
    let line = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    for kind in ["option", "positional argument"] {
        let Some(rest) = line.strip_prefix(&format!("Error parsing {kind} '")) else { continue };
        let Some((name, rest)) = rest.split_once("' with value '") else { continue };
        let Some((value, why)) = rest.split_once("': ") else { continue };
        // The standard library's words say what it did.
        let why = match why {
            "invalid digit found in string" | "cannot parse integer from empty string" => {
                "expected a whole number"
            }
            "number too large to fit in target type" => "is too large",
            why => why,
        };
        return format!("{name} {value:?}: {why}");
    }
    line
}
