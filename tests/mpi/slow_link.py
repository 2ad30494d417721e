"""slow_link.py ONE OTHER MILLISECONDS: a link of two TUN devices, for kernels without netem; every packet takes so long, and up to twice."""
import collections
import fcntl
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def device(name):
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return tun


def main():
    one, other = device(sys.argv[1]), device(sys.argv[2])
    delay = float(sys.argv[3]) / 1000
    draw = random.Random(3)
    to = {one: other, other: one}
    waiting = {one: collections.deque(), other: collections.deque()}  # by where they go
    # Who made the devices moves them to their namespaces; until then they are down.
    print("ready", flush=True)
    while True:
        first = min((queue[0][0] for queue in waiting.values() if queue), default=None)
        timeout = None if first is None else max(0.0, first - time.monotonic())
        for tun in select.select([one, other], [], [], timeout)[0]:
            try:
                packet = os.read(tun, 65536)
            except OSError:  # down
                time.sleep(0.01)
                continue
            queue = waiting[to[tun]]
            arrival = time.monotonic() + delay * (1 + draw.random())
            # Packets keep their order.
            queue.append((max(arrival, queue[-1][0]) if queue else arrival, packet))
        for tun, queue in waiting.items():
            while queue and queue[0][0] <= time.monotonic():
                packet = queue.popleft()[1]
                try:
                    os.write(tun, packet)
                except OSError:  # down, or full: packets are lost, as on any link
                    pass


main()
