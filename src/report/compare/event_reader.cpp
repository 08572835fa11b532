// A record is its length (8 bytes), the masked CRC-32C of the length (4), a message
// tensorflow.Event, and the masked CRC-32C of the message (4). Messages are protocol buffers:
//   Event { double wall_time = 1; int64 step = 2; Summary summary = 5; }
//   Summary { repeated Value value = 1; }
//   Value { string tag = 1; float simple_value = 2; TensorProto tensor = 8; }
//   TensorProto { DataType dtype = 1; bytes tensor_content = 4; repeated float float_val = 5; }
#include "report/compare/event_reader.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/format.h"
#include "report/event_file.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kRecordHead = 12, kRecordEnd = 4;
constexpr std::uint64_t kFloatTensor = 1;

template <typename Number>
Number number_at(std::string_view bytes, std::size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

bool has_checksum(std::string_view bytes, std::uint32_t masked) {
  return std::rotr(detail::crc32c(bytes), 15) + 0xa282ead8u == masked;
}

struct MessageField {
  std::uint64_t number = 0;
  std::uint64_t integer = 0;  // a varint or fixed number
  std::string_view bytes;
};

// Reads one message field after the other.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  // Returns std::nullopt at the end, or if the message is malformed.
  std::optional<MessageField> next() {
    if (rest_.empty() || is_malformed_) return std::nullopt;
    MessageField field;
    const std::uint64_t key = varint();
    field.number = key >> 3;
    switch (key & 7) {
      case 0:
        field.integer = varint();
        break;
      case 1:
        field.integer = fixed_number<std::uint64_t>();
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.integer = fixed_number<std::uint32_t>();
        break;
      default:
        is_malformed_ = true;
    }
    if (field.number == 0) is_malformed_ = true;
    return is_malformed_ ? std::nullopt : std::optional(field);
  }
  bool is_malformed() const { return is_malformed_; }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) {
      is_malformed_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (byte.empty()) return 0;
      const auto bits = static_cast<unsigned char>(byte.front());
      value |= static_cast<std::uint64_t>(bits & 127) << shift;
      if (bits < 128) return value;
    }
    is_malformed_ = true;
    return 0;
  }

  template <typename Number>
  std::uint64_t fixed_number() {
    const std::string_view bytes = take(sizeof(Number));
    return bytes.empty() ? 0 : number_at<Number>(bytes, 0);
  }

  std::string_view rest_;
  bool is_malformed_ = false;
};

double float_value(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

// Returns false if the message is malformed. A tensor that is not one float has no value.
bool read_scalar_tensor(std::string_view message, std::optional<double>& value) {
  std::uint64_t dtype = 0;
  std::string_view content;
  std::optional<double> listed;
  MessageReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1) dtype = field->integer;
    if (field->number == 4) content = field->bytes;
    if (field->number == 5) {
      if (field->bytes.size() == 4)
        listed = float_value(number_at<std::uint32_t>(field->bytes, 0));
      else if (field->bytes.empty())
        listed = float_value(field->integer);
    }
  }
  if (dtype == kFloatTensor) {
    value = content.size() == 4 ? float_value(number_at<std::uint32_t>(content, 0)) : listed;
  }
  return !reader.is_malformed();
}

bool read_summary_value(std::string_view message, std::int64_t step, Scalars& scalars) {
  std::string tag;
  std::optional<double> value;
  MessageReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1) tag = field->bytes;
    if (field->number == 2) value = float_value(field->integer);
    if (field->number == 8 && !read_scalar_tensor(field->bytes, value)) return false;
  }
  if (value && !reader.is_malformed()) scalars.add(tag, step, *value);
  return !reader.is_malformed();
}

bool read_event(std::string_view message, Scalars& scalars) {
  std::int64_t step = 0;
  std::string_view summary;
  MessageReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 2) step = static_cast<std::int64_t>(field->integer);
    if (field->number == 5) summary = field->bytes;
  }
  if (reader.is_malformed()) return false;
  MessageReader values(summary);
  while (const auto field = values.next())
    if (field->number == 1 && !read_summary_value(field->bytes, step, scalars)) return false;
  return !values.is_malformed();
}

}  // namespace

void read_events(std::string_view bytes, const std::string& file, Scalars& scalars) {
  const auto refuse = [&](std::int64_t record, const char* what) {
    throw Error(ErrorKind::kInput, {.what = what,
                                    .where = formatted("{}, record {}", file, record),
                                    .remedy = "copy the file again, or name another one"});
  };
  for (std::int64_t record = 1; bytes.size() >= kRecordHead; ++record) {
    const auto length = number_at<std::uint64_t>(bytes, 0);
    if (!has_checksum(bytes.substr(0, 8), number_at<std::uint32_t>(bytes, 8)))
      refuse(record, "the checksum of the record's length is wrong");
    if (bytes.size() - kRecordHead < kRecordEnd || length > bytes.size() - kRecordHead - kRecordEnd)
      return;
    const std::string_view message = bytes.substr(kRecordHead, length);
    if (!has_checksum(message, number_at<std::uint32_t>(bytes, kRecordHead + length)))
      refuse(record, "the record's checksum is wrong");
    if (!read_event(message, scalars)) refuse(record, "the record is not an event");
    bytes.remove_prefix(kRecordHead + length + kRecordEnd);
  }
}

}  // namespace sluice
