"""A machine's serial console, on this terminal. Ctrl-] leaves it."""
import os
import select
import socket
import sys
import termios
import tty

from process import LabError

LEAVE = b"\x1d"


def attach(host):
    """Until Ctrl-], the end of the input, or of the machine."""
    with socket.socket(socket.AF_UNIX) as wire:
        try:
            wire.connect(host.machine.console_path)
        except OSError as error:
            raise LabError(f"{host.name}: its console cannot be reached ({error.strerror}); does "
                           "it run?")
        terminal = sys.stdin.isatty() and termios.tcgetattr(sys.stdin)
        if terminal:
            print(f"lab: the console of {host.name}; Ctrl-] leaves it", file=sys.stderr)
            tty.setraw(sys.stdin)
        try:
            _copy(wire)
        finally:
            if terminal:
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal)


def _copy(wire):
    while True:
        ready, _, _ = select.select([sys.stdin, wire], [], [])
        if wire in ready:
            said = wire.recv(4096)
            if not said:
                return
            os.write(sys.stdout.fileno(), said)
        if sys.stdin in ready:
            typed = os.read(sys.stdin.fileno(), 4096)
            if not typed or LEAVE in typed:
                return
            wire.sendall(typed)
