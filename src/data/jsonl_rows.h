// Random access to the rows of .jsonl files. Stores 8 bytes per row.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/array_file.h"
#include "data/jsonl_row.h"

namespace sluice::data {

// True if training on the file needs no tokenizer.
bool first_row_has_ids(const std::string& path);

class JsonlRows {
 public:
  // Skips blank lines. Every row must have `fields`. Throws Error(kInput) for unreadable files,
  // lines over 64 MiB, and files without rows.
  explicit JsonlRows(std::vector<std::string> files, bool has_tokens = true,
                     std::vector<FieldOption> fields = {});

  std::uint64_t size() const { return size_; }
  std::uint64_t num_bytes() const { return num_bytes_; }
  std::size_t num_files() const { return files_.size(); }
  const std::string& file(std::size_t i) const { return files_[i]; }
  std::uint64_t first_of(std::size_t i) const { return i < first_.size() ? first_[i] : size_; }

  // Returns "file:line" of a row.
  std::string place(std::uint64_t index) const;

  // Calls `use` with the row and returns its result. Adds "file:line" to errors. Precondition:
  // index < size().
  template <typename Use>
  auto with_row(std::uint64_t index, Use&& use) const {
    const std::size_t file_index = file_of(index);
    const File file = File::open(files_[file_index]);
    return with_row(file, file_index, index, std::forward<Use>(use));
  }

  // Calls `use` for each row from `first` on, until it returns false.
  void for_each(
      std::uint64_t first,
      const std::function<bool(std::uint64_t, JsonlRow, std::uint64_t json_bytes)>& use) const;
  void for_each_text(const std::function<bool(std::uint64_t, const std::string& json)>& use) const;

 private:
  template <typename Use>
  auto with_row(const File& file, std::size_t file_index, std::uint64_t index, Use&& use) const {
    const std::string json = json_of(file, file_index, index);
    try {
      return use(
          parse_jsonl_row(json, "", {has_tokens_, fields_, folder_of_rows(files_[file_index])}),
          std::uint64_t{json.size()});
    } catch (const Error& error) {
      throw at_row(error, file, file_index, index);
    }
  }
  std::size_t file_of(std::uint64_t index) const;
  std::string json_of(const File& file, std::size_t file_index, std::uint64_t index) const;
  Error at_row(const Error& error, const File& file, std::size_t file_index,
               std::uint64_t index) const;

  std::vector<std::string> files_;
  bool has_tokens_;
  std::vector<FieldOption> fields_;
  // per file: offset of each row, then the file's size
  std::vector<std::vector<std::uint64_t>> offsets_;
  std::vector<std::uint64_t> first_;  // per file: number of its first row
  std::uint64_t size_ = 0, num_bytes_ = 0;
};

}  // namespace sluice::data
