"""stick_model.py: a stick with a model, as an nbdkit Python plugin. The script `stick` turns it into a block device.

size=N              claimed size (default 1G)
real=N mode=limbo|wrap   fake capacity: beyond `real` writes are lost (limbo), or come round to the start (wrap)
fast=N fast_bps=N slow_bps=N   write cache: the first N bytes written go at fast_bps, all later ones at slow_bps
write_bps=N         steady write speed            read_bps=N        read speed
discard_bps=N       a discard takes as long as its bytes at this speed, as on a device that fills with zeros
latency_ms=N        every read and write takes that much longer, as it arrives here: 1 MiB comes in 2 pieces, 4 MiB in 6 or 7
flush_ms=N          every flush takes that long
rhythm=MS:PAUSE     from the first write on, the last PAUSE of every MS milliseconds are a pause in which writes wait
stall=OFF:MS        the first write that touches OFF takes MS longer
vanish=OFF          the first write that touches OFF fails with EIO, and so does everything after it
eio_write=OFF       a write that touches OFF fails        eio_read=OFF    a read that touches OFF fails
corrupt=OFF         the byte at OFF reads back with one bit flipped
drop=OFF:LEN        writes to that range are accepted and lost
ignore_writes=1     all writes are accepted and lost
prefill=HEX         what a byte that was never written reads as, such as ff (default 00)

Numbers are plain or end in K, M or G (powers of two). Speeds are bytes per second. What is written is kept in memory.
"""
import errno
import time

import nbdkit

API_VERSION = 2
PAGE = 1 << 16
# A sender that comes back within this time never stopped: what it lost on the way is no pause of the stick's.
IDLE_SECONDS = 0.1

KEYS = {"size", "real", "mode", "fast", "fast_bps", "slow_bps", "write_bps", "read_bps", "discard_bps", "latency_ms", "flush_ms", "rhythm", "stall", "vanish",
        "eio_write", "eio_read", "corrupt", "drop", "ignore_writes", "prefill"}

options = {"size": 1 << 30}
pages = {}
written = 0
first_write = None
busy_until = 0.0
gone = False


def number(text):
    shift = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper())
    return int(text[:-1]) << shift if shift else int(text)


def config(key, value):
    if key not in KEYS:
        raise ValueError(f"unknown key {key}")
    if key == "mode":
        if value not in ("limbo", "wrap"):
            raise ValueError("mode is limbo or wrap")
        options[key] = value
    elif key == "prefill":
        options[key] = int(value, 16)
    elif key in ("rhythm", "stall", "drop"):
        first, second = value.split(":")
        options[key] = number(first), number(second)
    else:
        options[key] = number(value)


def config_complete():
    if "write_bps" in options and "fast_bps" in options:
        raise ValueError("write_bps is the steady speed: it does not go with fast_bps")
    if ("fast" in options or "slow_bps" in options) and "fast_bps" not in options:
        raise ValueError("a write cache needs fast, fast_bps and slow_bps")


def thread_model():
    return nbdkit.THREAD_MODEL_SERIALIZE_ALL_REQUESTS


def open(readonly):
    return 1


def get_size(h):
    return options["size"]


def can_write(h):
    return True


def can_flush(h):
    return True


def can_trim(h):
    return True


def fail(why):
    nbdkit.set_error(errno.EIO)
    raise OSError(errno.EIO, why)


def touches(key, offset, length):
    return key in options and offset <= options[key] < offset + length


def busy(seconds, pause=0):
    """Keeps the stick busy: `seconds` for the data, reckoned from the end of the request before, so that overhead and
    late wake-ups do not add up (a limit of 100 MB/s means 100 MB/s), and `pause`, which each request has for itself."""
    global busy_until
    pause += options.get("latency_ms", 0) / 1000
    if not seconds and not pause:
        return
    now = time.monotonic()
    if now - busy_until > IDLE_SECONDS:
        busy_until = now
    busy_until += seconds + pause
    time.sleep(max(busy_until - now, pause))


