#!/usr/bin/env python3
"""boottest.py IMAGE --fw ovmf|seabios --expect REGEX: does this stick boot?

Boots the file IMAGE in QEMU as a USB stick (snapshot: the file stays as it is) and waits for REGEX on the serial console,
with --text on the VGA text screen, or with --pixel for a colour on the screen. Prints one line of JSON with the seconds
taken; exit 0 when it was seen, 1 when not. Needs qemu-system-x86 and ovmf; software emulation, no KVM.
"""
import argparse
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

OVMF = "/usr/share/ovmf/OVMF.fd"
FAIL = "BOOT-FAIL|DATA-BAD|UEFI Interactive Shell|No bootable device"
ANSI = re.compile(r"\x1b\[[0-9;?=]*[A-Za-z]")
# the text screen of 80 x 25 characters, each with a byte of attributes
VGA_TEXT, COLUMNS, ROWS = 0xB8000, 80, 25
# a prime: looking at every 37th pixel meets all columns
PIXEL_STEP = 37


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("image")
    add("--fw", choices=["ovmf", "seabios"], default="ovmf", help="firmware: UEFI or BIOS")
    add("--expect", default="BOOT-OK|login:", help="success (default: %(default)s)")
    add("--fail", default=FAIL, help="failure, without waiting for the timeout (default: %(default)s)")
    add("--timeout", type=float, default=120)
    add("--mem", default="512", help="MiB of memory")
    add("--text", action="store_true", help="look at the VGA text screen instead of the serial console")
    add("--bios-text", action="store_true", help="short for --fw seabios --text")
    add("--pixel", metavar="R,G,B:SHARE", help="success when that share of the screen has that colour")
    add("--bus", default="usb", choices=["usb", "virtio", "ide", "nvme"])
    add("--iso", action="store_true", help="with --bus ide: as a CD")
    add("--shot", metavar="PNG", help="save the last screen")
    add("--log", metavar="FILE", help="keep the serial console's output")
    add("--show", action="store_true", help="print the command and what was seen")
    options = parser.parse_args()
    if options.bios_text:
        options.fw, options.text = "seabios", True
    return options


def command(options: argparse.Namespace, log: str, monitor: str) -> list[str]:
    disk = "ide-cd" if options.iso else "ide-hd"
    device = {
        "usb": ["-device", "qemu-xhci", "-device", "usb-storage,drive=stick,removable=on,bootindex=0"],
        "virtio": ["-device", "virtio-blk-pci,drive=stick,bootindex=0"],
        "nvme": ["-device", "nvme,serial=1,drive=stick,bootindex=0"],
        "ide": ["-device", f"{disk},drive=stick,bootindex=0"],
    }[options.bus]
    image = options.image.replace(",", ",,")  # QEMU's way to write a comma
    return ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-m", options.mem, "-smp", "1",
            "-nodefaults", "-no-user-config", "-display", "none", "-vga", "std", "-net", "none", "-no-reboot",
            "-serial", f"file:{log}", "-monitor", f"unix:{monitor},server=on,wait=off",
            *(["-bios", OVMF] if options.fw == "ovmf" else []),
            "-drive", f"if=none,id=stick,format=raw,file={image},snapshot=on", *device]


class Machine:
    """A running QEMU, seen through its serial log and its monitor."""

    def __init__(self, options: argparse.Namespace, folder: str) -> None:
        self.folder = folder
        self.log = options.log or f"{folder}/serial.log"
        self.monitor = f"{folder}/monitor"
        self.command = command(options, self.log, self.monitor)
        if os.path.exists(self.log):
            os.remove(self.log)  # or an old success would count
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def running(self) -> bool:
        return self.process.poll() is None

    def ask(self, line: str) -> None:
        """Runs one monitor command to its end: a prompt comes before it and another after it."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(3)
            connection.connect(self.monitor)
            for text in (line.encode() + b"\n", b""):
                seen = b""
                while not seen.rstrip().endswith(b"(qemu)"):
                    part = connection.recv(65536)
                    if not part:
                        raise OSError("the monitor closed")
                    seen += part
                connection.sendall(text)

    def serial(self) -> str:
        if not os.path.exists(self.log):
            return ""
        with open(self.log, "rb") as file:
            return ANSI.sub("", file.read().decode("latin1"))

    def text_screen(self) -> str:
        path = f"{self.folder}/text"
        self.ask(f'pmemsave {VGA_TEXT:#x} {COLUMNS * ROWS * 2} "{path}"')
        with open(path, "rb") as file:
            characters = file.read()[::2].decode("cp437")
        return "\n".join(characters[at:at + COLUMNS].rstrip() for at in range(0, COLUMNS * ROWS, COLUMNS))

    def screen(self) -> tuple[int, int, bytes]:
        """Width, height and the RGB bytes."""
        path = f"{self.folder}/screen.ppm"
        self.ask(f'screendump "{path}"')
        with open(path, "rb") as file:
            raw = file.read()
        header = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", raw)
        if not header:
            raise OSError("no picture")
        return int(header[1]), int(header[2]), raw[header.end():]

    def stop(self) -> str:
        """Ends it; what QEMU had to say."""
        if self.running():
            self.process.kill()
        return self.process.communicate()[1].decode("latin1")


def has_colour(machine: Machine, wanted: str) -> bool:
    colour, share = wanted.split(":")
    rgb = bytes(map(int, colour.split(",")))
    width, height, pixels = machine.screen()
    hits = sum(pixels[at:at + 3] == rgb for at in range(0, len(pixels), 3 * PIXEL_STEP))
    return hits > float(share) * width * height / PIXEL_STEP


def save_png(machine: Machine, path: str) -> None:
    width, height, pixels = machine.screen()
    rows = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def watch(machine: Machine, options: argparse.Namespace) -> tuple[str, str]:
    """Waits for success or failure: how it ended, and the text seen last."""
    text = ""
    end = time.monotonic() + options.timeout
    while time.monotonic() < end:
        running = machine.running()  # asked first, so that the last words of a machine that ends are read
        try:
            if not options.text:
                text = machine.serial()
            elif running:
                text = machine.text_screen()
            if options.pixel and running and has_colour(machine, options.pixel):
                return "pixel", text
        except OSError:
            pass  # the monitor is not up yet, or just gone
        if not options.pixel and re.search(options.expect, text):
            return "matched", text
        if options.fail and re.search(options.fail, text):
            return "fail pattern", text
        if not running:
            return f"qemu exited {machine.process.returncode}", text
        time.sleep(0.2)
    return "timeout", text


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="boottest.") as folder:
        start = time.monotonic()
        machine = Machine(options, folder)
        said = ""
        try:
            why, text = watch(machine, options)
            seconds = time.monotonic() - start
            if options.shot and machine.running():
                save_png(machine, options.shot)
        finally:
            said = machine.stop()
    ok = why in ("matched", "pixel")
    if options.show:
        print(" ".join(machine.command), file=sys.stderr)
    if options.show or not ok:
        print(text[-2500:], said[-500:], sep="\n", file=sys.stderr)
    print(json.dumps({"img": os.path.basename(options.image), "fw": options.fw, "bus": options.bus,
                      "ok": ok, "why": why, "seconds": round(seconds, 1)}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
