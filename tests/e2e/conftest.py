"""Fixtures: one cluster for the tests of a file, checked by fsck and taken down at its end."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cluster import Cluster  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    made = Cluster()
    try:
        yield made
        made.guard_test()
        made.fsck()
    finally:
        made.down()


def pytest_configure(config):
    config.addinivalue_line("markers", "seconds(n): how long a test may take (default 240)")


@pytest.fixture(autouse=True)
def bounded(cluster, request):
    """No test hangs for ever in a mount."""
    seconds = request.node.get_closest_marker("seconds")
    cluster.guard_test(*(seconds.args if seconds else ()))
    yield
    cluster.disarm()


@pytest.fixture
def room(cluster, request):
    """An empty directory of the volume for one test, seen by both clients: (on ws1, on ws2)."""
    os.mkdir(os.path.join(cluster.ws1, request.node.name))
    return tuple(os.path.join(mount, request.node.name) for mount in (cluster.ws1, cluster.ws2))
