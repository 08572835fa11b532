#include "report/event_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/line_reader.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "report/metrics_file.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 31;

template <typename Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i)
    bytes += static_cast<char>((number >> (8 * i)) & 0xff);
  return bytes;
}

// ---- protocol buffers: the fields of tensorflow.Event for scalars ----

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number > 127; number >>= 7) bytes += static_cast<char>((number & 127) | 128);
  return bytes + static_cast<char>(number);
}

std::string bytes_field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>((number << 3) | 2)) + varint(bytes.size()) + bytes;
}

std::string event(double wall_time, std::int64_t step, const std::string& what) {
  return "\x09" + little_endian(std::bit_cast<std::uint64_t>(wall_time)) + "\x10" +
         varint(static_cast<std::uint64_t>(step)) + what;
}

std::string scalar(const std::string& tag, double value) {
  return bytes_field(1, bytes_field(1, tag) + "\x15" +
                            little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value))));
}

// Tags of list elements get the suffix "/rank_N", those of object members "/NAME".
void add_scalars(const std::string& tag, const Json& value, std::string& summary) {
  if (value.is_number()) {
    summary += scalar(tag, value.number());
  } else if (value.is_array()) {
    std::size_t rank = 0;
    for (const Json& each : value.list())
      add_scalars(formatted("{}/rank_{}", tag, rank++), each, summary);
  } else if (value.is_object()) {
    for (const auto& [name, each] : value.members())
      add_scalars(formatted("{}/{}", tag, name), each, summary);
  }
}

double number_in(const Json& line, const char* name) {
  const Json* const value = line.find(name);
  return value && value->is_number() ? value->number() : 0;
}

std::string event_of(const Json& line, double wall_time) {
  std::string summary;
  for (const auto& [name, value] : line.members())
    if (name != "step" && name != "continuations") add_scalars(name, value, summary);
  return event(wall_time, static_cast<std::int64_t>(number_in(line, "step")),
               bytes_field(5, summary));
}

std::vector<Json> lines_of(const std::string& path, bool& cut_off) {
  const File source = File::open(path);
  LineReader reader(source, MetricsFile::kLongestLine);
  std::vector<Json> lines;
  std::uint64_t bytes = 0;
  while (const std::optional<LineReader::Line> next = reader.next()) {
    std::optional<Json> line = next->is_too_long ? std::nullopt : parse_json(next->text);
    const bool holds = line && line->is_object() && line->find("step");
    if (!holds && next->has_end) {
      throw Error(ErrorKind::kInput, {.what = "the line is not an object with a step",
                                      .where = reader.where(),
                                      .remedy = "take the line out, or name another folder"});
    }
    bytes += next->text.size();
    if (bytes > kMostBytes) {
      throw Error(ErrorKind::kInput, {.what = "the file is larger than " +
                                              human_bytes(static_cast<std::int64_t>(kMostBytes)),
                                      .where = path,
                                      .remedy = "is it the right file?"});
    }
    if (holds) lines.push_back(std::move(*line));
    cut_off = !holds;
  }
  if (!lines.empty()) return lines;
  throw Error(ErrorKind::kInput, {.what = "the file has no logged step",
                                  .where = path,
                                  .remedy = "name the folder of a run that made steps"});
}

}  // namespace

namespace detail {

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
      made.at(i) = value;
    }
    return made;
  }();
  std::uint32_t sum = ~0u;
  for (const char byte : bytes)
    sum = table.at((sum ^ static_cast<unsigned char>(byte)) & 0xff) ^ sum >> 8;
  return ~sum;
}

std::string tf_record(std::string_view payload) {
  const auto masked = [](std::string_view bytes) {
    return little_endian(std::rotr(crc32c(bytes), 15) + 0xa282ead8u);
  };
  const std::string length = little_endian(std::uint64_t{payload.size()});
  return length + masked(length) + std::string(payload) + masked(payload);
}

}  // namespace detail

std::string event_file_path(const std::string& folder) {
  return folder + "/events.out.tfevents.0.sluice";
}

EventFile events_of_metrics(const std::string& path, double wall_end) {
  EventFile file;
  const std::vector<Json> lines = lines_of(path, file.cut_off);
  double wall_time = wall_end;
  for (const Json& line : lines) wall_time -= number_in(line, "step_seconds");
  file.bytes = detail::tf_record(event(wall_time, 0, bytes_field(3, "brain.Event:2")));
  for (const Json& line : lines) {
    wall_time += number_in(line, "step_seconds");
    file.bytes += detail::tf_record(event_of(line, wall_time));
  }
  file.steps = static_cast<std::int64_t>(lines.size());
  return file;
}

}  // namespace sluice
