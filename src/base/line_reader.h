#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "sluice/error.h"

namespace sluice {

class LineReader {
 public:
  struct Line {
    // The line without '\n', empty if too long. Valid until the next call of next().
    std::string_view text;
    bool has_end = false;
    bool is_too_long = false;
  };
  // The reader skips at most this much of a line that is too long.
  static constexpr std::uint64_t kMostSkipped = std::uint64_t{256} << 20;

  // The file must outlive the reader.
  LineReader(const File& file, std::size_t max_bytes, ErrorKind kind = ErrorKind::kInput);
  static LineReader of_stdin(std::size_t max_bytes);

  // Returns std::nullopt at the end. Throws Error(kind) for a line longer than max_bytes +
  // kMostSkipped.
  std::optional<Line> next();
  // Throws for every line longer than max_bytes.
  std::optional<std::string_view> next_text();
  // "FILE:LINE" of the last line that next() returned.
  std::string where() const;

 private:
  using ReadSome = std::function<std::size_t(char* buffer, std::size_t count)>;
  LineReader(std::string path, ReadSome read_some, std::size_t max_bytes, ErrorKind kind);
  Line take(std::size_t length, bool has_end, bool is_too_long);
  bool read_more();
  Line skip_line();
  Error too_long(std::uint64_t bytes) const;

  std::string path_;
  ReadSome read_some_;
  std::size_t max_bytes_;
  ErrorKind kind_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::int64_t line_ = 0;
};

}  // namespace sluice
