#!/usr/bin/env python3
"""Simulates two machines: two network namespaces of this kernel, connected by a veth pair.

usage: two_machines.py SCENARIO --sluice PROGRAM --model DIRECTORY [--torch-python PYTHON]

Exit code 0: the scenario held. 1: it did not. 77: this machine cannot run it (no root, no tool, no kernel module);
the reason is printed. Namespaces and processes are removed afterwards, also after a failure, a signal or a timeout.
"""
import argparse
import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

A, B = "10.231.77.1", "10.231.77.2"
PORT = 29471  # free, because the network namespace is our own
SECRET = "d1a06c3ef5b94a7c8e2b60f71d935a48"
HEARTBEAT = 2.0
# Seconds in which all processes end after a machine is lost (beyond the heartbeat), and slack for a busy
# machine.
ENDS_WITHIN, SLACK = 5.0, 4.0


class Skip(Exception):
    pass


class Machines:
    """Both namespaces, the link between them, and the processes in them."""

    def __init__(self):
        self.names = [f"sluice{os.getpid()}{side}" for side in "ab"]
        self.children = []
        atexit.register(self.remove)
        if os.geteuid() != 0:
            raise Skip("network namespaces need root")
        if not shutil.which("ip"):
            raise Skip("ip (iproute2) is not installed")
        for name in self.names:
            made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
            if made.returncode != 0:
                raise Skip("no network namespace can be made here: " + made.stderr.strip())
        a, b = self.names
        made = subprocess.run(["ip", "-n", a, "link", "add", "eth0", "type", "veth", "peer", "name",
                               "eth0", "netns", b], capture_output=True, text=True)
        if made.returncode != 0:
            raise Skip("no veth pair can be made here: " + made.stderr.strip())
        for name, address in zip(self.names, (A, B)):
            for line in (f"addr add {address}/24 dev eth0", "link set lo up", "link set eth0 up"):
                subprocess.run(["ip", "-n", name] + line.split(), check=True)
        # Addresses are usable at once, but the link may need a moment.
        reach = ["ip", "netns", "exec", a, sys.executable, "-c",
                 f"import socket; socket.create_server(('{A}', 0)).close()"]
        subprocess.run(reach, check=True)

    def cable(self, state):
        subprocess.run(["ip", "-n", self.names[0], "link", "set", "eth0", state], check=True)

    def slow(self, *words):
        """Slows down both directions of the link."""
        if not shutil.which("tc"):
            raise Skip("tc (iproute2) is not installed")
        for name in self.names:
            made = subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", *words],
                                  capture_output=True, text=True)
            if made.returncode != 0:
                raise Skip(f"tc {words[0]} is not in this kernel: " + made.stderr.strip())

    def start(self, side, command, environment=None):
        child = Child(["ip", "netns", "exec", self.names[side]] + command, environment or {})
        self.children.append(child)
        return child

    def remove(self):
        for child in self.children:
            child.kill()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Child:
    """A program whose output is recorded. It is ended together with all processes that it started."""

    def __init__(self, command, environment):
        self.files = [tempfile.TemporaryFile("w+") for _ in range(2)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.files[0],
                                        stderr=self.files[1], start_new_session=True,
                                        env={**clean, **environment})

    def errors(self):
        self.files[1].seek(0)
        return self.files[1].read()

    def end(self, within):
        """Returns the exit code, or None if the program has not ended in time."""
        try:
            return self.process.wait(max(within, 0.0))
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Run:
    """A configuration in its own folder, on a disk that both machines share."""

    def __init__(self, arguments, folder, steps):
        self.arguments, self.folder = arguments, folder
        os.makedirs(folder)
        with open(os.path.join(folder, "text.txt"), "w") as text:
            for i in range(400):
                text.write(f"the quick brown fox no. {i * i}\n")
        self.config = os.path.join(folder, "run.toml")
        with open(self.config, "w") as config:
            config.write(f"""
[model]
path = "{arguments.model}"
[data]
files = ["text.txt"]
[training]
steps = {steps}
global_batch_size = 8
microbatch_size = 2
seq_len = 16
[optimizer]
lr = 1e-3
[parallelism]
data_parallel_shards = 4
[comm]
heartbeat_seconds = {HEARTBEAT}
init_timeout_seconds = 120
[checkpoint]
folder = "out/checkpoint"
[metrics]
folder = "out"
""")

    def train(self, pp, dp, *options):
        return [self.arguments.sluice, "train", self.config,
                f"--parallelism.pipeline_parallel_degree={pp}",
                f"--parallelism.data_parallel_degree={dp}", *options]

    def launch(self, node, each, pp, dp, *options, restarts=0):
        return [self.arguments.sluice, "launch", "-n", str(each), "--nnodes", "2", "--node-rank",
                str(node), "--rdzv", f"{A}:{PORT}", "--max-restarts", str(restarts),
                "--"] + self.train(pp, dp, *options)[1:]

    def steps(self):
        try:
            with open(os.path.join(self.folder, "out", "metrics.jsonl")) as lines:
                return [json.loads(line) for line in lines if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def wait_for_step(self, step, children):
        deadline = time.monotonic() + 120
        while len(self.steps()) < step:
            ended = [child for child in children if child.end(0.05) is not None]
            require(not ended, "the run ended before step", step, *[c.errors() for c in ended])
            require(time.monotonic() < deadline, "no step", step, *[c.errors() for c in children])

    def numbers(self):
        """Returns losses and norms, and hashes of the last weights and optimizer state."""
        lines = [(m["step"], m["loss"], m["grad_norm"], m["tokens"]) for m in self.steps()]
        name = f"step-{lines[-1][0]:08d}" if lines else "none"
        manifest = os.path.join(self.folder, "out", "checkpoint", name, "manifest.json")
        with open(manifest) as file:
            parts = json.load(file)
        return lines, sorted((t["name"], t["hash"]) for part in ("weights", "optimizer")
                             for t in parts[part])

    def clear(self):
        shutil.rmtree(os.path.join(self.folder, "out"), ignore_errors=True)


def require(holds, *why):
    if holds:
        return
    print("FAILED:", *why, sep="\n  ", flush=True)
    sys.exit(1)


def has(text, *parts):
    for part in parts:
        require(part in text, f"'{part}' is not in:", text)


def reference(run):
    """Returns the numbers of a run in one process."""
    done = subprocess.run(run.train(1, 1), capture_output=True, text=True)
    require(done.returncode == 0, "one process:", done.stderr)
    numbers = run.numbers()
    run.clear()
    return numbers


def all_end_with(code, within, *children):
    deadline = time.monotonic() + within
    codes = [child.end(deadline - time.monotonic()) for child in children]
    require(codes == [code] * len(children), f"exit codes {codes}, not {code}, within {within} s",
            *[child.errors() for child in children])


def launched(machines, run, each, pp, dp, *options, restarts=0):
    return [machines.start(node, run.launch(node, each, pp, dp, *options, restarts=restarts),
                           {"SLUICE_JOB_SECRET": SECRET}) for node in range(2)]


def by_hand(machines, run, pp, dp, *options):
    return [machines.start(rank, run.train(pp, dp, *options),
                           {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": A,
                            "MASTER_PORT": str(PORT), "SLUICE_JOB_SECRET": SECRET})
            for rank in range(2)]


# ---- scenarios ----
def launch_has_the_bits_of_one_process(machines, run):
    expected = reference(run)
    # Stages on both machines, replicas on both, and both kinds of messages between them.
    for each, pp, dp in ((2, 4, 1), (2, 1, 4), (2, 2, 2), (1, 2, 2)):
        all_end_with(0, 120, *launched(machines, run, each, pp, dp))
        require(run.numbers() == expected, f"{pp} x {dp}, {each} processes a machine: other bits")
        run.clear()


def by_hand_has_the_bits_of_one_process(machines, run):
    expected = reference(run)
    for pp, dp in ((2, 1), (1, 2), (2, 2)):
        all_end_with(0, 120, *by_hand(machines, run, pp, dp))
        require(run.numbers() == expected, f"{pp} x {dp}: other bits")
        run.clear()


def torchrun_has_the_bits_of_one_process(machines, run):
    python = run.arguments.torch_python
    if not python or subprocess.run([python, "-c", "import torch.distributed.run"],
                                    capture_output=True).returncode != 0:
        raise Skip("torchrun is not installed")
    expected = reference(run)
    for pp, dp in ((2, 2), (4, 1)):
        children = [machines.start(node, [python, "-m", "torch.distributed.run", "--no-python",
                                          "--nnodes", "2", "--node-rank", str(node),
                                          "--nproc-per-node", "2", "--master-addr", A,
                                          "--master-port", str(PORT)] + run.train(pp, dp))
                    for node in range(2)]
        all_end_with(0, 180, *children)
        require(run.numbers() == expected, f"{pp} x {dp}: other bits")
        run.clear()


def a_narrow_cable_changes_nothing_but_the_time(machines, run):
    slow_cable(machines, run, "tbf", "rate", "4mbit", "burst", "16kbit", "latency", "400ms")


def a_long_cable_changes_nothing_but_the_time(machines, run):
    slow_cable(machines, run, "netem", "delay", "20ms", "5ms")


def slow_cable(machines, run, *words):
    machines.slow(*words)
    expected = reference(run)
    for pp, dp in ((4, 1), (1, 4)):
        all_end_with(0, 180, *launched(machines, run, 2, pp, dp))
        require(run.numbers() == expected, f"{pp} x {dp}: other bits")
        run.clear()


def a_cut_ends_both_sides_which_name_the_other(machines, run):
    long = "--training.steps=1000000"
    for pp, dp in ((2, 2), (4, 1), (1, 4)):
        launchers = launched(machines, run, 2, pp, dp, long)
        run.wait_for_step(3, launchers)
        machines.cable("down")
        all_end_with(5, HEARTBEAT + ENDS_WITHIN + SLACK, *launchers)
        here, there = (launcher.errors() for launcher in launchers)
        has(here, "sluice: error: ", "the launcher of machine 1, pid ",
            "is lost: it has been silent for more than")
        has(there, "sluice: error: sluice launch, pid ", "is lost: it has been silent for more than",
            "sluice: warning: machine 0 is lost")
        machines.cable("up")
        run.clear()


def a_cut_by_hand_ends_both_sides_which_name_the_other(machines, run):
    for pp, dp in ((2, 2), (1, 2)):
        processes = by_hand(machines, run, pp, dp, "--training.steps=1000000")
        run.wait_for_step(3, processes)
        machines.cable("down")
        all_end_with(5, HEARTBEAT + ENDS_WITHIN + SLACK, *processes)
        here, there = (process.errors() for process in processes)
        has(here, "sluice: error: process 1 (rank", "is lost: it has been silent for more than")
        has(there, "sluice: error: process 0, pid ", "is lost: it has been silent for more than")
        machines.cable("up")
        run.clear()


def when_the_cable_is_back_a_run_goes_on(machines, run):
    expected = reference(run)
    launchers = launched(machines, run, 2, 2, 2, "--checkpoint.interval=5", restarts=3)
    run.wait_for_step(12, launchers)
    machines.cable("down")
    deadline = time.monotonic() + 60
    while not all("restart 1 of 3" in launcher.errors() for launcher in launchers):
        require(time.monotonic() < deadline, "no restart", *[c.errors() for c in launchers])
        time.sleep(0.2)
    time.sleep(6)  # long enough for both launchers to report which machine they wait for
    for launcher, other in zip(launchers, ("machine 1 of 2 at ", "machine 0 at ")):
        has(launcher.errors(), f"waiting for {other}{A}:{PORT}")
    machines.cable("up")
    all_end_with(0, 120, *launchers)
    require(run.numbers() == expected, "other bits", *[c.errors() for c in launchers])


def a_machine_that_disappears_and_comes_back_joins_again(machines, run):
    expected = reference(run)
    first, second = launched(machines, run, 2, 2, 2, "--checkpoint.interval=5", restarts=3)
    run.wait_for_step(12, (first, second))
    second.kill()  # kills the launcher and its processes
    deadline = time.monotonic() + HEARTBEAT + ENDS_WITHIN + SLACK
    while "restart 1 of 3" not in first.errors():
        require(time.monotonic() < deadline, "no restart", first.errors())
        time.sleep(0.1)
    has(first.errors(), "machine 1 is lost: restart 1 of 3")
    again = machines.start(1, run.launch(1, 2, 2, 2, "--checkpoint.interval=5", restarts=3),
                           {"SLUICE_JOB_SECRET": SECRET})
    all_end_with(0, 120, first, again)
    require(run.numbers() == expected, "other bits", first.errors(), again.errors())


SCENARIOS = {
    # name: (what, steps)
    "launch": (launch_has_the_bits_of_one_process, 3),
    "by_hand": (by_hand_has_the_bits_of_one_process, 3),
    "torchrun": (torchrun_has_the_bits_of_one_process, 3),
    "narrow_cable": (a_narrow_cable_changes_nothing_but_the_time, 3),
    "long_cable": (a_long_cable_changes_nothing_but_the_time, 3),
    "cut": (a_cut_ends_both_sides_which_name_the_other, 3),
    "cut_by_hand": (a_cut_by_hand_ends_both_sides_which_name_the_other, 3),
    "cable_back": (when_the_cable_is_back_a_run_goes_on, 200),
    "machine_back": (a_machine_that_disappears_and_comes_back_joins_again, 200),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--sluice", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--torch-python", default="")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    play, steps = SCENARIOS[arguments.scenario]
    with tempfile.TemporaryDirectory() as folder:
        try:
            machines = Machines()
            try:
                play(machines, Run(arguments, os.path.join(folder, "run"), steps))
            finally:
                machines.remove()
        except Skip as reason:
            print("skipped:", reason)
            return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
