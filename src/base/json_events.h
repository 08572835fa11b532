// Reads JSON text as a stream of events. Accepts any depth and duplicate keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

struct JsonFault {
  std::size_t byte = 0;  // where reading ended, from 1
  std::string reason;
  bool is_too_large = false;  // a number exceeds the range of double
};

// Callbacks return false to stop reading.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool number_integer(std::int64_t value) = 0;  // only negative values
  virtual bool number_unsigned(std::uint64_t value) = 0;
  virtual bool number_float(double value) = 0;
  virtual bool string(std::string& text) = 0;
  virtual bool key(std::string& text) = 0;
  virtual bool start_object() = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
  virtual void malformed(const JsonFault& fault) = 0;
};

// Skips a byte order mark. A NUL ends the text, see find_nul() in strict_json.h.
void read_json(std::string_view text, JsonEvents& events);

}  // namespace sluice
