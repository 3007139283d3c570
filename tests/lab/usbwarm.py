#!/usr/bin/env python3
"""usbwarm.py: what usbvm does with a machine that has booted, over QMP.

  usbwarm.py keep SOCKET CONSOLE STATE    waits for USBVM-READY on the console and keeps the machine's state in a file
  usbwarm.py plug SOCKET DEVICE...        waits until the state is loaded, and plugs in devices, written as for -device

Exit 1 with the reason when QEMU refuses or takes more than two minutes. Needs only Python.
"""
import json
import os
import shlex
import socket
import sys
import time

from qmp import connect

PATIENCE = 120.0
# devices of several parts, plugged into the port when their disk is there
IN_PARTS = ("usb-uas", "usb-bot")


class Machine:
    def __init__(self, path: str) -> None:
        self.stream = connect(path, PATIENCE).makefile("rw")
        self.stream.readline()  # the greeting
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: object) -> object:
        print(json.dumps({"execute": command, "arguments": arguments}), file=self.stream, flush=True)
        for line in self.stream:
            message = json.loads(line)
            if "error" in message:
                raise RuntimeError(f"{command} {arguments}: {message['error']['desc']}")
            if "return" in message:
                return message["return"]
        raise RuntimeError("QEMU ended")

    def plug(self, device: str) -> None:
        # The monitor for people takes what the command line takes.
        said = self.ask("human-monitor-command", **{"command-line": f"device_add {device}"})
        if said:
            raise RuntimeError(f"{device}: {said}")

    def wait_for(self, command: str, status: str) -> None:
        end = time.monotonic() + PATIENCE
        while (now := self.ask(command).get("status")) != status:
            if now == "failed" or time.monotonic() > end:
                raise RuntimeError(f"{command} says {now}")
            time.sleep(0.02)


def keep(path: str, console: str, state: str) -> None:
    machine = Machine(path)
    end = time.monotonic() + PATIENCE
    while b"USBVM-READY" not in open(console, "rb").read():
        if time.monotonic() > end:
            raise RuntimeError("the machine does not boot")
        time.sleep(0.1)
    machine.ask("stop")
    machine.ask("migrate", uri=f"exec:cat >{shlex.quote(state)}.new")
    machine.wait_for("query-migrate", "completed")
    machine.ask("quit")
    os.rename(f"{state}.new", state)


def plug(path: str, devices: list[str]) -> None:
    machine = Machine(path)
    machine.wait_for("query-status", "paused")
    machine.ask("cont")
    waiting = None
    for device in devices:
        driver, _, rest = device.partition(",")
        if waiting and driver.startswith("scsi-"):
            machine.plug(device)
            machine.ask("qom-set", path=waiting, property="attached", value=True)
            waiting = None
        elif driver in IN_PARTS:
            waiting = next(word[3:] for word in rest.split(",") if word.startswith("id="))
            machine.plug(f"{device},attached=off")
        else:
            machine.plug(device)


def main() -> int:
    try:
        match sys.argv[1:]:
            case ["keep", path, console, state]:
                keep(path, console, state)
            case ["plug", path, *devices]:
                plug(path, devices)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (OSError, RuntimeError) as error:
        print(f"usbwarm.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
