#!/bin/sh
# Checks the search paths (RPATH, RUNPATH) of programs and libraries: every part must be absolute or begin
# with $ORIGIN. An empty or relative part means the working directory, and a library placed there would be
# loaded. Prints one line per fault and exits with 1.
# usage: check_search_paths.sh FOLDER [NOT_IN]     NOT_IN: no part may lie in this folder
[ -d "$1" ] || { echo "usage: check_search_paths.sh FOLDER [NOT_IN]" >&2; exit 2; }
files=$(find "$1" -type f \( -perm -u+x -o -name '*.so*' \) ! -name '*.py' ! -name '*.sh')
checked=0 faults=0
for file in $files; do
  facts=$(readelf --dynamic --wide "$file" 2>/dev/null) || continue
  checked=$((checked + 1))
  printf '%s\n' "$facts" | awk -v file="$file" -v not_in="${2%/}" '
    /\((RPATH|RUNPATH)\)/ {
      sub(/^[^[]*\[/, ""); sub(/\]$/, "")
      count = split($0, part, ":")
      if (!count) { print file ": its search path is empty"; bad = 1 }
      for (i = 1; i <= count; ++i) {
        if (part[i] == "") { print file ": an empty part, the working folder, in " $0; bad = 1; break }
        else if (part[i] !~ /^(\/|\$ORIGIN(\/|$)|\$\{ORIGIN\}(\/|$))/) { print file ": " part[i] " is relative to the working folder, in " $0; bad = 1 }
        else if (not_in && index(part[i] "/", not_in "/") == 1) { print file ": " part[i] " lies in " not_in; bad = 1 }
      }
    }
    END { exit bad }' || faults=1
done
[ $checked -gt 0 ] || { echo "$1 has no program and no library" >&2; exit 2; }
exit $faults
