#include "data/jsonl_rows.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "data/row_shape.h"
#include "sluice/error.h"

namespace sluice::data {

bool first_row_has_ids(const std::string& path, const std::map<std::string, std::string>& names) {
  try {
    const std::string json = first_row_of(path);
    return !json.empty() && parse_jsonl_row(json, "", {.names = &names}).input_ids.has_value();
  } catch (const Error&) {
    return false;  // reading the row will report the error
  }
}

JsonlRows::JsonlRows(std::vector<std::string> files, bool has_tokens,
                     std::vector<FieldOption> fields, std::map<std::string, std::string> names)
    : has_tokens_(has_tokens), fields_(std::move(fields)), names_(std::move(names)) {
  for (std::string& path : files) {
    files_.emplace_back(std::move(path));
    first_.push_back(size_);
    size_ += files_.back().size();
    num_bytes_ += files_.back().num_bytes();
  }
  if (size_ == 0) {
    throw Error(
        ErrorKind::kInput,
        {.what = "the data has no rows",
         .where = file(0),
         .remedy = "a row is a line with a JSON object: name files with rows in `data.files`"});
  }
  for (std::size_t i = 0; has_tokens_ && i < files_.size(); ++i) {
    const bool is_empty = first_of(i) == first_of(i + 1);
    shapes_.push_back(is_empty ? RowShape::kNone
                               : with_row(first_[i], [](const JsonlRow& row, std::uint64_t) {
                                   return row.shape;
                                 }));
  }
}

std::vector<std::string> JsonlRows::shapes() const {
  std::vector<std::string> names;
  for (const RowShape shape : shapes_) {
    if (shape != RowShape::kNone &&
        std::find(names.begin(), names.end(), name_of(shape)) == names.end())
      names.emplace_back(name_of(shape));
  }
  return names;
}

void JsonlRows::require_shape(const JsonlRow& row, std::size_t file_index) const {
  const RowShape first = file_index < shapes_.size() ? shapes_[file_index] : RowShape::kNone;
  if (row.shape == first || row.shape == RowShape::kNone || first == RowShape::kNone) return;
  throw Error(
      ErrorKind::kInput,
      {.what = formatted("the row has the shape of {}, but the first row of the file that of {}",
                         name_of(row.shape), name_of(first)),
       .remedy = "put rows of each shape into a file of their own"});
}

// Returns the index of the file with the row. An empty file has the same first row as the next file
// and is skipped.
std::size_t JsonlRows::file_of(std::uint64_t index) const {
  return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), index) -
                                  first_.begin()) -
         1;
}

// Adds "file:line" to the error. Counting lines is slow, so do this only for errors.
Error JsonlRows::at_row(const Error& error, const File& file, std::size_t file_index,
                        std::uint64_t index) const {
  const std::string line = files_[file_index].place(file, index - first_[file_index]);
  return error.at(error.where().empty() ? line : line + ", " + error.where());
}

std::string JsonlRows::place(std::uint64_t index) const {
  const std::size_t file_index = file_of(index);
  return files_[file_index].place(*files_[file_index].open(), index - first_[file_index]);
}

void JsonlRows::for_each_text(
    const std::function<bool(std::uint64_t, const std::string& json)>& use) const {
  for (std::uint64_t index = 0; index < size_;) {
    const std::size_t file_index = file_of(index);
    const std::shared_ptr<const File> file = files_[file_index].open();
    for (const std::uint64_t end = first_of(file_index + 1); index < end; ++index) {
      const std::string json = files_[file_index].json(*file, index - first_[file_index]);
      try {
        if (!use(index, json)) return;
      } catch (const Error& error) {
        throw at_row(error, *file, file_index, index);
      }
    }
  }
}

void JsonlRows::for_each(
    std::uint64_t first,
    const std::function<bool(std::uint64_t, JsonlRow, std::uint64_t json_bytes)>& use) const {
  for (std::uint64_t index = first; index < size_;) {
    const std::size_t file_index = file_of(index);
    const std::shared_ptr<const File> file = files_[file_index].open();
    for (const std::uint64_t end = first_of(file_index + 1); index < end; ++index) {
      const bool goes_on =
          with_row(*file, file_index, index, [&](JsonlRow row, std::uint64_t json_bytes) {
            return use(index, std::move(row), json_bytes);
          });
      if (!goes_on) return;
    }
  }
}

}  // namespace sluice::data
