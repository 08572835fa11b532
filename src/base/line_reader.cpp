#include "base/line_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/format.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;

std::size_t read_stdin(char* buffer, std::size_t count) {
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, count);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR)
      throw file_error(ErrorKind::kInput, "cannot read", "stdin", errno, Access::kRead);
  }
}

}  // namespace

LineReader::LineReader(std::string path, ReadSome read_some, std::size_t max_bytes, ErrorKind kind)
    : path_(std::move(path)),
      read_some_(std::move(read_some)),
      max_bytes_(max_bytes),
      kind_(kind) {}

LineReader::LineReader(const File& file, std::size_t max_bytes, ErrorKind kind)
    : LineReader(
          file.path(),
          [&file, offset = std::uint64_t{0}](char* buffer, std::size_t count) mutable {
            const std::size_t got = file.read_some(buffer, count, offset);
            offset += got;
            return got;
          },
          max_bytes, kind) {}

LineReader LineReader::of_stdin(std::size_t max_bytes) {
  return {"stdin", read_stdin, max_bytes, ErrorKind::kInput};
}

std::optional<LineReader::Line> LineReader::next() {
  for (std::size_t searched = 0;;) {
    const std::size_t newline = buffer_.find('\n', begin_ + searched);
    const std::size_t length = std::min(newline, buffer_.size()) - begin_;
    if (length > max_bytes_) return skip_line();
    if (newline != std::string::npos) return take(length, /*has_end=*/true, /*is_too_long=*/false);
    searched = length;
    if (!read_more()) break;
  }
  if (begin_ == buffer_.size()) return std::nullopt;
  return take(buffer_.size() - begin_, /*has_end=*/false, /*is_too_long=*/false);
}

std::optional<std::string_view> LineReader::next_text() {
  const std::optional<Line> line = next();
  if (!line) return std::nullopt;
  if (line->is_too_long) throw too_long(max_bytes_);
  return line->text;
}

std::string LineReader::where() const { return formatted("{}:{}", path_, line_); }

LineReader::Line LineReader::take(std::size_t length, bool has_end, bool is_too_long) {
  ++line_;
  const std::string_view text =
      is_too_long ? std::string_view() : std::string_view(buffer_).substr(begin_, length);
  begin_ += length + (has_end ? 1 : 0);
  return {text, has_end, is_too_long};
}

bool LineReader::read_more() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t held = buffer_.size();
  buffer_.resize(held + kChunk);
  const std::size_t got = read_some_(buffer_.data() + held, kChunk);
  buffer_.resize(held + got);
  return got > 0;
}

LineReader::Line LineReader::skip_line() {
  std::uint64_t skipped = 0;
  for (;;) {
    const std::size_t newline = buffer_.find('\n', begin_);
    const std::size_t length = std::min(newline, buffer_.size()) - begin_;
    if (newline != std::string::npos) return take(length, /*has_end=*/true, /*is_too_long=*/true);
    skipped += length;
    if (skipped > max_bytes_ + kMostSkipped) {
      ++line_;
      throw too_long(kMostSkipped);
    }
    begin_ = buffer_.size();
    if (!read_more()) return take(0, /*has_end=*/false, /*is_too_long=*/true);
  }
}

Error LineReader::too_long(std::uint64_t bytes) const {
  return {kind_,
          {.what = "a line is longer than " + human_bytes(static_cast<std::int64_t>(bytes)),
           .where = where(),
           .remedy = "is it the right file?"}};
}

}  // namespace sluice
