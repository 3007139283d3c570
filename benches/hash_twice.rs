//! The limit that `benches/compare` holds a flash against: reads FILE and hashes it, twice, with
//! the program's own SHA-256, on one thread, as `sha256sum` would. Prints nanoseconds a pass.
//! With a second argument it hashes that many bytes of memory instead, without reading anything.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measuring tool of its own")]

use std::fs::File;
use std::io::{self, Read};
use std::time::Instant;

use mediawriter::digest::{Hasher, Sha256};

/// Large enough that calls cost nothing, small enough to stay in the second-level cache.
const STEP: usize = 256 << 10;

fn main() -> io::Result<()> {
    // `cargo bench` adds a flag of its own.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let Some(path) = args.first() else {
        println!("usage: hash_twice FILE [BYTES OF MEMORY]");
        return Ok(());
    };
    let memory = args.get(1).map(|n| n.parse::<u64>()).transpose().map_err(io::Error::other)?;
    for _ in 0..2 {
        let start = Instant::now();
        let digest = match memory {
            Some(bytes) => of_memory(path, bytes)?,
            None => of_file(path)?,
        };
        println!("{} {digest}", start.elapsed().as_nanos());
    }
    Ok(())
}

fn of_file(path: &str) -> io::Result<Sha256> {
    let mut file = File::open(path)?;
    let mut buf = vec![0; STEP];
    let mut hasher = Hasher::default();
    loop {
        match file.read(&mut buf)? {
            0 => return Ok(hasher.finish()),
            n => hasher.update(&buf[..n]),
        }
    }
}

/// The beginning of the file over and over: the processor's limit.
fn of_memory(path: &str, bytes: u64) -> io::Result<Sha256> {
    let mut buf = vec![0; STEP];
    File::open(path)?.read_exact(&mut buf)?;
    let mut hasher = Hasher::default();
    for _ in 0..bytes / STEP as u64 {
        hasher.update(&buf);
    }
    Ok(hasher.finish())
}
