#!/bin/sh
# Limits what a reader has to get past: lines per library, and functions of installed headers that no page,
# no example and no other declaration names. Raise a limit only in the commit that needs it, with the reason.
# Prints one line per violation and exits with 1.
# usage: check_sizes.sh [ROOT]
cd "${1:-$(dirname "$0")/..}" || exit 2
bad=0
limit() {
  name=$1 most=$2
  shift 2
  lines=$(find "$@" \( -name '*.cpp' -o -name '*.h' \) -exec cat {} + | wc -l)
  if [ "$lines" -gt "$most" ]; then
    echo "$name: $lines lines, at most $most"
    bad=1
  fi
}
limit sluice_plan 31200 src/base src/plan src/kind src/job src/report
limit sluice_models_plan 33600 src/family src/archive src/data
limit sluice 31600 src/device src/nccl src/layer src/io src/comm src/parallel src/engine src/optim src/checkpoint src/train
limit sluice_models 11800 src/ops src/graph src/model
limit programs 20200 src/config src/launch src/command apps

# Functions that are declared in an installed header and named nowhere else.
most_unnamed=112
headers=$(find include -name '*.h')
# shellcheck disable=SC2086
declared=$(sed -e 's/"[^"]*"//g' -e 's,//.*,,' $headers |
  grep -v '^ *\(return\|if\|for\|while\|throw\|using\|#\)' |
  grep -oE '[A-Za-z0-9_>&*] [&*]?[a-z][a-z0-9_]*\(' | sed -e 's/^.* //' -e 's/^[&*]//' -e 's/($//' | sort -u)
# shellcheck disable=SC2086
words() { cat $1 | grep -oE '[A-Za-z0-9_]+' | sort; }
shown=$(words "$(find docs examples README.md -name '*.md' -o -name '*.cpp' -o -name '*.h')" | sort -u)
# shellcheck disable=SC2086
repeated=$(words "$headers" | uniq -d)
unnamed=$(echo "$declared" | grep -vxF -e "$shown" | grep -vxF -e "$repeated")
count=$(echo "$unnamed" | grep -c .)
if [ "$count" -gt "$most_unnamed" ]; then
  echo "include: $count functions are named by no page and no example, at most $most_unnamed:" $unnamed
  bad=1
fi
exit $bad
