"""Starts processes of one of these modules, sends each a line, and reads a line of JSON from each."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time


class PeerFailed(Exception):
    """The peer's error in one line."""


class Workers:
    """Python processes of `module`, one for each list of arguments. They use no processor time between calls."""

    def __init__(self, python, module, argument_lists, cache):
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TORCHINDUCTOR_CACHE_DIR=cache,
                           PYTHONPATH=os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                           TOKENIZERS_PARALLELISM="false")
        self.started = time.time()
        self.errors = [tempfile.TemporaryFile("w+", errors="replace") for _ in argument_lists]
        self.processes = [
            subprocess.Popen([python, "-m", f"torch_comparison.{module}", *map(str, arguments)], env=environment,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
            for arguments, errors in zip(argument_lists, self.errors)]

    @property
    def pids(self):
        return [process.pid for process in self.processes]

    def call(self, line, seconds):
        """Returns the answers in the order of the processes. Raises PeerFailed if a process ends or the call
        takes too long."""
        for process in self.processes:
            try:
                process.stdin.write((line + "\n").encode())
                process.stdin.flush()
            except BrokenPipeError:
                self._fail()
        texts = [b""] * len(self.processes)
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for i, process in enumerate(self.processes):
                selector.register(process.stdout, selectors.EVENT_READ, i)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    self.close()
                    raise PeerFailed(f"no answer within {seconds:.0f} s")
                for key, _ in ready:
                    read = os.read(key.fd, 1 << 16)
                    if not read:
                        self._fail()
                    texts[key.data] += read
                    if texts[key.data].endswith(b"\n"):
                        selector.unregister(key.fileobj)
        return [json.loads(text) for text in texts]

    def _fail(self):
        """Reports the first failure. Ranks that wait for the failed rank complain later, and their errors do
        not count."""
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline and all(p.poll() is None for p in self.processes):
            time.sleep(0.01)
        failed = [i for i, p in enumerate(self.processes) if p.poll()] or range(len(self.processes))
        self.close()
        for i in failed:
            self.errors[i].seek(0)
            lines = [text.strip() for text in self.errors[i] if text.strip()]
            errors = [text for text in lines if "Error:" in text]
            if errors or lines:
                raise PeerFailed((errors or lines)[-1].removeprefix(f"[rank{i}]: "))
        raise PeerFailed("ended without a word")

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def python_lacks(python):
    """Returns a text that lists the packages missing in this Python, or ""."""
    found = subprocess.run([python, "-c", "import torch, transformers, safetensors"], capture_output=True, text=True,
                           check=False) if os.path.exists(python) else None
    if found is None:
        return f"{python} does not exist"
    return found.stderr.strip().splitlines()[-1] if found.returncode else ""


def run_once(python, code, arguments):
    """Runs a function of these modules in the other Python."""
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run([python, "-c", code, *map(str, arguments)], env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        sys.exit(done.stderr)
