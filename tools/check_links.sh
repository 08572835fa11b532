#!/bin/sh
# Checks the Markdown pages: every relative link names an existing file and heading, and docs/README.md lists
# every page. Prints one line per fault and exits with 1.
cd "$(dirname "$0")/.." || exit 2
faults=0
anchors() { sed -n '/^```/,/^```/d; s/^##* *//p' "$1" | tr A-Z a-z | sed 's/[^a-z0-9 _-]//g; s/ /-/g'; }
for page in *.md docs/*.md examples/*.md; do
  for link in $(sed '/^```/,/^```/d' "$page" | grep -o '](\([^) ]*\)' | sed 's/^](//; /:/d'); do
    file=${link%%#*}
    [ -z "$file" ] && file=$page || file=$(dirname "$page")/$file
    [ -e "$file" ] || { echo "$page: $link does not exist"; faults=1; continue; }
    case $link in *.md#*|\#*) anchors "$file" | grep -qxe "${link#*#}" || { echo "$page: $link: no such heading"; faults=1; } ;; esac
  done
done
for page in docs/*.md; do
  grep -q "](${page#docs/})" docs/README.md || [ "$page" = docs/README.md ] ||
    { echo "docs/README.md: $page is not listed"; faults=1; }
done
exit $faults
