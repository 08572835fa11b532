#!/bin/sh
# Builds test programs under a sanitizer and runs their tests except the slow ones.
# usage: sanitized_tests.sh asan|tsan LIBTORCH JOBS all|PROGRAM...      (PROGRAM: plan_tests, io_tests, ..)
set -e
cd "$(dirname "$0")/.."
preset=$1 libtorch=$2 jobs=$3
shift 3
mkdir -p "build-$preset"
[ -f "build-$preset/build.ninja" ] && grep -qxF "LibTorch_DIR:PATH=$libtorch" "build-$preset/CMakeCache.txt" ||
  cmake --fresh --preset "$preset" -DTORCH_DIR="$libtorch" >"build-$preset/setup.log" 2>&1 ||
  { cat "build-$preset/setup.log" >&2; exit 1; }
echo "$preset: $*"
if [ "$1" = all ]; then
  cmake --build "build-$preset" -j "$jobs"
  exec tools/run_tests.sh "build-$preset" "$jobs" -LE slow
fi
cmake --build "build-$preset" -j "$jobs" --target "$@"
rooms=$(printf '%s|' "$@" | sed 's/_tests//g; s/|$//')
exec tools/run_tests.sh "build-$preset" "$jobs" -LE slow -R "^($rooms)\\."
