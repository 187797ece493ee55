#!/usr/bin/env python3
"""The N quietest CPUs of this machine, as a list for taskset.

Every CPU runs the same short loop; those that finish it soonest are taken, and for N > 1 only CPUs
that do not slow each other down (two hyper-threads of one core do). Knows nothing of what will be
measured on them.
"""
import os
import sys
import time


def work():
    start = time.perf_counter()
    x = 0
    for i in range(150_000):
        x += i * i
    return time.perf_counter() - start


def alone(cpu):
    os.sched_setaffinity(0, {cpu})
    return min(work() for _ in range(5))


def beside(cpu, others):
    """The time of `cpu` while `others` are busy; uses processes, because Python threads share a lock."""
    children = []
    for other in others:
        pid = os.fork()
        if pid == 0:
            os.sched_setaffinity(0, {other})
            while True:
                work()
        children.append(pid)
    time.sleep(0.02)
    taken = alone(cpu)
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return taken


def main():
    count = int(sys.argv[1])
    avoid = {int(c) for c in sys.argv[2].split(",")} if len(sys.argv) > 2 and sys.argv[2] else set()
    cpus = sorted(os.sched_getaffinity(0) - avoid)
    times = {cpu: alone(cpu) for cpu in cpus}
    order = sorted(cpus, key=times.get)
    chosen = order[:1]
    for cpu in order[1:]:
        if len(chosen) < count and beside(cpu, chosen) < 1.15 * times[cpu]:
            chosen.append(cpu)
    chosen += [cpu for cpu in order if cpu not in chosen][: max(0, count - len(chosen))]
    print(",".join(str(cpu) for cpu in chosen))


if __name__ == "__main__":
    main()
