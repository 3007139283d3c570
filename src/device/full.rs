//! Makes transfers whole. A device may transfer less than asked or be interrupted; here, and only
//! here, the rest is asked for again. A transfer of zero bytes before the end is an error, or a
//! loop would never end. The rest of a short transfer starts at a multiple of the block again,
//! because O_DIRECT transfers whole blocks (block/fops.c).

use std::io;

use super::BlockDevice;

/// Writes all of `buf`.
///
/// After `Err` an unknown part of the range is written.
pub fn write_full(device: &dyn BlockDevice, offset: u64, buf: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match device.write_at(offset + done as u64, &buf[done..]) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::WriteZero, "the device took no data"));
            }
            Ok(n) => done += whole_blocks(device, n, buf.len() - done)?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Fills all of `buf`. After `Err` the buffer holds an unknown part of the data.
pub fn read_full(device: &dyn BlockDevice, offset: u64, buf: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match device.read_at(offset + done as u64, &mut buf[done..]) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the device ends before its stated size",
                ));
            }
            Ok(n) => done += whole_blocks(device, n, buf.len() - done)?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The part of a short transfer that ends at a block border, so that the next one is aligned.
fn whole_blocks(device: &dyn BlockDevice, got: usize, asked: usize) -> io::Result<usize> {
    if got >= asked {
        return Ok(asked);
    }
    let block = usize::try_from(device.geometry().logical_block).map_err(io::Error::other)?;
    match got / block * block {
        0 => {
            Err(io::Error::other(format!("the device transferred {got} bytes, less than a block")))
        }
        whole => Ok(whole),
    }
}
