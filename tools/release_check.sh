#!/bin/sh
# Checks release requirements other than tests: one version everywhere; links, names and line lengths of the
# pages; pictures equal to the output of their commands; a test for each example; comments that do not begin
# with "Of". Prints one line per fault and exits with 1.
# usage: release_check.sh BUILD (built: `make build`)
cd "$(dirname "$0")/.." || exit 2
build=$1
sluice=$build/bin/sluice
[ -x "$sluice" ] || { echo "usage: release_check.sh BUILD, after make build" >&2; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
faults=0
fault() { echo "$*"; faults=1; }

# Versions: the program, the CMake package, the wheel, the changelog, the pages that name the wheel.
version=$("$sluice" --version | sed -n '1s/^sluice \([0-9.]*\).*/\1/p')
[ -n "$version" ] || fault "sluice --version: no version in its first line"
package=$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$build/sluiceConfigVersion.cmake")
[ "$package" = "$version" ] || fault "CMake package: $package, but sluice --version: $version"
python3 tools/make_wheel.py "$build" "$work" >"$work/made" 2>&1 || fault "$(tail -1 "$work/made")"
wheel=$(cd "$work" && ls ./*.whl 2>/dev/null | sed 's/^\.\///')
case $wheel in "sluice_train-$version-"*) ;; *) fault "wheel: '$wheel', but sluice --version: $version" ;; esac
for page in README.md docs/install.md; do
  grep -qF "$wheel" "$page" || fault "$page: does not name the wheel $wheel"
done
grep -qF "## [$version]" CHANGELOG.md || fault "CHANGELOG.md: no heading for $version"
[ -s LICENSE ] && [ -s SECURITY.md ] || fault "LICENSE or SECURITY.md is missing"

# Pages.
tools/check_links.sh || faults=1
tools/check_names.sh "$sluice" || faults=1
git ls-files '*.md' | grep -v '^tests/' | xargs python3 tools/wrap_pages.py --check || faults=1
lines=$(wc -l <README.md)
[ "$lines" -le 120 ] || fault "README.md: $lines lines, more than 120"

# Drawn pictures: each is what `sluice schedule --name NAME --pp 4 --microbatches 8` draws.
for picture in $(sed -n 's/^!\[.*\](\(.*golden\/pictures\/.*\.svg\))$/\1/p' README.md docs/*.md | sed 's/^\.\.\///' | sort -u); do
  "$sluice" schedule --name "$(basename "$picture" .svg)" --pp 4 --microbatches 8 --draw "$work/drawn.svg" >"$work/said" &&
    cmp -s "$work/drawn.svg" "$picture" || fault "$picture: not what its command draws"
done

# Examples: each is run by a test, listed in the index, and short apart from its model.
for source in examples/use_installed/*.cpp; do
  name=$(basename "$source" .cpp)
  grep -qw "$name" tests/install/install_and_use.cmake || fault "$source: no test runs it"
  grep -qF "($(basename "$(dirname "$source")")/$name.cpp)" examples/README.md || fault "examples/README.md: $name is not listed"
  lines=$(grep -vcE '^ *(//|#include)|^ *$' "$source")
  [ "$lines" -lt 60 ] || fault "$source: $lines lines of code, 60 or more"
done

comments=$(git grep -hE '^ *(//|#) Of ' -- '*.h' '*.cpp' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' | wc -l)
[ "$comments" -lt 25 ] || fault "$comments comments begin with 'Of', 25 or more: see CONTRIBUTING.md, Comments"

[ $faults = 0 ] && echo "release check: sluice $version, $wheel"
exit $faults
