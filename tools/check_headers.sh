#!/bin/sh
# Checks the number of installed headers, and that each is named in a page, an example or another header.
# include/sluice may have at most 18 headers beside sluice.h, one for each concept, and parts/ at most 16. All
# together have at most 4,500 lines. Prints one line per violation and exits with 1.
# usage: check_headers.sh [ROOT]
cd "${1:-$(dirname "$0")/..}" || exit 2
bad=0
fail() {
  echo "$1"
  bad=1
}
promised=$(find include/sluice -maxdepth 1 -name '*.h' ! -name sluice.h | wc -l)
parts=$(find include/sluice/parts -maxdepth 1 -name "*.h" | wc -l)
all=$(find include -name '*.h' | wc -l)
lines=$(find include -name '*.h' -exec cat {} + | wc -l)
[ "$promised" -le 18 ] || fail "include/sluice: $promised headers beside sluice.h, at most 18"
[ "$parts" -le 16 ] || fail "include/sluice/parts: $parts headers, at most 16"
[ "$all" -eq $((promised + parts + 1)) ] || fail "include: a header is neither in include/sluice nor in include/sluice/parts"
[ "$lines" -le 4500 ] || fail "include: $lines lines, at most 4500"
for header in $(find include -name '*.h' | sort); do
  name=${header#include/}
  [ "$name" = sluice/sluice.h ] ||
    grep -rqF "$name" docs examples README.md ||
    grep -rlF "#include \"$name\"" include | grep -qv '^include/sluice/sluice.h$' ||
    fail "$header: named by no page, no example and no other installed header"
done
exit $bad
