#!/bin/sh
# Runs ctest in a build folder, then lists every skipped test with its reason.
# usage: run_tests.sh FOLDER JOBS CTEST_ARGUMENTS...
folder=$1 jobs=$2
shift 2
# Several programs at once have more threads than the machine has cores. An OpenMP thread that spins while it
# waits would take a core from a thread that computes, so waiting threads sleep instead.
export OMP_WAIT_POLICY=passive
ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$jobs" "$@"
code=$?
# gtest prints "FILE:LINE: Skipped", the reason on the next line, then "[  SKIPPED ] SUITE.TEST (0 ms)". A
# script that exits with 77 gives the reason in its last line.
awk '
  /^[^ ]+:[0-9]+: Skipped$/ { getline reason }
  /^\[  SKIPPED \] [A-Za-z0-9_\/]+\.[^ ]+ \(/ { printf "skipped: %s: %s\n", $4, reason; reason = "" }
  /^skipped: / { print }' "$folder/Testing/Temporary/LastTest.log"
exit $code
