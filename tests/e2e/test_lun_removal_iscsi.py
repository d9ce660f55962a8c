"""The same where LUNs have reservations."""
import test_lun_removal

CLUSTER = {"mdcs": 2, "seat_ms": 3000, "lun_backend": "iscsi", "luns": "meta=1x512M,data=2x512M"}


def test_a_lun_is_removed_another_replaced_and_one_added(cluster, room):
    test_lun_removal.test_a_lun_is_removed_another_replaced_and_one_added(cluster, room)
