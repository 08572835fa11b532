// Lines of a file or of stdin in bounded memory: every reader of lines uses it.
//
// Owns: the bound. Does not own: the file. No torch.
// Thread-safety: a LineReader belongs to one thread.
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
    std::string_view text;  // without '\n'; valid until the next call of next(); "" where too long
    bool has_end = false;   // a '\n' follows
    bool is_too_long = false;
  };
  // At most kMostSkipped bytes of a line that is too long are read over.
  static constexpr std::uint64_t kMostSkipped = std::uint64_t{256} << 20;

  // Lines of at most max_bytes. The file must outlive the reader.
  LineReader(const File& file, std::size_t max_bytes, ErrorKind kind = ErrorKind::kInput);
  static LineReader of_stdin(std::size_t max_bytes);

  // Nothing at the end. Throws Error(kind) for a line longer than max_bytes + kMostSkipped.
  std::optional<Line> next();
  // The same, but a line of more than max_bytes is an error too.
  std::optional<std::string_view> next_text();
  // "FILE:LINE" of the line that next() returned last.
  std::string where() const;

 private:
  // Reads up to `count` bytes into `buffer`; 0 at the end.
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
  std::string buffer_;  // read and not yet returned, from begin_ on
  std::size_t begin_ = 0;
  std::int64_t line_ = 0;
};

}  // namespace sluice
