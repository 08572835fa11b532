#include "data/row_scan.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "data/jsonl_row.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr const char* kListOfRows = "write a list of objects, [{..}, {..}], or one object a line";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

void RowScan::fail(const std::string& what, const std::string& remedy) const {
  throw Error(ErrorKind::kInput,
              {.what = what, .where = formatted("{}:{}", path_, line_), .remedy = remedy});
}

void RowScan::require_length(std::uint64_t length) const {
  if (length <= kMaxRowBytes) return;
  throw Error(ErrorKind::kInput,
              {.what = "the row is longer than 64 MiB",
               .where = formatted("{}:{}", path_, row_line_),
               .remedy = is_list_ ? "a row is an object of the list"
                                  : "a row is a line with a JSON object: is the file .jsonl?"});
}

void RowScan::add(std::string_view bytes) {
  while (place_ == Place::kStart && !bytes.empty()) {
    const char c = bytes.front();
    const bool is_mark = offset_ < kByteOrderMark.size() && c == kByteOrderMark[offset_];
    if (!is_blank(c) && c != '\n' && !is_mark) {
      is_list_ = c == '[';
      place_ = is_list_ ? Place::kFirst : Place::kLine;
      if (!is_list_) break;
    }
    if (c == '\n') {
      row_line_ = ++line_;
      row_ = offset_ + 1;
    }
    bytes.remove_prefix(1);
    ++offset_;
  }
  if (is_list_)
    add_list(bytes);
  else if (place_ == Place::kLine)
    add_lines(bytes);
}

void RowScan::add_lines(std::string_view bytes) {
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  for (const char* segment = begin; segment < end;) {
    const void* found = std::memchr(segment, '\n', static_cast<std::size_t>(end - segment));
    const char* const stop = found ? static_cast<const char*>(found) : end;
    has_text_ = has_text_ || !std::all_of(segment, stop, is_blank);
    if (!found) break;
    if (has_text_) starts_.push_back(row_);
    has_text_ = false;
    segment = stop + 1;
    row_line_ = ++line_;
    row_ = offset_ + static_cast<std::uint64_t>(segment - begin);
  }
  offset_ += bytes.size();
  require_length(offset_ - row_);
}

void RowScan::begin_object() {
  place_ = Place::kObject;
  row_ = offset_;
  row_line_ = line_;
  depth_ = 0;
}

void RowScan::add_list(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const char c = bytes[i];
    if (place_ == Place::kObject) {
      const std::size_t count = skip_object(bytes.substr(i));
      i += count;
      offset_ += count;
      require_length(offset_ - row_);
      continue;
    }
    if (c == '\n') {
      ++line_;
    } else if (is_blank(c)) {
    } else if (place_ == Place::kDone) {
      fail("there is text behind the list of rows", kListOfRows);
    } else if (place_ == Place::kBehind) {
      if (c != ',' && c != ']') fail("no ',' or ']' behind a row of the list", kListOfRows);
      place_ = c == ',' ? Place::kNext : Place::kDone;
    } else if (c == '{') {
      begin_object();
      continue;
    } else if (c == ']' && place_ == Place::kFirst) {
      place_ = Place::kDone;
    } else {
      fail(formatted("the list of rows has {} where an object belongs",
                     c == ']' ? std::string("its end") : formatted("'{}'", std::string(1, c))),
           kListOfRows);
    }
    ++i;
    ++offset_;
  }
}

// Returns the number of bytes that belong to the object.
std::size_t RowScan::skip_object(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    line_ += c == '\n';
    if (is_in_string_) {
      is_in_string_ = is_escaped_ || c != '"';
      is_escaped_ = !is_escaped_ && c == '\\';
    } else if (c == '"') {
      is_in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      starts_.push_back(row_);
      place_ = Place::kBehind;
      return i + 1;
    }
  }
  return bytes.size();
}

void RowScan::finish() {
  if (is_list_ && place_ != Place::kDone)
    fail("the list of rows has no end", "is the file complete? It ends with ]");
  if (!is_list_ && has_text_) starts_.push_back(row_);
}

}  // namespace sluice::data
