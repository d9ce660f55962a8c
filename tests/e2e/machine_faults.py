"""What happens to a machine, by name: the lab's words for it, and those that put it right again."""
import contextlib

# Each is a verb and what follows the host's name.
FAULTS = {
    "power off": (("power", "off"), ("power", "on")),
    "reset": (("power", "reset"), ("power", "on")),  # which waits until it is up again
    "LAN cable": (("partition", "lan"), ("partition", "lan", "--heal")),
    "SAN cables": (("partition", "san"), ("partition", "san", "--heal")),
    "one path": (("partition", "path1"), ("partition", "path1", "--heal")),
    # Its clock stands still with it, or jumps when it goes on.
    "hypervisor pause": (("power", "suspend"), ("power", "resume")),
    "emulator stopped": (("pause",), ("resume",)),
}


@contextlib.contextmanager
def struck(machines, host, fault):
    """Put right when the block ends, however it ends."""
    strike, heal = [(verb, host, *words) for verb, *words in FAULTS[fault]]
    machines.lab(*strike)
    try:
        yield
    finally:
        machines.lab(*heal)
