//! Whether we are root, and the command line that would make us root.
//!
//! The line is printed for copying, so it must mean the same arguments to a shell: quoting is that
//! of POSIX (Shell Command Language, 2.2.2 Single-Quotes and 2.2.4 Dollar-Single-Quotes; the
//! latter since issue 8, and in bash, zsh, ksh and busybox since long before).

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::text::is_unsafe;

/// Folders that every sudo searches. /usr/local/bin is not among them: `secure_path` of Red Hat's
/// sudoers has long left it out.
const ROOT_PATH: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Whether the effective user is root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// `sudo mediawriter ...` with these arguments (those behind the program's name), ready to be
/// pasted into a shell. The program has its full path when sudo would not find it by its name.
pub fn sudo_line(args: &[OsString]) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("mediawriter"));
    line(&program, args)
}

fn line(program: &Path, args: &[OsString]) -> String {
    let found_by_name =
        program.parent().is_some_and(|dir| ROOT_PATH.iter().any(|p| dir == Path::new(p)));
    let program = match program.file_name() {
        Some(name) if found_by_name => name,
        _ => program.as_os_str(),
    };
    let mut line = String::from("sudo");
    for word in std::iter::once(program).chain(args.iter().map(OsString::as_os_str)) {
        line.push(' ');
        line.push_str(&quoted(word));
    }
    line
}

/// One word for a POSIX shell. What is not printable text is written in octal, so that the line
/// can be shown on a terminal and still means the same bytes.
pub fn quoted(word: &OsStr) -> String {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(b);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.as_bytes().iter().all(is_plain) => text.to_owned(),
        Some(text) if !text.chars().any(is_unsafe) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => dollar_quoted(word.as_bytes()),
    }
}

fn dollar_quoted(bytes: &[u8]) -> String {
    let mut out = String::from("$'");
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            // Always three digits, so that a digit behind it is not taken for a part of it.
            // A String takes every write.
            _ => write!(out, "\\{byte:03o}").unwrap_or_default(),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&[u8]]) -> Vec<OsString> {
        list.iter().map(|w| OsStr::from_bytes(w).to_owned()).collect()
    }

    #[test]
    fn the_sudo_line_names_the_program_as_root_finds_it() {
        for (program, expected) in [
            ("/usr/bin/mediawriter", "sudo mediawriter devices"),
            ("/usr/sbin/mediawriter", "sudo mediawriter devices"),
            ("/usr/local/bin/mediawriter", "sudo /usr/local/bin/mediawriter devices"),
            ("/home/a b/.cargo/bin/mediawriter", "sudo '/home/a b/.cargo/bin/mediawriter' devices"),
            ("/usr/bin/sub/mediawriter", "sudo /usr/bin/sub/mediawriter devices"),
        ] {
            assert_eq!(line(Path::new(program), &words(&[b"devices"])), expected);
        }
    }

    #[test]
    fn words_are_quoted_only_where_a_shell_would_change_them() {
        for (word, expected) in [
            (&b"--log=a.csv"[..], "--log=a.csv"),
            (b"", "''"),
            (b"my image.iso", "'my image.iso'"),
            (b"it's", r"'it'\''s'"),
            (b"$HOME", "'$HOME'"),
            (b"~root", "'~root'"),
            (b"*", "'*'"),
            (b"a\\b", r"'a\b'"),
            ("caf\u{e9}".as_bytes(), "'caf\u{e9}'"),
            (b"a\x1b[2J", r"$'a\033[2J'"),
            (b"it's\n1", r"$'it\'s\0121'"),
            (b"\xff7", r"$'\3777'"),
            ("\u{202e}osi".as_bytes(), r"$'\342\200\256osi'"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(word)), expected);
        }
    }

    #[test]
    fn a_real_shell_reads_the_same_bytes_back() {
        let args: Vec<OsString> = words(&[
            b"flash",
            b"it's a \"$HOME\" `x` \\ *.iso",
            b"",
            b"\x01\n\t\xff\xc3(7)'",
            b"-",
        ]);
        let line = line(Path::new("/usr/bin/printf"), &args);
        let script = line.replacen("sudo printf", r"printf '%s\0'", 1);
        let output = std::process::Command::new("bash").arg("-c").arg(&script).output().unwrap();
        let mut expected = Vec::new();
        for arg in &args {
            expected.extend_from_slice(arg.as_bytes());
            expected.push(0);
        }
        assert_eq!(output.stdout, expected, "{script}");
    }
}
