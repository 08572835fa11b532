// Reads any bytes as a zip file. The result must be an Error, or entries that lie inside the file
// and do not overlap.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "archive/exported_graph.h"
#include "archive/zip_file.h"
#include "fuzz/require.h"
#include "sluice/error.h"

namespace {

using sluice::test::require;

void check_entries(const sluice::detail::ZipFile& zip, std::size_t file_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const sluice::detail::ZipEntry& entry : zip.entries()) {
    require(!entry.name.empty() && zip.find(entry.name) == &entry);
    require(entry.offset <= file_bytes && entry.bytes <= file_bytes - entry.offset);
    places.emplace_back(entry.offset, entry.bytes);
    try {
      require(zip.read(entry, file_bytes).size() == entry.bytes);
    } catch (const sluice::Error& error) {
      require(error.kind() == sluice::ErrorKind::kInput);
    }
  }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i)
    require(places[i - 1].first + places[i - 1].second <= places[i].first);
}

}  // namespace

extern "C" int fuzz_zip_file(const std::uint8_t* data, std::size_t size) {
  try {
    const sluice::detail::ZipFile zip(
        {.name = "a.pt2",
         .bytes = size,
         .read = [&](void* buffer, std::size_t count, std::uint64_t offset) {
           require(offset <= size && count <= size - offset);
           if (count > 0) std::memcpy(buffer, data + offset, count);
         }});
    check_entries(zip, size);
    sluice::detail::read_exported_graph(zip);
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
  }
  return 0;
}
