"""Whether this machine's kernel offers FUSE over io_uring."""


def offers_uring():
    try:
        with open("/sys/module/fuse/parameters/enable_uring", encoding="utf-8") as parameter:
            return parameter.read().strip() == "Y"
    except FileNotFoundError:
        return False
