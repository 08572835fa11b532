"""Every wrong use of the Python module must raise a sluice.Error: module_refusals.py SOURCE SLUICE.

The package consists of links to the module and to the program of the build, so no wheel is needed.
"""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, SLUICE = (os.path.abspath(path) for path in sys.argv[1:3])
KEEP = tempfile.TemporaryDirectory(prefix="sluice-module-")
PACKAGE = os.path.join(KEEP.name, "sluice")
PROGRAM = os.path.join(PACKAGE, "bin/sluice")
os.makedirs(os.path.dirname(PROGRAM))
for name in ("__init__.py", "__main__.py"):
    os.symlink(os.path.join(SOURCE, "python/sluice", name), os.path.join(PACKAGE, name))
os.symlink(SLUICE, PROGRAM)
sys.path.insert(0, KEEP.name)

import sluice  # noqa: E402


class ModuleRefusalsTest(unittest.TestCase):
    def setUp(self):
        self.order = sluice.schedule("1F1B", 2, 4)

    def refused(self, code, fact, call):
        """Calls and expects a sluice.Error. Other exceptions end the test."""
        with self.assertRaises(sluice.Error) as raised:
            call()
        error = raised.exception
        self.assertIn(fact, error.fact)
        self.assertEqual(error.code, code, error)
        self.assertTrue(error.where and error.remedy, error)

    def use_program(self, text):
        """Replaces the sluice program by another one, or by none, for one test."""
        os.remove(PROGRAM)
        if text is not None:
            with open(PROGRAM, "w") as file:
                file.write(text)
            os.chmod(PROGRAM, 0o755)

        def restore():
            if os.path.exists(PROGRAM):
                os.remove(PROGRAM)
            os.symlink(SLUICE, PROGRAM)

        self.addCleanup(restore)

    def test_options_that_print_a_text(self):
        self.refused(2, "the output is not JSON", lambda: sluice.split(help=True))
        self.refused(2, "the output is not JSON", lambda: sluice.plan("run.toml", help=""))

    def test_a_configuration_whose_name_looks_like_an_option(self):
        for name in ("--help", "--version", "-"):
            self.refused(2, "cannot open file", lambda: sluice.plan(name))

    def test_values_that_look_like_options(self):
        self.refused(2, "unknown schedule '--help'", lambda: sluice.schedule("--help", 2, 4))
        self.refused(2, "'--help' is not a value of --pp", lambda: sluice.schedule("1F1B", "--help", 4))
        self.refused(2, "unknown transport '--help'", lambda: sluice.verify(self.order, "--help"))
        self.refused(3, "cannot open file", lambda: sluice.simulate(self.order, "--help"))

    def test_kinds_of_pictures(self):
        for kind in ("/../../x.svg", "png", "SVG", "", None, 5):
            self.refused(2, f"{kind!r} is not a kind of picture", lambda: sluice.picture(self.order, format=kind))

    def test_texts_that_no_program_can_take(self):
        for name in ("1F\0B", "\ud800"):
            self.refused(2, "a value cannot be given to a program", lambda: sluice.schedule(name, 2, 4))
        self.refused(2, "the arguments are too long", lambda: sluice.schedule("x" * 2_000_000, 2, 4))

    def test_values_that_are_not_json(self):
        loop = []
        loop.append(loop)
        for value in ({1}, object(), loop, {(1, 2): 3}):
            self.refused(2, "a value cannot be written as JSON", lambda: sluice.plan("run.toml", training__steps=value))
            self.refused(2, "a value cannot be written as JSON", lambda: sluice.simulate(self.order, {"F": value}))
            self.refused(2, "a value cannot be written as JSON", lambda: sluice.split(layers=[value]))
        self.refused(3, "not valid JSON", lambda: sluice.simulate(self.order, {"F": float("nan")}))

    def test_texts_that_cannot_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            binary = os.path.join(folder, "binary.csv")
            with open(binary, "wb") as file:
                file.write(b"\xff\xfe0F0")
            for value in (5, None, "a\0b", binary):
                self.refused(3, "cannot read a schedule", lambda: sluice.read(value))
            self.refused(3, "cannot open file", lambda: sluice.read(folder))
            self.refused(3, "cannot open file", lambda: sluice.read(os.fsencode(folder)))

    def test_rows_with_odd_digits(self):
        for text in ("\u00b2F0,0B0\n", "\u0663F0,0B0\n", "9" * 5000 + "F0,0B0\n"):
            self.refused(3, "is not an action", lambda: sluice.verify(sluice.read(text)))

    def test_maps_of_stages(self):
        for value in (5, 1.5, object()):
            self.refused(2, "is not a stage-to-rank map", lambda: sluice.read(self.order.csv, value))
            self.refused(2, "is not a stage-to-rank map", lambda: sluice.search({"F": 1}, 2, 4, stage_to_rank=value))
            self.refused(2, "is not a stage-to-rank map",
                         lambda: sluice.verify(sluice.Schedule(self.order.csv, [], value)))
        self.refused(2, "is not a stage-to-rank map", lambda: sluice.verify(sluice.read(self.order.csv, ["x"])))

    def test_what_is_no_schedule(self):
        for call in (sluice.verify, sluice.simulate, sluice.picture):
            for value in (self.order.csv, None, 5):
                self.refused(2, "is not a Schedule", lambda: call(value))
            for csv in (5, "0F0\ud800"):
                self.refused(2, "is not a text", lambda: call(sluice.Schedule(csv, [], [0])))

    def test_a_program_that_is_missing_or_cannot_run(self):
        calls = [lambda: sluice.schedule("1F1B", 2, 4), lambda: sluice.plan("run.toml"), lambda: sluice.split(layers=2),
                 lambda: sluice.verify(self.order)]
        self.use_program(None)
        for call in calls:
            self.refused(3, "cannot run the program: No such file", call)
        ran = subprocess.run([sys.executable, "-m", "sluice", "--version"], capture_output=True, text=True, cwd=KEEP.name)
        self.assertEqual(ran.returncode, 3)
        self.assertTrue(ran.stderr.startswith("sluice: error: cannot run the program: No such file"), ran.stderr)
        os.mkdir(PROGRAM)
        try:
            self.refused(3, "cannot run the program: Permission denied", calls[0])
        finally:
            os.rmdir(PROGRAM)

    def test_another_program_of_the_same_name(self):
        self.use_program("#!/bin/sh\nprintf '\\377'\n")
        self.refused(2, "the output is not JSON", lambda: sluice.plan("run.toml"))
        self.refused(3, "cannot use a temporary file", lambda: sluice.schedule("1F1B", 2, 4))

    def test_a_temporary_folder_that_cannot_be_used(self):
        old = tempfile.tempdir
        tempfile.tempdir = os.path.join(KEEP.name, "none")
        self.addCleanup(setattr, tempfile, "tempdir", old)
        self.refused(3, "cannot use a temporary file", lambda: sluice.verify(self.order))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
