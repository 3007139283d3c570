//! The mediawriter program; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mediawriter::cli::main()
}
