#!/bin/sh
# Checks that every relative link of the Markdown pages names a file that exists, and that
# docs/README.md lists every page. Prints one line a fault; exit 1.
cd "$(dirname "$0")/.." || exit 2
faults=0
for page in *.md docs/*.md; do
  for link in $(sed '/^```/,/^```/d' "$page" | grep -o '](\([^)# ]*\)' | sed 's/^](//; /:/d'); do
    [ -e "$(dirname "$page")/$link" ] || { echo "$page: $link does not exist"; faults=1; }
  done
done
for page in docs/*.md; do
  grep -q "](${page#docs/})" docs/README.md || [ "$page" = docs/README.md ] ||
    { echo "docs/README.md: $page is not listed"; faults=1; }
done
exit $faults
