# Prints one C++ source with the C++ blocks of the pages. A block without main() becomes a function. What a block
# takes from its reader is declared in pages/blocks.h, in the namespace of the page.
# usage: awk -f page_blocks.awk README.md docs/*.md
BEGIN { print "#include \"blocks.h\"" }
FNR == 1 {
  page = FILENAME
  gsub(/^.*\/|\.md$/, "", page)
  gsub(/-/, "_", page)
}
/^```cpp$/ { in_block = 1; is_program = 0; text = ""; first = FNR + 1; next }
in_block && /^```$/ {
  in_block = 0
  # The compiler's messages name the page and its line.
  printf "namespace page_%s {\n", page
  if (!is_program) printf "[[maybe_unused]] auto block_%d() {\n", first
  printf "#line %d \"%s\"\n%s", first, FILENAME, text
  print is_program ? "}" : "}\n}"
  next
}
in_block && /^#include/ { print; text = text "\n"; next }
in_block {
  if (/^int main\(/) is_program = 1
  text = text $0 "\n"
}
