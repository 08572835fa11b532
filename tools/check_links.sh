#!/bin/sh
# Checks that every relative link of the Markdown pages names a file that exists. Prints one line a
# dead link; exit 1.
cd "$(dirname "$0")/.." || exit 2
dead=0
for page in *.md docs/*.md; do
  for link in $(grep -o '](\([^)# ]*\)' "$page" | sed 's/^](//; /:/d'); do
    [ -e "$(dirname "$page")/$link" ] || { echo "$page: $link does not exist"; dead=1; }
  done
done
exit $dead
