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


@pytest.fixture(autouse=True)
def bounded(cluster):
    """No test hangs for ever in a mount."""
    cluster.guard_test()
    yield
    cluster.disarm()


@pytest.fixture
def room(cluster, request):
    """An empty directory of the volume for one test, seen by both clients: (on ws1, on ws2)."""
    os.mkdir(os.path.join(cluster.ws1, request.node.name))
    return tuple(os.path.join(mount, request.node.name) for mount in (cluster.ws1, cluster.ws2))
