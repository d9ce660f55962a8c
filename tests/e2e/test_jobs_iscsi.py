"""LUNs that are removed, replaced and added while they have reservations."""
from test_jobs import test_a_lun_is_removed_another_replaced_and_one_added  # noqa: F401

CLUSTER = {"mdcs": 2, "seat_ms": 3000, "lun_backend": "iscsi", "luns": "meta=1x512M,data=2x512M"}
