// Random access to the rows of files of JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/array_file.h"
#include "data/jsonl_row.h"
#include "data/row_file.h"

namespace sluice::data {

// True if training on the file needs no tokenizer.
bool first_row_has_ids(const std::string& path, const std::map<std::string, std::string>& names);

class JsonlRows {
 public:
  // Every row must have `fields`. Throws Error(kInput) for unreadable files,
  // rows over 64 MiB, files without rows, and a malformed first row.
  explicit JsonlRows(std::vector<std::string> files, bool has_tokens = true,
                     std::vector<FieldOption> fields = {},
                     std::map<std::string, std::string> names = {});

  std::uint64_t size() const { return size_; }
  std::uint64_t num_bytes() const { return num_bytes_; }
  std::size_t num_files() const { return files_.size(); }
  const std::string& file(std::size_t i) const { return files_[i].path(); }
  std::uint64_t first_of(std::size_t i) const { return i < first_.size() ? first_[i] : size_; }

  // The shapes of the files, each once, such as "alpaca". Empty if rows have no tokens.
  std::vector<std::string> shapes() const;

  // Returns "file:line" of a row.
  std::string place(std::uint64_t index) const;

  // Calls `use` with the row and returns its result. Adds "file:line" to errors. Throws
  // Error(kInput) if the row has another shape than the first row of its file. Precondition: index
  // < size().
  template <typename Use>
  auto with_row(std::uint64_t index, Use&& use) const {
    const std::size_t file_index = file_of(index);
    const std::shared_ptr<const File> file = files_[file_index].open();
    return with_row(*file, file_index, index, std::forward<Use>(use));
  }

  // Calls `use` for each row from `first` on, until it returns false.
  void for_each(
      std::uint64_t first,
      const std::function<bool(std::uint64_t, JsonlRow, std::uint64_t json_bytes)>& use) const;
  // The same with the row's JSON, which may be malformed.
  void for_each_text(const std::function<bool(std::uint64_t, const std::string& json)>& use) const;

 private:
  template <typename Use>
  auto with_row(const File& file, std::size_t file_index, std::uint64_t index, Use&& use) const {
    const std::string json = files_[file_index].json(file, index - first_[file_index]);
    try {
      JsonlRow row = parse_jsonl_row(
          json, "", {has_tokens_, fields_, &names_, folder_of_rows(files_[file_index].path())});
      require_shape(row, file_index);
      return use(std::move(row), std::uint64_t{json.size()});
    } catch (const Error& error) {
      throw at_row(error, file, file_index, index);
    }
  }
  void require_shape(const JsonlRow& row, std::size_t file_index) const;
  std::size_t file_of(std::uint64_t index) const;
  Error at_row(const Error& error, const File& file, std::size_t file_index,
               std::uint64_t index) const;

  std::vector<RowFile> files_;
  bool has_tokens_;
  std::vector<FieldOption> fields_;
  std::map<std::string, std::string> names_;  // DataOptions::fields
  std::vector<std::uint64_t> first_;          // per file: number of its first row
  std::vector<RowShape> shapes_;              // per file: shape of its first row
  std::uint64_t size_ = 0, num_bytes_ = 0;
};

}  // namespace sluice::data
