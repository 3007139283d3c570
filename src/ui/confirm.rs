//! The gate in front of a write: shows what would be overwritten and wants a word that is typed,
//! not a key that is pressed out of habit. Takes reader and writer, so that it can be tested.

use std::io::{self, BufRead, Write};

/// Asks for `word`; anything else is a no.
pub fn confirm(
    question: &str,
    word: &str,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> io::Result<bool> {
    write!(output, "{question}\nType {word} to go on, anything else to stop: ")?;
    output.flush()?;
    let mut answer = String::new();
    // A line without end, as after Ctrl-D, is no answer.
    let ended = input.read_line(&mut answer)? > 0 && answer.ends_with('\n');
    Ok(ended && answer.trim() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_on_a_whole_line_is_a_yes() {
        for (answer, yes) in [
            ("sdb\n", true),
            ("  sdb \n", true),
            ("sdb", false),
            ("", false),
            ("\n", false),
            ("y\n", false),
            ("yes\n", false),
            ("sdbx\n", false),
            ("SDB\n", false),
        ] {
            let mut shown = Vec::new();
            let asked = confirm("Really?", "sdb", &mut answer.as_bytes(), &mut shown).unwrap();
            assert_eq!(asked, yes, "{answer:?}");
            assert!(String::from_utf8(shown).unwrap().contains("Type sdb"));
        }
    }
}
