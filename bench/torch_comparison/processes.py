"""Memory and processor time of running processes, from the kernel. Linux only."""

import os
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")
MB = 1 << 20


def cpu_seconds(pids):
    """Returns user and system time so far, over all threads."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def _kilobytes(path, key):
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith(key):
                return int(line.split()[1])
    return 0


class MemoryWatch:
    """Measures the peak memory of all processes together while it is open, in MiB. Resident memory (rss)
    counts shared pages in each process. Proportional memory (pss) counts a page shared by n processes as
    1/n in each. Sampling disturbs the processes, so no step is timed meanwhile."""

    def __init__(self, pids, interval=0.05):
        self.pids, self.interval = pids, interval
        self.rss = self.pss = 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def _run(self):
        while not self.ended.is_set():
            try:
                rollups = [f"/proc/{pid}/smaps_rollup" for pid in self.pids]
                self.rss = max(self.rss, sum(_kilobytes(path, "Rss:") for path in rollups) / 1024)
                self.pss = max(self.pss, sum(_kilobytes(path, "Pss:") for path in rollups) / 1024)
            except (FileNotFoundError, ProcessLookupError):  # the process has ended
                return
            time.sleep(self.interval)
