//! The decoders behind one call: bytes in, bytes out, how many of each, and whether a member
//! ended. Each decodes one member and is made anew for the next.

use flate2::{Decompress, FlushDecompress};
use liblzma::stream::{Action, MtStreamBuilder, Stream};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use super::lz4::Lz4;
use super::{Fault, Format, Limits, Method};
use crate::image::Codec;

/// What a call did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    /// Bytes taken.
    pub(super) read: usize,
    /// Bytes given.
    pub(super) written: usize,
    /// The member ended, its checksums match.
    pub(super) ended: bool,
}

/// A decoder in the middle of a member.
pub(super) enum Engine {
    Lzma(Box<Stream>),
    Flate(Box<Decompress>),
    Zstd(Box<DCtx<'static>>),
    Bzip2(Box<bzip2::Decompress>),
    Lz4(Box<Lz4>),
    Stored,
}

impl Engine {
    pub(super) fn new(format: Format, limits: Limits) -> Result<Self, Fault> {
        Ok(match format {
            Format::Stream(Codec::Xz) => xz(limits)?,
            Format::Stream(Codec::Lzma) => Self::lzma(Stream::new_lzma_decoder(limits.memory))?,
            Format::Stream(Codec::Lzip) => Self::lzma(Stream::new_lzip_decoder(limits.memory, 0))?,
            // 15 is the largest window (RFC 1951: 32 KiB); it takes smaller ones too.
            Format::Stream(Codec::Gzip) => Self::Flate(Box::new(Decompress::new_gzip(15))),
            Format::Stream(Codec::Zstd) => zstd(limits)?,
            Format::Stream(Codec::Bzip2) => bzip2(),
            Format::Stream(Codec::Lz4) => Self::Lz4(Box::default()),
            Format::Stream(Codec::Compress) => {
                return Err(Fault::Unsupported("compress (.Z) data is not decoded".to_owned()));
            }
            Format::Entry(entry) => match entry.method {
                Method::Stored => Self::Stored,
                Method::Deflate => Self::Flate(Box::new(Decompress::new(false))),
                Method::Bzip2 => bzip2(),
                Method::Zstd => zstd(limits)?,
                Method::Xz => xz(limits)?,
            },
        })
    }

    fn lzma(made: Result<Stream, liblzma::stream::Error>) -> Result<Self, Fault> {
        made.map(|stream| Self::Lzma(Box::new(stream))).map_err(lzma_fault)
    }

    /// Decodes; `last` says that nothing follows `input`.
    pub(super) fn step(&mut self, input: &[u8], out: &mut [u8], last: bool) -> Result<Step, Fault> {
        match self {
            Self::Lzma(stream) => lzma_step(stream, input, out, last),
            Self::Flate(inflate) => {
                let before = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress(input, out, FlushDecompress::None)
                    .map_err(|e| Fault::Damaged(e.message().unwrap_or("bad data").to_owned()))?;
                Ok(Step {
                    read: moved(before.0, inflate.total_in()),
                    written: moved(before.1, inflate.total_out()),
                    ended: status == flate2::Status::StreamEnd,
                })
            }
            Self::Zstd(context) => zstd_step(context, input, out),
            Self::Bzip2(bunzip) => {
                let before = (bunzip.total_in(), bunzip.total_out());
                let status = bunzip.decompress(input, out).map_err(|e| {
                    Fault::Damaged(match e {
                        bzip2::Error::DataMagic => "this is no bzip2 stream".to_owned(),
                        _ => "a block is not what its checksum says".to_owned(),
                    })
                })?;
                Ok(Step {
                    read: moved(before.0, bunzip.total_in()),
                    written: moved(before.1, bunzip.total_out()),
                    ended: status == bzip2::Status::StreamEnd,
                })
            }
            Self::Lz4(lz4) => lz4.step(input, out),
            Self::Stored => {
                let len = input.len().min(out.len());
                out[..len].copy_from_slice(&input[..len]);
                Ok(Step { read: len, written: len, ended: input.is_empty() && last })
            }
        }
    }
}

/// The libraries count in 64 bits; one call moves no more than a slice has.
fn moved(before: u64, after: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(0)
}

fn bzip2() -> Engine {
    Engine::Bzip2(Box::new(bzip2::Decompress::new(false)))
}

fn xz(limits: Limits) -> Result<Engine, Fault> {
    if limits.threads < 2 {
        return Engine::lzma(Stream::new_stream_decoder(limits.memory, 0));
    }
    let mut builder = MtStreamBuilder::new();
    builder
        .threads(limits.threads)
        .memlimit_threading(limits.threading)
        .memlimit_stop(limits.memory);
    Engine::lzma(builder.decoder())
}

fn lzma_step(stream: &mut Stream, input: &[u8], out: &mut [u8], last: bool) -> Result<Step, Fault> {
    let before = (stream.total_in(), stream.total_out());
    let action = if last { Action::Finish } else { Action::Run };
    let status = stream.process(input, out, action).map_err(lzma_fault)?;
    Ok(Step {
        read: moved(before.0, stream.total_in()),
        written: moved(before.1, stream.total_out()),
        ended: status == liblzma::stream::Status::StreamEnd,
    })
}

fn lzma_fault(error: liblzma::stream::Error) -> Fault {
    use liblzma::stream::Error;
    match error {
        Error::MemLimit => Fault::Memory(None),
        Error::Mem => Fault::Input(std::io::ErrorKind::OutOfMemory.into()),
        Error::Options => Fault::Unsupported(
            "it uses filters or options that this version of liblzma does not know".to_owned(),
        ),
        Error::Format => Fault::Damaged("the header is not one of this format".to_owned()),
        Error::UnsupportedCheck | Error::NoCheck => {
            Fault::Unsupported("its integrity check is of an unknown type".to_owned())
        }
        Error::Data => Fault::Damaged("the data does not match its checksums".to_owned()),
        Error::Program => Fault::Damaged("the decoder cannot go on".to_owned()),
    }
}

fn zstd(limits: Limits) -> Result<Engine, Fault> {
    let mut context =
        DCtx::try_create().ok_or_else(|| Fault::Input(std::io::ErrorKind::OutOfMemory.into()))?;
    context
        .set_parameter(DParameter::WindowLogMax(super::zstd::window_log(limits)))
        .map_err(|code| Fault::Unsupported(format!("zstd: {}", get_error_name(code))))?;
    Ok(Engine::Zstd(Box::new(context)))
}

fn zstd_step(context: &mut DCtx<'static>, input: &[u8], out: &mut [u8]) -> Result<Step, Fault> {
    let mut from = InBuffer::around(input);
    let mut to = OutBuffer::around(out);
    let wants = context.decompress_stream(&mut to, &mut from).map_err(|code| {
        match get_error_name(code) {
            // ZSTD_error_frameParameter_windowTooLarge.
            "Frame requires too much memory for decoding" => Fault::Memory(None),
            other => Fault::Damaged(format!("zstd says: {other}")),
        }
    })?;
    // Zero: the frame is decoded and everything that came of it was given.
    Ok(Step { read: from.pos(), written: to.pos(), ended: wants == 0 })
}
