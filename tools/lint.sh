#!/bin/sh
# Format and include order of everything, and clang-tidy of the sources named.
# usage: lint.sh LIBTORCH JOBS [all | since REVISION | FILE...]     (nothing named: no clang-tidy)
set -e
cd "$(dirname "$0")/.."
libtorch=$1 jobs=$2
shift 2

need() { command -v "$1" >/dev/null || { echo "lint: $1 is not installed (apt-get install $1)" >&2; exit 1; }; }

tools/check_includes.sh
need clang-format
git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run -Werror

case $1 in
  all) set -- $(git ls-files 'src/*.cpp' 'apps/*.cpp') ;;
  since) set -- $(git diff --name-only --diff-filter=d "$2" -- 'src/*.cpp' 'apps/*.cpp') ;;
esac
[ $# -gt 0 ] || exit 0
need clang-tidy
# clang cannot read the precompiled headers of g++.
mkdir -p build-lint
cmake --preset release -B build-lint -DTORCH_DIR="$libtorch" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DSLUICE_BUILD_TESTS=OFF -DSLUICE_JOIN_SOURCES=OFF >build-lint/setup.log 2>&1 || { cat build-lint/setup.log >&2; exit 1; }
printf '%s\n' "$@" | xargs -P "$jobs" -n 1 clang-tidy --quiet -p build-lint
