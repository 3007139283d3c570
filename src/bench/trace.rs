//! Recorded reads, as text: our own CSV (`millis,offset,length`, as tests/lab/record-boot writes
//! it), or fio's iolog, version 2 and 3 ("Trace file format" in fio's HOWTO). Times are not kept:
//! the pauses of a recording are those of the machine that recorded it. Pure.

use crate::event::Span;

/// A trace has at most this many reads: memory is bounded whatever the file says.
const LIMIT: usize = 4_000_000;

/// Reads in their order; what a trace wrote is left out. `Err` says what is wrong in which line.
pub fn parse(text: &str) -> Result<Vec<Span>, String> {
    let first = text.lines().next().unwrap_or_default().trim();
    let line: fn(&str) -> Result<Option<Span>, &'static str> = match first {
        "fio version 2 iolog" => |line| iolog(&mut line.split_whitespace()),
        "fio version 3 iolog" => |line| {
            let mut words = line.split_whitespace();
            // Microseconds since the start, whatever fio's own documents say.
            words.next();
            iolog(&mut words)
        },
        _ => csv,
    };
    let mut reads = Vec::new();
    for (number, text) in text.lines().enumerate() {
        let blank = text.trim().is_empty() || text.starts_with('#');
        if blank || number == 0 && (text.starts_with("fio ") || text.starts_with("millis")) {
            continue;
        }
        let read = line(text).map_err(|why| format!("line {}: {why}", number + 1))?;
        reads.extend(read.filter(|read| read.len > 0));
        if reads.len() > LIMIT {
            return Err(format!("more than {LIMIT} reads"));
        }
    }
    if reads.is_empty() { Err("it holds no reads".to_owned()) } else { Ok(reads) }
}

fn csv(line: &str) -> Result<Option<Span>, &'static str> {
    let mut fields = line.split(',').map(str::trim).skip(1);
    let mut number = || fields.next().and_then(|field| field.parse().ok());
    let (Some(offset), Some(len)) = (number(), number()) else {
        return Err("expected millis,offset,length");
    };
    Ok(Some(Span { offset, len }))
}

/// `FILE ACTION [OFFSET LENGTH]`.
fn iolog<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Option<Span>, &'static str> {
    let (Some(_file), Some(action)) = (words.next(), words.next()) else {
        return Err("expected FILE ACTION OFFSET LENGTH");
    };
    match action {
        "read" => {
            let mut number = || words.next().and_then(|word| word.parse().ok());
            let (Some(offset), Some(len)) = (number(), number()) else {
                return Err("a read needs OFFSET and LENGTH in bytes");
            };
            Ok(Some(Span { offset, len }))
        }
        "add" | "open" | "close" | "write" | "sync" | "datasync" | "trim" | "wait" => Ok(None),
        _ => Err("unknown action"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_formats_say_the_same() {
        let expected = [Span { offset: 0, len: 512 }, Span { offset: 32_768, len: 4_096 }];
        for text in [
            "millis,offset,length\n0.0,0,512\n213.6,32768,4096\n",
            "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 0 512\n/dev/sdb write 0 512\n/dev/sdb read 32768 4096\n/dev/sdb close\n",
            "fio version 3 iolog\n0 /dev/sdb add\n1 /dev/sdb open\n10 /dev/sdb read 0 512\n213600 /dev/sdb read 32768 4096\n",
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        for (text, why) in [
            ("", "no reads"),
            ("millis,offset,length\n", "no reads"),
            ("millis,offset,length\n1,2\n", "line 2"),
            ("fio version 2 iolog\nx read 1\n", "line 2: a read needs"),
            ("fio version 2 iolog\nx jump 1 2\n", "unknown action"),
            ("\u{1b}[2J", "line 1"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
