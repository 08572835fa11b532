#!/bin/sh
# Builds the fuzz targets with clang and runs each for some seconds under ASan and UBSan, starting from the
# corpus in tests. New inputs are kept in build-fuzz/new/TARGET. A failing input is left in build-fuzz, and
# its stack is printed.
# usage: fuzz.sh SECONDS JOBS [TARGET...]
set -e
cd "$(dirname "$0")/.."
seconds=$1 jobs=$2
shift 2
# clang-tidy's package installs clang++ only under a versioned name.
clang=
for name in clang++ $(ls /usr/bin | grep -x 'clang++-[0-9]*' | sort -rV); do
  if command -v "$name" >/dev/null; then
    clang=$name
    break
  fi
done
[ -n "$clang" ] || { echo 'skipped: fuzzers: clang++ is not installed (apt-get install clang)'; exit 0; }
CXX=$clang cmake -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG='-O1 -g1' -DSLUICE_WITH_TORCH=OFF \
  -DSLUICE_FUZZ=ON -DSLUICE_SANITIZE=address,undefined >build-fuzz.log 2>&1 || { cat build-fuzz.log >&2; exit 1; }
rm -f build-fuzz.log
cmake --build build-fuzz -j "$jobs" --target ${*:-fuzzers}
[ $# -gt 0 ] || set -- $(cd build-fuzz/bin && ls -- *_fuzz)
cd build-fuzz
for target; do
  corpus=../tests/fuzz/corpus/${target%_fuzz}
  [ -d "$corpus" ] || { echo "fuzz: $target has no corpus in tests/fuzz/corpus" >&2; exit 1; }
  dictionary=../tests/fuzz/${target%_fuzz}.dict
  mkdir -p "new/$target"
  echo "fuzz: $target for $seconds s"
  "bin/$target" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 -rss_limit_mb=4096 -timeout=20 \
    $([ -f "$dictionary" ] && echo "-dict=$dictionary") "new/$target" "$corpus"
done
