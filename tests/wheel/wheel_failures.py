"""Checks what make_wheel.py prints if a program that it runs fails: wheel_failures.py MAKE_WHEEL."""

import os
import subprocess
import sys
import tempfile
import unittest

MAKE_WHEEL = os.path.abspath(sys.argv[1])


class WheelFailuresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-wheel-")
        self.addCleanup(folder.cleanup)
        self.build = os.path.join(folder.name, "build")
        self.out = os.path.join(folder.name, "dist")
        os.mkdir(self.build)

    def write(self, name, text):
        with open(os.path.join(self.build, name), "w") as file:
            file.write(text)

    def failure(self, **options):
        """Returns the lines of stderr when a wheel cannot be made."""
        ran = subprocess.run([sys.executable, MAKE_WHEEL, self.build, self.out], capture_output=True, text=True, **options)
        self.assertEqual(ran.returncode, 1)
        self.assertNotIn("Traceback", ran.stderr)
        self.assertFalse(os.path.exists(self.out))
        return ran.stderr.splitlines()

    def test_prints_the_text_of_cmake(self):
        self.write("CMakeCache.txt", "CMAKE_PROJECT_VERSION:STATIC=1.2.3\n")
        self.write("cmake_install.cmake", 'message(FATAL_ERROR "the disk of this test is full")\n')
        lines = self.failure()
        self.assertIn("the disk of this test is full", "\n".join(lines[:-1]))
        self.assertTrue(lines[-1].startswith("make_wheel: error: 'cmake --install "), lines[-1])
        self.assertIn("has failed with exit code 1", lines[-1])

    def test_names_the_program_that_is_missing(self):
        self.write("CMakeCache.txt", "CMAKE_PROJECT_VERSION:STATIC=1.2.3\n")
        lines = self.failure(env={**os.environ, "PATH": self.build})
        self.assertEqual(lines, ["make_wheel: error: cannot run cmake: No such file or directory; install it"])

    def test_names_the_build_that_is_missing(self):
        lines = self.failure()
        self.assertEqual(len(lines), 1)
        self.assertIn("CMakeCache.txt: No such file or directory; build first: make build", lines[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
