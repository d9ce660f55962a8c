"""A program of a workstation: it makes files in DIR, each durable when it says so.

  machine_load.py DIR FILE      (until FILE is there)

Prints a line of JSON for each: its number, how long it took, and the error if there was one. An
error ends it.
"""
import json
import os
import sys
import time

PIECE = 64 << 10


def text_of(number):
    return f"{number:08}\n".encode() * (PIECE // 9)


def main(directory, stop):
    os.makedirs(directory, exist_ok=True)
    for number in range(1 << 30):
        if os.path.exists(stop):
            return
        began, error = time.monotonic(), None
        try:
            with open(os.path.join(directory, str(number)), "wb", buffering=0) as file:
                file.write(text_of(number))
                os.fsync(file.fileno())
        except OSError as failure:
            error = str(failure)
        print(json.dumps({"n": number, "seconds": time.monotonic() - began, "error": error}),
              flush=True)
        if error:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
