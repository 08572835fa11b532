// metrics.jsonl as an event file of TensorBoard.
//
// Owns: the choice of scalars and their tags, TFRecord and its checksums. Does not own: the meaning
// of the numbers (docs/metrics.md). Thread-safety: pure functions, but for reading the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

// The content of an event file, and the lines that it has.
struct EventFile {
  std::string bytes;
  std::int64_t steps = 0;
  bool cut_off = false;  // the last line was half written, and is left out
};

// Its place in a folder: the same every time, so that a later file takes the place of an earlier.
std::string event_file_path(const std::string& folder);

// The events of a metrics.jsonl. wall_end: seconds since 1970 of its last step. Throws
// Error(kInput) for a file that cannot be read, has no line, or has a damaged one before the last.
EventFile events_of_metrics(const std::string& path, double wall_end);

namespace detail {

// CRC-32C (Castagnoli; RFC 3720, B.4), of bytes.
std::uint32_t crc32c(std::string_view bytes);
// A record of TFRecord: length, payload, and the masked checksum of each
// (tensorflow/core/lib/io/record_writer).
std::string tf_record(std::string_view payload);

}  // namespace detail
}  // namespace sluice