def write_seconds(length):
    """The time that the next `length` bytes need; `written` is still the count before them."""
    if "write_bps" in options:
        return length / options["write_bps"]
    if "fast_bps" not in options:
        return 0
    quick = min(length, max(0, options.get("fast", 0) - written))
    return quick / options["fast_bps"] + (length - quick) / options.get("slow_bps", options["fast_bps"])


def rest_of_pause():
    """Seconds until the pause of the rhythm ends, when it is one."""
    global first_write
    if "rhythm" not in options:
        return 0
    now = time.monotonic()
    if first_write is None:
        first_write = now
    period, pause = options["rhythm"][0] / 1000, options["rhythm"][1] / 1000
    into = (now - first_write) % period
    return period - into if into >= period - pause else 0


def real_offset(offset):
    """Where a claimed offset really lies; None where there is nothing behind it."""
    real = options.get("real")
    if not real or offset < real:
        return offset
    return offset % real if options.get("mode") == "wrap" else None


def pieces(offset, length):
    """(position in the buffer, claimed offset, length, page or None, offset in the page), cut where anything changes."""
    borders = [options["real"]] if "real" in options else []
    if "drop" in options:
        borders += [options["drop"][0], sum(options["drop"])]
    at = 0
    while at < length:
        claimed = offset + at
        real = real_offset(claimed)
        step = min(length - at, PAGE - (claimed if real is None else real) % PAGE)
        step = min([step] + [border - claimed for border in borders if claimed < border])
        if real is None:
            yield at, claimed, step, None, 0
        else:
            yield at, claimed, step, real // PAGE, real % PAGE
        at += step


def pread(h, buf, offset, flags):
    if gone:
        fail("vanished")
    if touches("eio_read", offset, len(buf)):
        fail("eio_read")
    busy(len(buf) / options["read_bps"] if "read_bps" in options else 0)
    view = memoryview(buf)
    fresh = bytes([options.get("prefill", 0)])
    for at, _, step, number_of_page, start in pieces(offset, len(buf)):
        page = pages.get(number_of_page)
        view[at:at + step] = fresh * step if page is None else memoryview(page)[start:start + step]
    if touches("corrupt", offset, len(buf)):
        view[options["corrupt"] - offset] ^= 1


def pwrite(h, buf, offset, flags):
    global written, gone
    gone = gone or touches("vanish", offset, len(buf))
    if gone:
        fail("vanished")
    if touches("eio_write", offset, len(buf)):
        fail("eio_write")
    seconds, pause = write_seconds(len(buf)), rest_of_pause()
    if "stall" in options and offset <= options["stall"][0] < offset + len(buf):
        pause = options.pop("stall")[1] / 1000
    written += len(buf)
    busy(seconds, pause)
    if options.get("ignore_writes"):
        return
    lost = range(0)
    if "drop" in options:
        start, length = options["drop"]
        lost = range(start, start + length)
    view = memoryview(buf)
    for at, claimed, step, number_of_page, start in pieces(offset, len(buf)):
        if number_of_page is None or claimed in lost:
            continue
        page = pages.get(number_of_page)
        if step == PAGE:
            pages[number_of_page] = bytearray(view[at:at + step])
            continue
        if page is None:
            page = pages[number_of_page] = bytearray([options.get("prefill", 0)]) * PAGE
        page[start:start + step] = view[at:at + step]


def trim(h, length, offset, flags):
    """Whole pages only, as the standard allows; they read as if never written."""
    if gone:
        fail("vanished")
    busy(length / options["discard_bps"] if "discard_bps" in options else 0)
    if options.get("ignore_writes"):
        return
    if not pages:
        return
    for _, _, step, number_of_page, _ in pieces(offset, length):
        if step == PAGE:
            pages.pop(number_of_page, None)


def flush(h, flags):
    if gone:
        fail("vanished")
    time.sleep(options.get("flush_ms", 0) / 1000)
