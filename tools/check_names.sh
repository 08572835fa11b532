#!/bin/sh
# Checks that the names in backquotes on the pages exist: configuration keys (`section.key`, and those in
# ```toml blocks), tests (`SuiteTest.Name`), files of this repository, Makefile targets, and functions and
# members (`name()`, `Type::member`). Functions and members must occur in include/ or examples/, because users
# have nothing else. CONTRIBUTING.md may also name those of the sources. On pages about another library, the
# first column or the start of a list item names that library's own things. Prints one line per fault and
# exits with 1.
# usage: check_names.sh SLUICE [PAGE...]
sluice=$1
[ -x "$sluice" ] || { echo "usage: check_names.sh SLUICE [PAGE...]" >&2; exit 2; }
shift
cd "$(dirname "$0")/.." || exit 2
[ $# -gt 0 ] || set -- README.md CONTRIBUTING.md SECURITY.md docs/*.md
known=$(mktemp) || exit 2
trap 'rm -f "$known"' EXIT

"$sluice" config reference | awk '
  /^# / { exit }
  /^## \[/ { gsub(/[^a-z_]/, ""); section = $0 }
  /^## [^[]/ { section = "" }
  section && /^- `/ { print "key", section "." substr($2, 2) }' >"$known"
grep -q '^key training.steps$' "$known" || { echo "$sluice config reference names no keys" >&2; exit 2; }
grep -rhoE '^TEST(_F|_P)?\([A-Za-z0-9_]+, *[A-Za-z0-9_]+' tests |
  sed 's/.*(\([^,]*\), *\(.*\)/test \1.\2/' >>"$known"
sed -n 's/^\([a-z-]*\):.*/target \1/p' Makefile >>"$known"
# words KIND FOLDER...: lists every identifier in the sources of these folders.
words() {
  kind=$1
  shift
  find "$@" \( -name '*.h' -o -name '*.cpp' -o -name '*.py' \) -exec cat {} + |
    grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u | sed "s/^/$kind /" >>"$known"
}
words word include examples
words inner src apps tests tools bench

# Names that only look like ours: values that cross stages, tensors of a Hugging Face file, names of torch and
# peers.
awk -v foreign_keys='^model\.(layers|embed_tokens|norm|rotary_emb|lm_head|language_model|text_model|visual|vision_tower|safetensors|pt2|inputs|loss|outputs|initialization|fuse|auxiliary|count)$' \
    -v foreign='^(torch|at|std|c10|c10d|nn|dist|nlohmann|gloo|testing)::' '
  FNR == NR { known[$1 " " $2] = 1; if ($1 == "key") { split($2, part, "."); section[part[1]] = 1 } next }
  FNR == 1 { fence = 0; is_peer = FILENAME ~ /docs\/(from-|other-libraries)/ }
  function is_known(name) { return ("word " name) in known || (FILENAME ~ /CONTRIBUTING\.md$/ && ("inner " name) in known) }
  function fault(what) { print FILENAME ":" FNR ": " what; faults = 1 }
  function exists(path) {
    if (!(path in seen)) seen[path] = system("ls -d " path " >/dev/null 2>&1") == 0
    return seen[path]
  }
  function check_key(name,   part) {
    split(name, part, ".")
    if (!(part[1] in section) || ("key " name) in known || name ~ foreign_keys) return
    if (name ~ /\.(h|cpp|py|toml|jsonl|json|md|txt|idx|bin)$/) return
    fault("no key " name)
  }
  # Removes the next match of `pattern` from the text and returns it. Returns "" when no match is left.
  function next_match(pattern,   found) {
    if (!match(rest, pattern)) return ""
    before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : ""
    found = substr(rest, RSTART, RLENGTH)
    rest = substr(rest, RSTART + RLENGTH)
    return found
  }
  function check_span(span,   name, part, n, i) {
    rest = span
    while ((name = next_match("[a-z_]+\\.[a-z][a-z0-9_]*")) != "")
      if (before !~ /[A-Za-z0-9_.\/<>*]/ && rest !~ /^[(.\/]/) check_key(name)
    if (span ~ /^[A-Za-z0-9]+Test\.[A-Za-z0-9]+$/ && !(("test " span) in known)) fault("no test " span)
    if (span ~ /^make [a-z-]+$/ && !(("target " substr(span, 6)) in known)) fault("no target " span)
    if (span ~ /^(src|include|tests|apps|docs|tools|bench|examples|cmake)\/[A-Za-z0-9_.*\/-]+$/ && !exists(span))
      fault("no file " span)
    if (span ~ /^sluice\/[a-z_\/]+\.h$/ && !exists("include/" span)) fault("no header " span)
    rest = span
    while ((name = next_match("[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)+")) != "") {
      if (name ~ foreign) continue
      n = split(name, part, "::")
      for (i = 1; i <= n; ++i) if (!is_known(part[i])) fault("no " part[i] " (" name ")")
    }
    rest = span
    while ((name = next_match("[A-Za-z_][A-Za-z0-9_]*\\(")) != "")
      if (before !~ /[.:]/ && name != "find_package(" && !is_known(substr(name, 1, length(name) - 1))) fault("no function " name ")")
  }
  /^```/ { fence = !fence; is_toml = fence && $0 ~ /^```toml/; table = ""; next }
  fence && is_toml && /^\[/ { table = $0; gsub(/[^a-z_.]/, "", table); next }
  fence && is_toml && table && /^[a-z_]+ *=/ { name = $1; sub(/=.*/, "", name); check_key(table "." name) }
  fence { next }
  {
    text = $0
    if (is_peer) sub(/^\|[^|]*\|/, "", text)
    # In a list about another library, the text of an item up to its first ": " belongs to that library.
    if (is_peer && /^- /) is_theirs = 1
    if (!$0) is_theirs = 0
    if (is_theirs) { if (match(text, /:( |$)/)) { text = substr(text, RSTART + 2); is_theirs = 0 } else text = "" }
    n = split(text, span, "`")
    for (s = 2; s <= n; s += 2) check_span(span[s])
  }
  END { exit faults }
' "$known" "$@"
