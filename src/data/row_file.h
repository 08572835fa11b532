// Random access to the rows of a file of JSON: lines, or the objects of a list. Stores 8 bytes per
// row. A file that gzip compressed is unpacked into an unnamed temporary file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace sluice::data {

// Returns the first row's JSON, or "" if the file has none.
std::string first_row_of(const std::string& path);

class RowFile {
 public:
  // Throws Error(kInput) for an unreadable or damaged file, and for rows over 64 MiB.
  explicit RowFile(std::string path);

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return starts_.size(); }
  std::uint64_t num_bytes() const { return end_; }  // unpacked

  std::shared_ptr<const File> open() const;
  // `file` is open()'s. Precondition: row < size().
  std::string json(const File& file, std::uint64_t row) const;
  // Returns "file:line" of the row. Reads the file up to there.
  std::string place(const File& file, std::uint64_t row) const;

 private:
  std::string path_;
  std::shared_ptr<const File> unpacked_;  // null: the file itself has the rows
  bool is_list_ = false;
  std::vector<std::uint64_t> starts_;
  std::uint64_t end_ = 0;
};

}  // namespace sluice::data
