// Converts metrics.jsonl to a TensorBoard event file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

struct EventFile {
  std::string bytes;
  std::int64_t steps = 0;
  bool cut_off = false;
};

std::string event_file_path(const std::string& folder);

// `wall_end`: when the last step ended, in seconds since 1970. Throws Error(kInput) if the file is
// unreadable, empty or damaged, but accepts an incomplete last line.
EventFile events_of_metrics(const std::string& path, double wall_end);

namespace detail {

// CRC-32C (Castagnoli; RFC 3720, B.4).
std::uint32_t crc32c(std::string_view bytes);
// Returns a record: its length, the length's masked checksum, the payload and its masked checksum
// (tensorflow/core/lib/io/record_writer).
std::string tf_record(std::string_view payload);

}  // namespace detail
}  // namespace sluice
