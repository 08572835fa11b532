"""Tests the wheel like a user: check_wheel.py SOURCE BUILD TORCH_FOLDER.

Makes the wheel and installs it into a fresh environment without compiling, first without LibTorch and then with it.
Runs there what docs/install.md describes. Compiles only the planner's example and one that trains against
site-packages. Runs auditwheel if it is installed.
"""

import glob
import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

SOURCE, BUILD, TORCH = (os.path.abspath(path) for path in sys.argv[1:4])
CLEAN = {key: value for key, value in os.environ.items()
         if key not in ("LD_LIBRARY_PATH", "LD_PRELOAD", "TORCH_DIR", "CMAKE_PREFIX_PATH", "PYTHONPATH", "PYTHONHOME")}


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, env=CLEAN, **options)


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keep = tempfile.TemporaryDirectory(prefix="sluice-wheel-")
        cls.folder = cls.keep.name
        made = run(sys.executable, os.path.join(SOURCE, "tools/make_wheel.py"), BUILD, cls.folder)
        assert made.returncode == 0, made.stderr
        cls.wheel, = glob.glob(os.path.join(cls.folder, "*.whl"))
        cls.environment = os.path.join(cls.folder, "env")
        made = run(sys.executable, "-m", "venv", cls.environment)
        assert made.returncode == 0, made.stdout + made.stderr
        cls.python = os.path.join(cls.environment, "bin/python")
        began = time.monotonic()
        made = run(cls.python, "-m", "pip", "install", "--no-index", "--quiet", cls.wheel)
        cls.install_seconds = time.monotonic() - began
        assert made.returncode == 0, made.stderr
        cls.site, = glob.glob(os.path.join(cls.environment, "lib/python3*/site-packages"))
        cls.package = os.path.join(cls.site, "sluice")
        cls.sluice = os.path.join(cls.environment, "bin/sluice")

    @classmethod
    def tearDownClass(cls):
        cls.keep.cleanup()

    def setUp(self):
        self.work = tempfile.mkdtemp(dir=self.folder)

    def torch(self, version=None):
        """Puts LibTorch into the environment, or a folder that claims to be another version, for one test."""
        place = os.path.join(self.site, "torch")
        if version is None:
            os.symlink(TORCH, place)
            self.addCleanup(os.remove, place)
        else:
            os.makedirs(os.path.join(place, "lib"))
            open(os.path.join(place, "lib/libtorch_cpu.so"), "w").close()
            with open(os.path.join(place, "version.py"), "w") as file:
                file.write(f"__version__ = '{version}'\n")
            self.addCleanup(shutil.rmtree, place)

    def test_entries_are_regular_files_of_a_few_megabytes(self):
        with zipfile.ZipFile(self.wheel) as archive:
            for entry in archive.infolist():
                mode = entry.external_attr >> 16
                self.assertTrue(stat.S_ISREG(mode), entry.filename)
                self.assertEqual(bool(mode & 0o100), "/bin/" in entry.filename or ".so" in entry.filename, entry.filename)
            self.assertIsNone(archive.testzip())
        self.assertLess(os.path.getsize(self.wheel), 6e6)
        self.assertLess(self.install_seconds, 10)
        for program in ("sluice", "sluice-run"):
            self.assertTrue(os.access(os.path.join(self.package, "bin", program), os.X_OK))

    def test_the_export_tool_is_the_one_that_is_printed(self):
        with open(os.path.join(self.package, "share/sluice/sluice_export.py")) as file:
            self.assertEqual(run(self.sluice, "graph", "tool").stdout, file.read())

    def test_the_same_build_makes_the_same_wheel(self):
        again = os.path.join(self.work, "again")
        self.assertEqual(run(sys.executable, os.path.join(SOURCE, "tools/make_wheel.py"), BUILD, again).returncode, 0)
        with open(os.path.join(again, os.path.basename(self.wheel)), "rb") as new, open(self.wheel, "rb") as old:
            self.assertEqual(new.read(), old.read())

    def test_libraries_have_the_names_that_are_asked_for(self):
        for path in glob.glob(self.package + "/bin/*") + glob.glob(self.package + "/lib/*.so*"):
            self.assertFalse(os.path.islink(path))
            text = run("readelf", "--dynamic", "--wide", path).stdout
            self.assertNotIn("toml", text)
            self.assertIn("$ORIGIN/../../torch/lib", text)
            for line in text.splitlines():
                if "NEEDED" in line and "libsluice" in line:
                    name = line.split("[")[1].rstrip("]")
                    self.assertTrue(os.path.isfile(os.path.join(self.package, "lib", name)), name)

    def test_nothing_names_the_machine_that_built_it(self):
        for path in glob.glob(self.package + "/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
                for folder in (SOURCE, BUILD, TORCH):
                    self.assertFalse(folder.encode() in data, f"{path} names {folder}")

    def test_the_tag_is_what_auditwheel_says(self):
        if importlib.util.find_spec("auditwheel") is None:
            self.skipTest("auditwheel is not installed")
        shown = run(sys.executable, "-m", "auditwheel", "show", self.wheel)
        text = " ".join((shown.stdout + shown.stderr).split())
        tag = os.path.basename(self.wheel)[:-4].split("-")[-1]
        self.assertTrue(f'constrains the platform tag to "{tag}"' in text or f'platform tag: "{tag}"' in text, text)

    def test_torch_comes_only_with_the_extra(self):
        with open(glob.glob(self.site + "/sluice_train-*.dist-info/METADATA")[0]) as file:
            needed = [line for line in file if line.startswith("Requires-Dist")]
        self.assertEqual(len(needed), 1)
        self.assertRegex(needed[0], r"^Requires-Dist: torch \(==2\.\d+\.\*\) ; extra == 'train'$")

    def test_plans_without_torch(self):
        found = run(self.sluice, "schedule", "--search", "--pp", 2, "--microbatches", 8, "--stages-per-rank", 2,
                    "--costs", "F=1,B=2", "--out", "found.csv", cwd=self.work)
        self.assertEqual(found.returncode, 0, found.stderr)
        drawn = run(self.sluice, "schedule", "--csv", "found.csv", "--stage-to-rank", "loop", "--draw", "found.svg",
                    cwd=self.work)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        with open(os.path.join(self.work, "found.svg")) as file:
            self.assertIn("<svg", file.read())
        module = run(self.python, os.path.join(SOURCE, "tests/wheel/use_module.py"), cwd=self.work)
        self.assertEqual(module.returncode, 0, module.stdout + module.stderr)
        as_module = run(self.python, "-m", "sluice", "--version")
        self.assertEqual(as_module.stdout, run(self.sluice, "--version").stdout)

    def test_says_what_to_do_without_torch(self):
        for command in (["train", "run.toml"], ["eval", "run.toml"], ["sample", "model", "--prompt", "x"],
                        ["checkpoint", "list", "."], ["plan", "run.toml", "--measure", "out.json"], ["init"]):
            told = run(self.sluice, *command, cwd=self.work)
            self.assertEqual(told.returncode, 2, command)
            self.assertIn("needs LibTorch 2.", told.stderr)
            self.assertIn("pip install 'torch==2.", told.stderr)
        self.assertEqual(os.listdir(self.work), [])
        version = json.loads(run(self.sluice, "--version", "--json").stdout)
        self.assertIsNone(version["torch_found"])
        self.assertRegex(version["torch"], r"^2\.")

    def test_refuses_another_minor_version_of_torch(self):
        self.torch("2.3.1+cpu")
        told = run(self.sluice, "train", "run.toml", cwd=self.work)
        self.assertEqual(told.returncode, 2)
        self.assertIn("but the one found is 2.3.1+cpu", told.stderr)
        self.assertEqual(json.loads(run(self.sluice, "--version", "--json").stdout)["torch_found"], "2.3.1+cpu")

    def test_the_quickstart_has_the_bits_of_the_build(self):
        self.torch()
        version = json.loads(run(self.sluice, "--version", "--json").stdout)
        self.assertEqual(version["torch_found"].split("+")[0], version["torch"])
        begun = run(self.sluice, "init", "here", cwd=self.work)
        self.assertEqual(begun.returncode, 0, begun.stderr)
        here = os.path.join(self.work, "here")
        self.assertEqual(sorted(os.listdir(here)), ["quickstart-model", "quickstart.toml"])
        spaced = run(self.sluice, "init", "it's here", cwd=self.work)
        command = spaced.stdout.splitlines()[2].strip()
        planned = run("sh", "-c", command.replace("sluice", self.sluice, 1), cwd=self.work)
        self.assertEqual(planned.returncode, 0, command + planned.stderr)
        again = run(self.sluice, "init", "here", cwd=self.work)
        self.assertEqual(again.returncode, 2)
        self.assertIn("exists already", again.stderr)
        lines = []
        for program, config, folder in (
                (self.sluice, os.path.join(here, "quickstart.toml"), os.path.join(self.work, "a")),
                (os.path.join(BUILD, "bin/sluice"), os.path.join(SOURCE, "examples/quickstart.toml"),
                 os.path.join(self.work, "b"))):
            ran = run(program, "train", config, "--training.steps", 3, "--metrics.folder", folder,
                      "--checkpoint.folder", folder + "/checkpoint", cwd=self.work)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            with open(os.path.join(folder, "metrics.jsonl")) as file:
                values = [json.loads(line) for line in file]
            lines.append([(value["loss"], value["grad_norm"]) for value in values])
        self.assertEqual(len(lines[0]), 3)
        self.assertEqual(lines[0], lines[1])

    def test_is_found_by_cmake_in_site_packages(self):
        self.torch()
        prefix = run(self.python, "-c", "import sluice; print(sluice.cmake_prefix())").stdout.strip()
        example = os.path.join(self.work, "example")
        for step in (["cmake", "-S", os.path.join(SOURCE, "examples/use_installed"), "-B", example,
                      "-DCMAKE_PREFIX_PATH=" + prefix],
                     ["cmake", "--build", example, "--target", "plan_a_schedule", "train_my_modules"],
                     [os.path.join(example, "plan_a_schedule")], [os.path.join(example, "train_my_modules")]):
            ran = run(*step, cwd=self.work)
            self.assertEqual(ran.returncode, 0, ran.stdout[-3000:] + ran.stderr[-3000:])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
