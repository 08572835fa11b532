#!/usr/bin/env python3
"""Makes a wheel of a finished build: make_wheel.py BUILD OUT_FOLDER (docs/install.md).

Needs cmake and binutils, which the build needs too, and downloads nothing. The wheel has the files of `cmake --install`,
stripped, with search paths for a wheel: it loads LibTorch from the same site-packages. As in auditwheel (PEP 600), the
tag gives the oldest glibc and libstdc++ that have every symbol that the files need. No file depends on Python's version.
"""

import base64
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

# The wheel's name for pip, because "sluice" on PyPI and in Debian are other programs. The import and the
# command are named sluice.
DISTRIBUTION = "sluice-train"
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM_PATHS = "$ORIGIN/../lib:$ORIGIN/../../torch/lib"
LIBRARY_PATHS = "$ORIGIN:$ORIGIN/../../torch/lib"
# Newest GLIBCXX of each manylinux policy (auditwheel's manylinux-policy.json).
GLIBCXX = [(28, "3.4.24"), (31, "3.4.28"), (34, "3.4.29"), (35, "3.4.30"), (39, "3.4.32")]
# Libraries of LibTorch, and those that every Linux has.
KNOWN = re.compile(r"^(lib(stdc\+\+|gcc_s|c|m|dl|rt|pthread|z)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+|lib(torch\w*|c10\w*)\.so|"
                   r"libsluice(_plan|_models|_models_plan)?\.so\.[\d.]+)$")


def fail(what):
    sys.exit("make_wheel: error: " + what)


def output(*command):
    try:
        ran = subprocess.run(command, capture_output=True, text=True)
    except OSError as failed:
        fail(f"cannot run {command[0]}: {failed.strerror}; install it")
    if ran.returncode != 0:
        sys.stderr.write(ran.stdout + ran.stderr)
        fail(f"'{' '.join(command)}' has failed with exit code {ran.returncode}; mend what it says above")
    return ran.stdout


def cache_value(build, name):
    try:
        with open(os.path.join(build, "CMakeCache.txt")) as file:
            for line in file:
                if line.startswith(name + ":"):
                    return line.split("=", 1)[1].strip()
    except OSError as failed:
        fail(f"cannot open {failed.filename}: {failed.strerror}; build first: make build")
    fail(f"{build}/CMakeCache.txt has no {name}; build first: make build")


def section(data, wanted):
    """Returns offset, size and link of the first section of a type in a 64-bit ELF file."""
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for i in range(count):
        _, kind, _, _, place, length, link, *_ = struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size)
        if kind == wanted:
            return place, length, offset + link * size
    fail("an ELF file has no dynamic section")


