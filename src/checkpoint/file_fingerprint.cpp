#include "checkpoint/file_fingerprint.h"

#include <algorithm>

#include "base/file.h"
#include "base/format.h"

namespace sluice {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

void add_range(const File& file, std::uint64_t offset, std::uint64_t count, ContentHash& hash) {
  std::vector<char> buffer(std::min(kPiece, count));
  for (std::uint64_t done = 0; done < count;) {
    const std::size_t piece = std::min<std::uint64_t>(buffer.size(), count - done);
    file.read(buffer.data(), piece, offset + done);
    hash.add(buffer.data(), piece);
    done += piece;
  }
}

void add_blocks(const File& file, std::uint64_t size, std::uint64_t num_blocks, ContentHash& hash) {
  const std::uint64_t last = size - kSampledBlockBytes, gaps = num_blocks - 1;
  for (std::uint64_t i = 0; i < num_blocks; ++i) {
    // Begin of block i, last * i / gaps without overflow.
    add_range(file, last / gaps * i + last % gaps * i / gaps, kSampledBlockBytes, hash);
  }
}

void add_number(std::uint64_t value, ContentHash& hash) {
  const std::string text = formatted("{}\n", value);
  hash.add(text.data(), text.size());
}

}  // namespace

std::uint64_t counted_bytes(std::uint64_t size, std::uint64_t list_bytes, std::size_t num_files) {
  if (size <= kWholeFileBytes && list_bytes <= kWholeListBytes) return size;
  const std::uint64_t sampled =
      std::clamp(kWholeListBytes / num_files / kSampledBlockBytes * kSampledBlockBytes,
                 2 * kSampledBlockBytes, kMostSampledBytes);
  return std::min(size, sampled);
}

std::uint64_t add_files(const std::vector<std::string>& files, ContentHash& hash) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t total = 0;
  for (const std::string& path : files) {
    sizes.push_back(File::open(path).size());
    total += sizes.back();
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const File file = File::open(files[i]);
    add_number(sizes[i], hash);
    const std::uint64_t counted = counted_bytes(sizes[i], total, files.size());
    if (counted == sizes[i]) {
      add_range(file, 0, counted, hash);
    } else {
      add_blocks(file, sizes[i], counted / kSampledBlockBytes, hash);
    }
  }
  return total;
}

std::uint64_t add_many_files(const std::vector<std::string>& files, ContentHash& hash) {
  if (files.size() <= kMostFiles) return files.empty() ? 0 : add_files(files, hash);
  std::uint64_t total = 0;
  for (const std::string& path : files) {
    const std::uint64_t size = File::open(path).size();
    add_number(size, hash);
    total += size;
  }
  std::vector<std::string> some;
  for (std::size_t i = 0; i < kMostFiles; ++i) some.push_back(files[i * files.size() / kMostFiles]);
  add_files(some, hash);
  return total;
}

}  // namespace sluice
