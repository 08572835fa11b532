// Finds the rows of a file in its bytes: lines, or the objects of a JSON list if the file begins
// with "[". Memory does not grow with the length of a row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

class RowScan {
 public:
  // `path` is for messages.
  explicit RowScan(std::string path) : path_(std::move(path)) {}

  // Takes the next bytes of the file. Throws Error(kInput) at "file:line" for rows longer than
  // kMaxRowBytes, and for a list with anything but objects.
  void add(std::string_view bytes);
  // Throws Error(kInput) for a list without an end.
  void finish();

  // Offsets of the rows whose end was found. Blank lines are no rows.
  const std::vector<std::uint64_t>& starts() const { return starts_; }
  // After finish(): an offset behind the last row, with only blanks, "," or "]" between.
  std::uint64_t end() const { return offset_; }
  bool is_list() const { return is_list_; }

 private:
  enum class Place { kStart, kLine, kFirst, kNext, kObject, kBehind, kDone };

  void add_lines(std::string_view bytes);
  void add_list(std::string_view bytes);
  std::size_t skip_object(std::string_view bytes);
  void begin_object();
  void require_length(std::uint64_t length) const;
  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const;

  std::string path_;
  Place place_ = Place::kStart;
  bool is_list_ = false;
  std::vector<std::uint64_t> starts_;
  std::uint64_t offset_ = 0, row_ = 0, line_ = 1, row_line_ = 1;
  bool has_text_ = false;  // of a line
  int depth_ = 0;          // of an object
  bool is_in_string_ = false, is_escaped_ = false;
};

}  // namespace sluice::data
