#include "data/jsonl_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/line_reader.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::size_t kRowBlockBytes = std::size_t{1} << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

Error too_long(const std::string& where) {
  return Error(ErrorKind::kInput,
               {.what = "the row is longer than 64 MiB",
                .where = where,
                .remedy = "a row is a line with a JSON object: is the file .jsonl?"});
}

std::vector<std::uint64_t> find_rows(const File& file) {
  std::vector<std::uint64_t> rows;
  std::vector<char> block(kRowBlockBytes);
  std::uint64_t offset = 0, row = 0, lines = 1;
  bool has_text = false;
  while (const std::size_t count = file.read_some(block.data(), block.size(), offset)) {
    const char* const end = block.data() + count;
    for (const char* segment = block.data(); segment < end;) {
      const void* found = std::memchr(segment, '\n', static_cast<std::size_t>(end - segment));
      const char* const stop = found ? static_cast<const char*>(found) : end;
      has_text = has_text || !std::all_of(segment, stop, is_blank);
      if (!found) break;
      if (has_text) rows.push_back(row);
      has_text = false;
      ++lines;
      segment = stop + 1;
      row = offset + static_cast<std::uint64_t>(segment - block.data());
    }
    offset += count;
    if (offset - row > kMaxRowBytes) throw too_long(formatted("{}:{}", file.path(), lines));
  }
  if (has_text) rows.push_back(row);
  rows.push_back(offset);
  return rows;
}

std::uint64_t line_number(const File& file, std::uint64_t offset) {
  std::vector<char> block(kRowBlockBytes);
  std::uint64_t lines = 1;
  for (std::uint64_t done = 0; done < offset;) {
    const std::size_t count =
        file.read_some(block.data(), std::min<std::uint64_t>(block.size(), offset - done), done);
    if (count == 0) break;
    lines += static_cast<std::uint64_t>(std::count(block.data(), block.data() + count, '\n'));
    done += count;
  }
  return lines;
}

}  // namespace

bool first_row_has_ids(const std::string& path) {
  const File file = File::open(path);
  LineReader reader(file, kMaxRowBytes);
  while (const std::optional<LineReader::Line> line = reader.next()) {
    if (std::all_of(line->text.begin(), line->text.end(), is_blank) && !line->is_too_long) continue;
    try {
      return !line->is_too_long && parse_jsonl_row(line->text, "").input_ids.has_value();
    } catch (const Error&) {
      return false;  // reading the row will report the error
    }
  }
  return false;
}

JsonlRows::JsonlRows(std::vector<std::string> files, bool has_tokens,
                     std::vector<FieldOption> fields)
    : files_(std::move(files)), has_tokens_(has_tokens), fields_(std::move(fields)) {
  for (const std::string& path : files_) {
    offsets_.push_back(find_rows(File::open(path)));
    first_.push_back(size_);
    size_ += offsets_.back().size() - 1;
    num_bytes_ += offsets_.back().back();
  }
  if (size_ > 0) return;
  throw Error(
      ErrorKind::kInput,
      {.what = "the data has no rows",
       .where = files_.front(),
       .remedy = "a row is a line with a JSON object: name files with rows in `data.files`"});
}

// Returns the index of the file with the row. An empty file has the same first row as the next file
// and is skipped.
std::size_t JsonlRows::file_of(std::uint64_t index) const {
  return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), index) -
                                  first_.begin()) -
         1;
}

std::string JsonlRows::json_of(const File& file, std::size_t file_index,
                               std::uint64_t index) const {
  const std::vector<std::uint64_t>& offsets = offsets_[file_index];
  const auto row = static_cast<std::size_t>(index - first_[file_index]);
  std::string json(std::min(offsets[row + 1] - offsets[row], kMaxRowBytes + 1), '\0');
  file.read(json.data(), json.size(), offsets[row]);
  json.resize(std::min(json.size(), json.find('\n')));
  if (json.size() > kMaxRowBytes) throw at_row(too_long(""), file, file_index, index);
  return json;
}

// Adds "file:line" to the error. Counting lines is slow, so do this only for errors.
Error JsonlRows::at_row(const Error& error, const File& file, std::size_t file_index,
                        std::uint64_t index) const {
  const std::uint64_t offset = offsets_[file_index][index - first_[file_index]];
  const std::string line = formatted("{}:{}", file.path(), line_number(file, offset));
  return error.at(error.where().empty() ? line : line + ", " + error.where());
}

std::string JsonlRows::place(std::uint64_t index) const {
  const std::size_t file_index = file_of(index);
  const File file = File::open(files_[file_index]);
  const std::uint64_t offset = offsets_[file_index][index - first_[file_index]];
  return formatted("{}:{}", file.path(), line_number(file, offset));
}

void JsonlRows::for_each_text(
    const std::function<bool(std::uint64_t, const std::string& json)>& use) const {
  for (std::uint64_t index = 0; index < size_;) {
    const std::size_t file_index = file_of(index);
    const File file = File::open(files_[file_index]);
    for (const std::uint64_t end = first_of(file_index + 1); index < end; ++index) {
      const std::string json = json_of(file, file_index, index);
      try {
        parse_jsonl_row(json, "", {.tokens = false, .fields = {}});
        if (!use(index, json)) return;
      } catch (const Error& error) {
        throw at_row(error, file, file_index, index);
      }
    }
  }
}

void JsonlRows::for_each(
    std::uint64_t first,
    const std::function<bool(std::uint64_t, JsonlRow, std::uint64_t json_bytes)>& use) const {
  for (std::uint64_t index = first; index < size_;) {
    const std::size_t file_index = file_of(index);
    const File file = File::open(files_[file_index]);
    for (const std::uint64_t end = first_of(file_index + 1); index < end; ++index) {
      const bool goes_on =
          with_row(file, file_index, index, [&](JsonlRow row, std::uint64_t json_bytes) {
            return use(index, std::move(row), json_bytes);
          });
      if (!goes_on) return;
    }
  }
}

}  // namespace sluice::data
