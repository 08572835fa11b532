// Converts metrics.jsonl to an event file of TensorBoard.
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

// `wall_end`: seconds since 1970 of the last step. Throws Error(kInput) for an unreadable, empty or
// damaged file; an incomplete last line is allowed.
EventFile events_of_metrics(const std::string& path, double wall_end);

namespace detail {

// CRC-32C (Castagnoli; RFC 3720, B.4).
std::uint32_t crc32c(std::string_view bytes);
// Each record is a length and its masked checksum, then the payload and its masked checksum
// (tensorflow/core/lib/io/record_writer).
std::string tf_record(std::string_view payload);

}  // namespace detail
}  // namespace sluice
