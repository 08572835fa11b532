#!/bin/sh
# Searches the sources for kinds of faults that have been fixed everywhere, so that none returns. A line is
# exempt if a comment on it or above it gives the reason: "// check_kinds: KIND: REASON".
#
#   float_loop      a loop that counts in a float or a double, or steps by one: it may never end
#   unbounded_line  reads a line or file into memory without a bound (base/line_reader.h and read_text() have one)
#   raw_output      writes to standard output without print() (base/print.h), so foreign text could control the terminal
#   followed_link   opens a file for writing by a name that may be a link (use O_NOFOLLOW or replace_file())
#   search_path     an empty part of a search path, which means the working directory
#
# usage: check_kinds.sh [ROOT]. Prints one line per fault and exits with 1.
cd "${1:-$(dirname "$0")/..}" || exit 2
sources=$(find src apps include \( -name '*.cpp' -o -name '*.h' \) 2>/dev/null | sort)
scripts=$(find tools .ci bench python cmake Makefile CMakeLists.txt -type f \( -name '*.sh' -o -name '*.py' -o -name '*.cmake' -o -name '*.in' \
  -o -name 'run' -o -name Makefile -o -name CMakeLists.txt \) ! -name check_kinds.sh 2>/dev/null | sort)
[ -n "$sources$scripts" ] || { echo "check_kinds: no sources here" >&2; exit 2; }
# shellcheck disable=SC2086
awk '
function fault(kind, what) {
  if (index(line, "check_kinds: " kind ":") || index(above, "check_kinds: " kind ":")) return
  printf "%s:%d: %s: %s\n", FILENAME, FNR, kind, what
  ++faults
}
FNR == 1 { above = ""; pending = ""; split_at = 0; is_source = FILENAME ~ /\.(cpp|h)$/ }
{
  line = $0
  code = line
  if (is_source) sub(/\/\/.*/, "", code); else sub(/^[ \t]*#.*/, "", code)
}
is_source {
  # A statement may span several lines. `pending` holds its beginning.
  statement = pending code
  if (code ~ /[;{}]/ || code !~ /[^ \t]/) pending = ""; else pending = statement " "

  if (code ~ /for *\( *(const )?(float|double|long double) +[A-Za-z_0-9]+ *=[^=:]*;/ ||
      code ~ /for *\( *auto +[A-Za-z_0-9]+ *= *(-? *[0-9]*\.[0-9]*f?|-? *[0-9]+(\.[0-9]*)?e[-+]?[0-9]+f?|std::(ceil|floor|round|trunc|log10|pow|exp)[^;]*) *;/ ||
      code ~ /for *\([^;]*;[^;]*[A-Za-z_0-9]+ *\* *[A-Za-z_0-9]*(step|width|length|spacing|interval|pitch)_? *<=?[^;]*;/)
    fault("float_loop", "the loop counts in a float, or up to a product: count by an integer, with a bound")

  if (code ~ /std::getline *\(/) fault("unbounded_line", "std::getline: use LineReader (base/line_reader.h)")
  if (code ~ /istreambuf_iterator/ || code ~ /\.rdbuf\(\)/) fault("unbounded_line", "the whole of a stream: use read_text(), with a bound")
  if (code ~ /(^|[^A-Za-z_])line_? *\+= *[a-z_]+\[[a-z_]+\] *;/ || code ~ /(^|[^A-Za-z_])line_?\.push_back\(/) fault("unbounded_line", "a line that grows by the byte: use LineReader (base/line_reader.h)")

  if (FILENAME !~ /(^|\/)base\/print\.cpp$/ &&
      (code ~ /std::cout *<</ || code ~ /<< *std::cout/ || code ~ /(^|[^a-zA-Z_:])(std::)?(printf|puts|putchar|vprintf) *\(/ ||
       code ~ /(fprintf|vfprintf) *\( *stdout/ || code ~ /(fputs|fputc|putc|fwrite) *\([^;]*, *stdout *\)/ ||
       code ~ /std::(print|println) *\(/ || code ~ /(^|[^a-z_])write(_all)? *\( *STDOUT_FILENO/))
    if (code !~ /std::cout *<< *std::flush/) fault("raw_output", "use print() or print_exact() (base/print.h)")

  if (code ~ /std::(basic_)?(w)?o?fstream[^A-Za-z_>]/ && code !~ /std::ifstream/) fault("followed_link", "an output stream follows links: use replace_file() (base/file.h)")
  if (code ~ /(^|[^a-z_])(std::)?(fopen|freopen|creat) *\(/) fault("followed_link", "fopen follows links: use File or replace_file() (base/file.h)")
  if (code ~ /O_TRUNC/) fault("followed_link", "O_TRUNC empties what a link leads to: use replace_file() (base/file.h)")
  if (code ~ /O_(WRONLY|RDWR)/ && statement !~ /O_NOFOLLOW/ && statement !~ /O_EXCL/ && statement !~ /"\/dev\/null"/)
    fault("followed_link", "a file opened for writing without O_NOFOLLOW or O_EXCL")

  if (code ~ /setenv *\( *"(LD_LIBRARY_PATH|LD_PRELOAD|PATH|PYTHONPATH)"[^;]*\+ *":"|":" *\+/ && code ~ /(LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|[^A-Z_]PATH)/)
    fault("search_path", "the variable may be empty, which leaves an empty part")
  if (code ~ /split\(.*'"':'"'/ || code ~ /split\(.*":"/) split_at = FNR
  if (split_at && FNR - split_at <= 5 && code ~ /empty\(\) *\? *"\."/) fault("search_path", "an empty part of a search path becomes the working folder")
  if (code ~ /dlopen *\( *"\.?\.?\/?[^"\/]*\/[^"]*"/ && code !~ /dlopen *\( *"\//) fault("search_path", "a library relative to the working folder")
}
!is_source {
  if (code ~ /(^|[^A-Z_])(LD_LIBRARY_PATH|PYTHONPATH|PATH|LD_PRELOAD)=[^ \t]*(:\$|\$\{?[A-Z_]+\}?:)/ && code !~ /\$\{[A-Z_]+:[+-]/ && code !~ /PATH=[^ \t]*:\$\{?PATH\}?/)
    fault("search_path", "a variable beside : may be empty, which leaves an empty part; write ${NAME:+:$NAME}")
  else if (code ~ /(LD_LIBRARY_PATH|PYTHONPATH)=(:|[^ \t]*::|[^ \t]*:([ \t"]|$))/) fault("search_path", "an empty part of a search path")
  if (code ~ /RPATH[ "(]/ && code ~ /(::|":|:")/ && code !~ /sub\(|printf/) fault("search_path", "an empty part of a search path")
}
{ above = line }
END { exit faults > 0 }
' $sources $scripts
