#!/bin/sh
# Checks the format and include order of everything, and runs clang-tidy on the given sources.
# usage: lint.sh LIBTORCH JOBS [all | changed | since REVISION | FILE...]     (no sources: no clang-tidy)
#
# `changed` means changed since LINT_BASE if set, otherwise since this branch left main. On main itself it means the
# newest commit that changed a source. Files that were only renamed are left out. If more than 40 files changed, none are
# checked here, and `make test-all` checks them with all others.
set -e
cd "$(dirname "$0")/.."
libtorch=$1 jobs=$2
shift 2

need() { command -v "$1" >/dev/null || { echo "lint: $1 is not installed (apt-get install $1)" >&2; exit 1; }; }

tools/check_includes.sh
need clang-format
git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run -Werror

base() {
  [ -z "$LINT_BASE" ] || { echo "$LINT_BASE"; return; }
  for main in origin/main main; do
    left=$(git merge-base HEAD $main 2>/dev/null) || continue
    [ "$left" = "$(git rev-parse HEAD)" ] || { echo "$left"; return; }
  done
  newest=$(git log -1 --format=%H -- 'src/*.cpp' 'apps/*.cpp')
  git rev-parse --verify --quiet "$newest^" || git hash-object -t tree /dev/null
}
changed_since() {
  git diff --name-status -M --diff-filter=d "$1" -- 'src/*.cpp' 'apps/*.cpp' | awk '$1 != "R100" { print $NF }'
}

case $1 in
  all) set -- $(git ls-files 'src/*.cpp' 'apps/*.cpp') ;;
  since) set -- $(changed_since "$2") ;;
  changed)
    since=$(base)
    set -- $(changed_since "$since")
    if [ $# -gt 40 ]; then
      echo "skipped: clang-tidy of the $# sources that differ from $since, which are more than 40: make test-all looks at all"
      exit 0
    fi
    echo "lint: clang-tidy of $# sources that differ from $since" ;;
esac
[ $# -gt 0 ] || exit 0
need clang-tidy
# clang cannot read the precompiled headers of g++.
mkdir -p build-lint
cmake --preset release -B build-lint -DTORCH_DIR="$libtorch" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DSLUICE_BUILD_TESTS=OFF -DSLUICE_JOIN_SOURCES=OFF >build-lint/setup.log 2>&1 || { cat build-lint/setup.log >&2; exit 1; }
printf '%s\n' "$@" | xargs -P "$jobs" -n 1 clang-tidy --quiet -p build-lint
