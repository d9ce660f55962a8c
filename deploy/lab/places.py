"""Where the hosts of a new cluster are: ports of this machine's loopback that nobody uses, or
addresses in networks of its own (network.py)."""
import random
import secrets
import socket

from network import ISCSI_PORT, MDC_PORT, addresses, why_not
from process import LabError
from vm.wires import SETUP_PORT, address

# Below Linux's range of ports for outgoing connections, so that none of those takes ours while the
# MDC is down.
PORTS = range(20000, 32000)
_given = set()  # of this process: nobody listens there yet


def free_port():
    for port in random.sample(PORTS, 200):
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                _given.add(port)
                return port
            except OSError:
                continue
    raise LabError(f"no free port in {PORTS.start}–{PORTS.stop - 1}")


def places_of(spec):
    """Where the hosts of a new cluster are, as it is kept in its state."""
    mdcs = [f"mdc{i}" for i in range(1, spec.mdcs + 1)]
    # No two clusters' LUNs may be taken for each other.
    iqn = f"iqn.2026-11.org.reelfs.lab:{secrets.token_hex(6)}"
    target = spec.lun_backend == "iscsi"
    # One portal is the target's own; of several each is a host before it.
    portals = [f"portal{i}" for i in range(1, spec.portals + 1)] if spec.portals > 1 else []
    if spec.backend == "process":
        places = {"mdcs": {name: f"127.0.0.1:{free_port()}" for name in mdcs}}
        if spec.web:
            clients = [f"ws{i}" for i in range(1, spec.clients + 1)]
            places["webs"] = {name: f"127.0.0.1:{free_port()}" for name in mdcs + clients}
        if target:
            places["targets"] = {"san1": {"portal": f"127.0.0.1:{free_port()}", "iqn": iqn}}
            places["portals"] = {name: f"127.0.0.1:{free_port()}" for name in portals}
        return places
    if spec.backend == "vm":
        return _places_of_machines(spec, mdcs, iqn)
    if problem := why_not():
        raise LabError(f"--backend netns: {problem}")
    clients = [f"ws{i}" for i in range(1, spec.clients + 1)]
    hosts = ["san1"] * target + mdcs + clients + portals
    numbers = {name: number for number, name in enumerate(hosts, 11)}
    places = {"network": {"id": secrets.token_hex(3), "numbers": numbers},
              "mdcs": {name: f"{addresses(numbers[name])['lan']}:{MDC_PORT}" for name in mdcs}}
    if target:
        portal = f"{addresses(numbers['san1'])['san']}:{ISCSI_PORT}"
        places["targets"] = {"san1": {"portal": portal, "iqn": iqn}}
        places["portals"] = {name: f"{addresses(numbers[name])['san']}:{ISCSI_PORT}"
                             for name in portals}
    return places


def _places_of_machines(spec, mdcs, iqn):
    hosts = ["san1", *mdcs, *[f"ws{i}" for i in range(1, spec.clients + 1)]]
    numbers = {name: number for number, name in enumerate(hosts, 11)}
    return {"network": {"id": secrets.token_hex(3), "numbers": numbers}, "iqn": iqn,
            "mdcs": {name: f"{address('lan', numbers[name])}:{SETUP_PORT}" for name in mdcs}}
