// The text of a JSON document as a stream of its values, which keeps nothing of it.
//
// Owns: reading. Does not own: the use of the values, limits on depth, keys that come twice.
// Thread-safety: pure but for what the handler does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

struct JsonFault {
  std::size_t byte = 0;       // where reading ended, from 1
  std::string reason;         // "syntax error while parsing value - ..."
  bool is_too_large = false;  // a number beyond all doubles
};

// Reading ends where one returns false.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool number_integer(std::int64_t value) = 0;  // below 0
  virtual bool number_unsigned(std::uint64_t value) = 0;
  virtual bool number_float(double value) = 0;
  // Texts may be moved from.
  virtual bool string(std::string& text) = 0;
  virtual bool key(std::string& text) = 0;
  virtual bool start_object() = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
  virtual void malformed(const JsonFault& fault) = 0;
};

// A byte order mark is skipped, and a NUL ends the text (find_nul in strict_json.h).
void read_json(std::string_view text, JsonEvents& events);

}  // namespace sluice
