"""Best fit: the bin that the item fills most."""


def priority(item, remaining, capacity):
    return item - remaining
