# Prints one C++ source file with all C++ blocks of the pages. A block without main() becomes a function.
# pages/blocks.h declares what a block expects from the reader, in a namespace per page.
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
  # Compiler messages refer to the page and line.
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
