#!/bin/sh
# Builds test programs under a sanitizer and runs them.
# usage: sanitized_tests.sh asan|tsan LIBTORCH JOBS all|PROGRAM...
set -e
cd "$(dirname "$0")/.."
preset=$1 libtorch=$2 jobs=$3
shift 3
mkdir -p "build-$preset"
[ -f "build-$preset/build.ninja" ] && grep -qxF "LibTorch_DIR:PATH=$libtorch" "build-$preset/CMakeCache.txt" ||
  cmake --fresh --preset "$preset" -DTORCH_DIR="$libtorch" >"build-$preset/setup.log" 2>&1 ||
  { cat "build-$preset/setup.log" >&2; exit 1; }
if [ "$1" = all ]; then
  cmake --build "build-$preset" -j "$jobs"
  exec ctest --test-dir "build-$preset" -LE slow --output-on-failure --no-tests=error -j "$jobs"
fi
cmake --build "build-$preset" -j "$jobs" --target "$@"
for program; do
  echo "$preset: $program"
  "build-$preset/bin/$program" --gtest_filter='-*Slow*' --gtest_brief=1
done
