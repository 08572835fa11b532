// Parses as a stream, so that a hostile header cannot exhaust memory or stack.
#include "base/safetensors_header_json.h"

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/json_events.h"
#include "base/safetensors_header.h"
#include "base/strict_json.h"
#include "sluice/error.h"

namespace sluice::io {
namespace {

// serde_json, which the reference package uses, rejects level 128.
constexpr int kMaxDepth = 127;

class HeaderHandler final : public JsonEvents {
 public:
  explicit HeaderHandler(const std::string& file) : file_(file) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override {
    if (skipping() || state_ == State::kMetadataValue) return value_done();
    return unexpected("null");
  }
  bool boolean(bool) override { return skipping() ? value_done() : unexpected("a boolean"); }
  bool number_integer(std::int64_t) override {
    return skipping() ? value_done() : unexpected("a negative number");
  }
  bool number_float(double) override {
    return skipping() ? value_done() : unexpected("a number that is not a 64-bit integer");
  }

  bool number_unsigned(std::uint64_t value) override {
    if (skipping()) return value_done();
    if (state_ == State::kShape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return unexpected("a dimension above 2^63-1");
      }
      entry_.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (state_ == State::kOffsets && num_offsets_ < 2) {
      (num_offsets_ == 0 ? entry_.begin : entry_.end) = value;
      ++num_offsets_;
      return true;
    }
    return unexpected(state_ == State::kOffsets ? "a third offset" : "a number");
  }

  bool string(std::string& value) override {
    if (skipping()) return value_done();
    if (state_ == State::kMetadata) {
      header_.metadata[metadata_key_] = std::move(value);
      return true;
    }
    if (state_ == State::kTensor && field_ == Field::kDtype) {
      if (safetensors_dtype_bits(value) == 0) {
        refuse_header(file_, "unknown dtype '" + value + "'", entry_.name);
      }
      entry_.dtype = std::move(value);
      return true;
    }
    return unexpected("a string");
  }

  bool start_object() override {
    descend();
    if (skipping()) return true;
    switch (state_) {
      case State::kStart:
        state_ = State::kTop;
        return true;
      case State::kMetadataValue:
        state_ = State::kMetadata;
        return true;
      case State::kTensorValue:
        state_ = State::kTensor;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& key) override {
    if (skipping()) return true;
    switch (state_) {
      case State::kTop:
        return top_key(key);
      case State::kMetadata:
        metadata_key_ = key;
        return true;
      default:
        return field_key(key);
    }
  }

  bool end_object() override {
    --depth_;
    if (skipping()) return value_done();
    if (state_ == State::kTensor) finish_tensor();
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }

  bool start_array() override {
    descend();
    if (skipping()) return true;
    if (state_ == State::kTensor && field_ == Field::kShape) {
      state_ = State::kShape;
    } else if (state_ == State::kTensor && field_ == Field::kOffsets) {
      state_ = State::kOffsets;
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    --depth_;
    if (skipping()) return value_done();
    if (state_ == State::kOffsets && num_offsets_ != 2) return unexpected("fewer than two offsets");
    state_ = State::kTensor;
    return true;
  }

  void malformed(const JsonFault& fault) override {
    refuse_header(file_, "the header is not valid JSON at its byte " + std::to_string(fault.byte));
  }

 private:
  enum class State {
    kStart,
    kTop,
    kMetadataValue,
    kMetadata,
    kTensorValue,
    kTensor,
    kShape,
    kOffsets,
    kEnd
  };
  enum class Field { kDtype, kShape, kOffsets, kUnknown };

  bool skipping() const { return skip_from_ >= 0; }

  void descend() {
    if (++depth_ > kMaxDepth) refuse_header(file_, "the header is nested deeper than 127 levels");
  }

  // Stops skipping at the end of an unknown field's value. Also called for "__metadata__": null.
  bool value_done() {
    if (skipping()) {
      if (depth_ == skip_from_) skip_from_ = -1;
    } else {
      state_ = State::kTop;
    }
    return true;
  }

  bool top_key(std::string& key) {
    if (key == kMetadataKey) {
      if (std::exchange(has_metadata_, true)) refuse_header(file_, "'__metadata__' occurs twice");
      state_ = State::kMetadataValue;
      return true;
    }
    entry_ = SafetensorsEntry();
    entry_.name = std::move(key);
    num_offsets_ = 0;
    has_field_ = {};
    state_ = State::kTensorValue;
    return true;
  }

  bool field_key(const std::string& key) {
    field_ = key == "dtype"          ? Field::kDtype
             : key == "shape"        ? Field::kShape
             : key == "data_offsets" ? Field::kOffsets
                                     : Field::kUnknown;
    if (field_ == Field::kUnknown) {
      skip_from_ = depth_;
      return true;
    }
    if (std::exchange(has_field_[static_cast<std::size_t>(field_)], true)) {
      refuse_header(file_, "field '" + key + "' occurs twice", entry_.name);
    }
    return true;
  }

  void finish_tensor() {
    static constexpr std::array<const char*, 3> kFields = {"dtype", "shape", "data_offsets"};
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      if (!has_field_[i])
        refuse_header(file_, std::string("field '") + kFields[i] + "' is missing", entry_.name);
    }
    header_.entries.push_back(std::move(entry_));
  }

  bool unexpected(const std::string& found) const {
    static constexpr std::array<const char*, 3> kFields = {"'dtype'", "'shape'", "'data_offsets'"};
    std::string place = "at the top of the header";
    std::string name;
    switch (state_) {
      case State::kMetadataValue:
      case State::kMetadata:
        place = "in '__metadata__', a map of strings";
        break;
      case State::kTensorValue:
        place = "instead of dtype, shape and data_offsets";
        name = entry_.name;
        break;
      case State::kTensor:
      case State::kShape:
      case State::kOffsets:
        place = std::string("in ") + kFields[static_cast<std::size_t>(field_)];
        name = entry_.name;
        break;
      default:
        break;
    }
    refuse_header(file_, found + " " + place, name);
  }

  const std::string& file_;
  SafetensorsHeader header_;
  State state_ = State::kStart;
  Field field_ = Field::kUnknown;
  int depth_ = 0;
  int skip_from_ = -1;  // depth of the value being skipped, or -1
  bool has_metadata_ = false;
  std::string metadata_key_;
  SafetensorsEntry entry_;
  int num_offsets_ = 0;
  std::array<bool, 3> has_field_ = {};
};

}  // namespace

void refuse_header(const std::string& file, const std::string& what, const std::string& name) {
  throw Error(ErrorKind::kInput, {.what = what,
                                  .where = name.empty() ? file : file + ", tensor '" + name + "'",
                                  .remedy = kDamagedRemedy});
}

SafetensorsHeader read_header_json(std::string_view json, const std::string& file) {
  // The format has no byte order mark, but the JSON library would skip it.
  if (json.substr(0, 3) == "\xEF\xBB\xBF") {
    refuse_header(file, "the header starts with a byte order mark");
  }
  if (find_nul(json) != std::string_view::npos) refuse_header(file, "the header holds a NUL byte");
  HeaderHandler handler(file);
  read_json(json, handler);
  return handler.take();
}

}  // namespace sluice::io