def set_search_paths(path, paths):
    """Replaces RUNPATH by one that is not longer, so that no offsets change."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    place, length, link = section(data, 6)  # SHT_DYNAMIC
    names, = struct.unpack_from("<Q", data, link + 0x18)
    for at in range(place, place + length, 16):
        tag, value = struct.unpack_from("<qQ", data, at)
        if tag in (15, 29):  # DT_RPATH, DT_RUNPATH
            end = data.index(0, names + value)
            room = end - names - value
            if len(paths) > room:
                fail(f"{path} has no room for its search paths")
            data[names + value:end] = paths.encode().ljust(room, b"\0")
            with open(path, "wb") as file:
                file.write(data)
            return
    fail(f"{path} has no search paths")


def needed_versions(path):
    """Returns {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 30)} for the symbols that a file needs, and the libraries
    that it needs."""
    text = output("readelf", "--version-info", "--wide", path)
    versions = {}
    for name, number in re.findall(r"Name: (GLIBC|GLIBCXX)_([\d.]+)", text):
        versions[name] = max(versions.get(name, ()), tuple(map(int, number.split("."))))
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--dynamic", "--wide", path))
    return versions, libraries


def tag_of(files):
    glibc, glibcxx = (2, 17), (3, 4)
    for path in files:
        versions, libraries = needed_versions(path)
        glibc = max(glibc, versions.get("GLIBC", ()))
        glibcxx = max(glibcxx, versions.get("GLIBCXX", ()))
        for library in libraries:
            if not KNOWN.match(library):
                fail(f"{path} needs {library}, which a wheel does not bring")
    minors = [minor for minor, newest in GLIBCXX if tuple(map(int, newest.split("."))) >= glibcxx]
    if not minors:
        fail(f"GLIBCXX_{'.'.join(map(str, glibcxx))} is newer than any known policy")
    return f"py3-none-manylinux_2_{max(glibc[1], minors[0])}_{os.uname().machine}"


def install(build, folder):
    package = os.path.join(folder, "sluice")
    output("cmake", "--install", build, "--prefix", package, "--strip", "--component", "Unspecified")
    shutil.rmtree(os.path.join(package, "share", "doc"))  # the wheel has its own LICENSE
    library_folder = os.path.join(package, "lib")
    if not os.path.isdir(library_folder):
        fail("the build installs libraries elsewhere than in lib; configure it with -DCMAKE_INSTALL_LIBDIR=lib")
    programs, libraries = [], []
    for name in sorted(os.listdir(os.path.join(package, "bin"))):
        programs.append(os.path.join(package, "bin", name))
    for name in sorted(os.listdir(library_folder)):
        path = os.path.join(library_folder, name)
        if os.path.islink(path):
            # wheels cannot hold links; the file already has the name that the loader looks for
            os.remove(path)
        elif ".so" in name:
            libraries.append(path)
    for path in programs:
        set_search_paths(path, PROGRAM_PATHS)
    for path in libraries:
        set_search_paths(path, LIBRARY_PATHS)
    config = os.path.join(library_folder, "cmake", "sluice", "sluiceConfig.cmake")
    with open(config) as file:
        text = file.read()
    hint = ' "' + re.search(r'set\(LibTorch_HINTS "[^"]*" "([^"]*)"\)', text).group(1) + '"'
    with open(config, "w") as file:
        file.write(text.replace(hint, ""))
    python = os.path.join(SOURCE, "python", "sluice")
    for name in sorted(os.listdir(python)):
        if name.endswith((".py", ".typed")):
            shutil.copy(os.path.join(python, name), package)
    return programs + libraries


def metadata(version, torch):
    with open(os.path.join(SOURCE, "README.md")) as file:
        readme = file.read()
    minor = ".".join(torch.split(".")[:2])
    return f"""Metadata-Version: 2.1
Name: {DISTRIBUTION}
Version: {version}
Summary: Pipeline-parallel training in C++ on LibTorch
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: train
Requires-Dist: torch (=={minor}.*) ; extra == 'train'
Description-Content-Type: text/markdown

{readme}"""


def pack(folder, path):
    records = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16  # pip keeps the mode bits of regular files only
            archive.writestr(entry, data)

        for where, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                full = os.path.join(where, name)
                short = os.path.relpath(full, folder)
                with open(full, "rb") as file:
                    data = file.read()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                records.append(f"{short},sha256={digest},{len(data)}")
                add(short, data, 0o755 if os.access(full, os.X_OK) or ".so" in name else 0o644)
                if name == "METADATA":
                    record = os.path.join(os.path.dirname(short), "RECORD")
        add(record, "\n".join([*records, record + ",,"]) + "\n", 0o644)


def main(build, out):
    version = cache_value(build, "CMAKE_PROJECT_VERSION")
    torch = None
    with tempfile.TemporaryDirectory() as folder:
        files = install(build, folder)
        with open(os.path.join(folder, "sluice/lib/cmake/sluice/sluiceConfig.cmake")) as file:
            found = re.search(r'VERSION_EQUAL "([\d.]+)"', file.read())
        torch = found.group(1) if found else fail("the build has no LibTorch; a wheel is of the whole of sluice")
        tag = tag_of(files)
        facts = os.path.join(folder, f"{DISTRIBUTION.replace('-', '_')}-{version}.dist-info")
        os.mkdir(facts)
        shutil.copy(os.path.join(SOURCE, "LICENSE"), facts)
        for name, text in [("METADATA", metadata(version, torch)),
                           ("WHEEL", f"Wheel-Version: 1.0\nGenerator: sluice\nRoot-Is-Purelib: false\nTag: {tag}\n"),
                           ("entry_points.txt", "[console_scripts]\nsluice = sluice.__main__:main\n")]:
            with open(os.path.join(facts, name), "w") as file:
                file.write(text)
        os.makedirs(out, exist_ok=True)
        path = os.path.join(out, f"{DISTRIBUTION.replace('-', '_')}-{version}-{tag}.whl")
        pack(folder, path + ".part")
        os.replace(path + ".part", path)
    print(f"{path}: {os.path.getsize(path) / 1e6:.2f} MB, for torch {torch}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
