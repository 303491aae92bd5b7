//! `penstock lab` in a build without the cargo feature `lab`, such as that of `make run`.

use std::ffi::OsString;

use clap::Subcommand;

use crate::failure::Failure;

/// Measure a gateway, or any HTTP server (not in this build; `make release` builds a program that has it)
#[derive(Subcommand)]
pub(crate) enum Command {
    #[command(external_subcommand)]
    Any(Vec<OsString>),
}

pub(crate) fn run(Command::Any(words): Command) -> Result<(), Failure> {
    let name = words.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    Err(Failure::Usage(format!(
        "lab {name}: this build has no lab; `make release` builds target/release/penstock, which has it"
    )))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(subcommand)]
        command: Command,
    }

    #[test]
    fn each_command_of_the_lab_is_a_usage_error_that_names_the_build_with_it() {
        for arguments in [&["lab", "load", "http://127.0.0.1:1", "--users", "2"][..], &["lab", "x"]]
        {
            let program = Program::try_parse_from(arguments).expect("any arguments");
            let Err(Failure::Usage(message)) = run(program.command) else {
                panic!("no usage error, {arguments:?}");
            };
            let named = format!("lab {}: this build has no lab; `make release`", arguments[1]);
            assert!(message.starts_with(&named), "{message}");
        }
    }
}
