#include "data/row_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/format.h"
#include "data/gzip_file.h"
#include "data/jsonl_row.h"
#include "data/row_scan.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::size_t kScanBytes = std::size_t{1} << 20;

std::string row_in(std::string json, bool is_list) {
  json.resize(is_list ? json.rfind('}') + 1 : std::min(json.size(), json.find('\n')));
  return json;
}

// Calls `use`, which creates or writes the file that holds the unpacked rows of `path`.
template <typename Use>
auto unpacking(const std::string& path, const Use& use) {
  try {
    return use();
  } catch (const Error& error) {
    throw Error(error.kind(), {.what = "the rows cannot be unpacked: " + error.fact(),
                               .where = path,
                               .remedy = "set TMPDIR to a folder with space for them, or unpack "
                                         "the file yourself: gzip -dk " +
                                         path});
  }
}

}  // namespace

std::string first_row_of(const std::string& path) {
  const File file = File::open(path);
  const ReadNext read = read_unpacked(file);
  RowScan scan(path);
  std::string text, block(kScanBytes, '\0');
  while (scan.starts().empty()) {
    const std::size_t count = read(block.data(), block.size());
    scan.add({block.data(), count});
    text.append(block.data(), count);
    if (count < block.size()) scan.finish();
    if (count < block.size() && scan.starts().empty()) return {};
  }
  const std::size_t begin = scan.starts().front();
  if (!scan.is_list()) return row_in(text.substr(begin), false);
  const std::size_t next = scan.starts().size() > 1 ? scan.starts()[1] : text.size();
  return row_in(text.substr(begin, next - begin), true);
}

RowFile::RowFile(std::string path) : path_(std::move(path)) {
  const File file = File::open(path_);
  const ReadNext read = read_unpacked(file);
  RowScan scan(path_);
  std::string block(kScanBytes, '\0');
  std::optional<File> unpacked;
  if (is_gzip({block.data(), file.read_some(block.data(), block.size(), 0)}))
    unpacked.emplace(unpacking(path_, [&] { return File::temporary(path_); }));
  for (std::uint64_t done = 0;;) {
    const std::size_t count = read(block.data(), block.size());
    if (unpacked) unpacking(path_, [&] { unpacked->write(block.data(), count, done); });
    scan.add({block.data(), count});
    done += count;
    if (count < block.size()) break;
  }
  scan.finish();
  if (unpacked) unpacked_ = std::make_shared<const File>(*std::move(unpacked));
  is_list_ = scan.is_list();
  starts_ = scan.starts();
  end_ = scan.end();
}

std::shared_ptr<const File> RowFile::open() const {
  return unpacked_ ? unpacked_ : std::make_shared<const File>(File::open(path_));
}

std::string RowFile::json(const File& file, std::uint64_t row) const {
  const std::uint64_t begin = starts_[row], next = row + 1 < size() ? starts_[row + 1] : end_;
  std::string text(std::min(next - begin, kMaxRowBytes + 1), '\0');
  file.read(text.data(), text.size(), begin);
  return row_in(std::move(text), is_list_);
}

std::string RowFile::place(const File& file, std::uint64_t row) const {
  std::string block(kScanBytes, '\0');
  std::uint64_t lines = 1;
  for (std::uint64_t done = 0; done < starts_[row];) {
    const std::size_t count = file.read_some(
        block.data(), std::min<std::uint64_t>(block.size(), starts_[row] - done), done);
    if (count == 0) break;
    lines += static_cast<std::uint64_t>(
        std::count(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
    done += count;
  }
  return formatted("{}:{}", path_, lines);
}

}  // namespace sluice::data
