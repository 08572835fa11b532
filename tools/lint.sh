#!/bin/sh
# clang-format in check mode, the include order, and clang-tidy where it is installed.
# usage: lint.sh LIBTORCH JOBS [FILE...]     (no FILE: every source of src and apps)
set -e
cd "$(dirname "$0")/.."
libtorch=$1 jobs=$2
shift 2

tools/check_includes.sh
command -v clang-format >/dev/null || { echo "lint: clang-format is not installed (apt-get install clang-format)" >&2; exit 1; }
git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run -Werror
command -v clang-tidy >/dev/null || { echo "lint: clang-tidy is not installed (apt-get install clang-tidy)" >&2; exit 1; }
# clang cannot read the precompiled headers of g++.
mkdir -p build-lint
cmake --preset release -B build-lint -DTORCH_DIR="$libtorch" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DSLUICE_BUILD_TESTS=OFF >build-lint/setup.log 2>&1 || { cat build-lint/setup.log >&2; exit 1; }
[ $# -gt 0 ] || set -- $(git ls-files 'src/*.cpp' 'apps/*.cpp')
printf '%s\n' "$@" | xargs -P "$jobs" -n 1 clang-tidy --quiet -p build-lint
