"""The stories of test_posix.py by way of the page cache, as small files go before Linux 6.6."""
from test_posix import *  # noqa: F401, F403

CLUSTER = {"mount_options": "cache=page"}
