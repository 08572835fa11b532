#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

bool is_terminal(int file_descriptor);
// Returns true for a terminal, unless TERM is "dumb" or NO_COLOR is nonempty.
bool use_color(int file_descriptor);
// Columns, at least 40. Returns `otherwise` without a terminal.
int terminal_width(int file_descriptor, int otherwise = 120);

std::string human_bytes(std::int64_t bytes);  // "512B", "1.50KiB", "7.00GiB"
// Rounds up, so that reading the text back gives at least `bytes`.
std::string needed_bytes(std::int64_t bytes);
std::string with_commas(std::int64_t value);  // "2,449"
std::string counted(std::int64_t count,
                    std::string_view noun);   // "1 stage", "8 stages", "2 microbatches"
std::string fixed(double value, int digits);  // "3.21"
std::string shortest(double value);  // fewest digits that read back as `value`: "0.25", "3e-04"
std::string shape_text(const std::vector<std::int64_t>& sizes);  // "[2, 16]"

// Breaks `text` at spaces into lines of at most `width` columns. Lines start with `indent`, all but
// the first with two more spaces.
std::string wrapped(std::string_view text, int width, std::string_view indent = {});

enum class Align { kLeft, kRight };

// Columns are two spaces apart. Rows may have fewer cells than columns.
class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // If width > 0, columns that do not fit form another table, which repeats the first. A last
  // column of text is wrapped.
  std::string to_string(std::string_view indent = {}, int width = 0) const;

 private:
  std::vector<std::size_t> widths() const;
  std::string draw(const std::vector<std::size_t>& block, const std::vector<std::size_t>& widths,
                   std::string_view indent, int width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);  // returns {} for ""
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);
std::string first_line(std::string_view text);
// Quotes the text for a shell if necessary.
std::string shell_word(const std::string& text);
std::string replace_all(std::string text, std::string_view from, std::string_view to);

}  // namespace sluice
