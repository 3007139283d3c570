#!/usr/bin/env python3
"""qmp.py SOCKET COMMAND [JSON]: sends one command to a running QEMU (usbvm with USBVM_QMP=SOCKET) and prints its answer as JSON.

  qmp.py SOCKET device_del '{"id": "uas"}'       pull the stick out (comes back when it is gone)
  qmp.py SOCKET device_add '{"driver": "usb-storage", "bus": "xhci.0", "drive": "a", "id": "stick"}'
  qmp.py SOCKET block_set_io_throttle '{"device": "c", "bps": 0, "bps_rd": 0, "bps_wr": 20000000, "iops": 0, "iops_rd": 0, "iops_wr": 0}'

Waits up to 10 s for the socket to appear. Exit 1 when QEMU refuses. Needs only Python.
"""
import json
import socket
import sys
import time


def connect(path: str, seconds: float = 10) -> socket.socket:
    end = time.monotonic() + seconds
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    command = sys.argv[2]
    arguments = json.loads(sys.argv[3]) if len(sys.argv) == 4 else {}
    with connect(sys.argv[1]) as connection, connection.makefile("rw") as stream:
        connection.settimeout(30)

        def send(execute: str, arguments: dict) -> None:
            print(json.dumps({"execute": execute, "arguments": arguments}), file=stream, flush=True)

        stream.readline()  # the greeting
        send("qmp_capabilities", {})
        stream.readline()
        send(command, arguments)
        deleted = False
        for line in stream:
            message = json.loads(line)
            # device_del only asks; the device is gone at this event, which may even come before the answer
            deleted = deleted or message.get("event") == "DEVICE_DELETED" and message["data"].get("device") == arguments.get("id")
            if "error" in message:
                print(json.dumps(message["error"]))
                return 1
            if "return" in message:
                print(json.dumps(message["return"]))
                if command != "device_del":
                    return 0
                command = ""
            if command == "" and deleted:
                return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
