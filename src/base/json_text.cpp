// The only source that includes the JSON library, whose header compiles slowly.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_events.h"

namespace sluice {
namespace {

using WrittenJson = nlohmann::ordered_json;

class EventForwarder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit EventForwarder(JsonEvents& events) : events_(events) {}

  bool null() override { return events_.null(); }
  bool boolean(bool value) override { return events_.boolean(value); }
  bool number_integer(number_integer_t value) override { return events_.number_integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return events_.number_unsigned(value); }
  bool number_float(number_float_t value, const string_t&) override {
    return events_.number_float(value);
  }
  bool string(string_t& text) override { return events_.string(text); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& text) override { return events_.key(text); }
  bool start_object(std::size_t) override { return events_.start_object(); }
  bool end_object() override { return events_.end_object(); }
  bool start_array(std::size_t) override { return events_.start_array(); }
  bool end_array() override { return events_.end_array(); }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::json::exception& error) override {
    // Removes the library's prefix: "[json.exception.parse_error.101] parse error at ...: ",
    // "[json.exception.out_of_range.406] ".
    const bool is_too_large = dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr;
    std::string reason = error.what();
    const std::size_t prefix = reason.find(is_too_large ? "] " : ": ");
    if (prefix != std::string::npos) reason.erase(0, prefix + 2);
    events_.malformed({byte, std::move(reason), is_too_large});
    return false;
  }

 private:
  JsonEvents& events_;
};

WrittenJson written(const Json& value) {
  if (value.is_object()) {
    WrittenJson::object_t members;
    members.reserve(value.size());
    for (const auto& [key, member] : value.members()) members.emplace_back(key, written(member));
    return members;
  }
  if (value.is_array()) {
    WrittenJson::array_t list;
    list.reserve(value.size());
    for (const Json& item : value.list()) list.push_back(written(item));
    return list;
  }
  if (value.is_string()) return value.text();
  if (value.is_boolean()) return value.boolean();
  if (value.is_number_unsigned()) return value.unsigned_integer();
  if (value.is_number_integer()) return value.integer();
  if (value.is_number()) return value.number();
  return nullptr;
}

// Length of the first character if it controls a terminal and JSON allows it unescaped, else 0.
std::size_t steering_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned second = byte(1), third = byte(2);
  switch (byte(0)) {
    case 0x7f:
      return 1;
    case 0xc2:
      return second >= 0x80 && second <= 0x9f ? 2 : 0;
    case 0xd8:
      return second == 0x9c ? 2 : 0;
    case 0xe2: {
      const bool is_mark = second == 0x80 && (third == 0x8e || third == 0x8f);
      const bool is_override = second == 0x80 && third >= 0xa8 && third <= 0xae;
      const bool is_isolate = second == 0x81 && third >= 0xa6 && third <= 0xa9;
      return is_mark || is_override || is_isolate ? 3 : 0;
    }
    default:
      return 0;
  }
}

// Escapes terminal controls as \uXXXX. They occur only in strings.
std::string with_escapes(std::string json) {
  const auto begins_one = [](char c) {
    return c == '\x7f' || c == '\xc2' || c == '\xd8' || c == '\xe2';
  };
  if (std::none_of(json.begin(), json.end(), begins_one)) return json;
  std::string escaped;
  escaped.reserve(json.size());
  for (std::string_view rest = json; !rest.empty();) {
    const std::size_t length = steering_length(rest);
    if (length == 0) {
      escaped += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    const std::string quoted =
        length == 1 ? "\"\\u007f\""
                    : WrittenJson(std::string(rest.substr(0, length))).dump(-1, ' ', true);
    escaped.append(quoted, 1, quoted.size() - 2);
    rest.remove_prefix(length);
  }
  return escaped;
}

}  // namespace

void read_json(std::string_view text, JsonEvents& events) {
  EventForwarder forwarder(events);
  nlohmann::json::sax_parse(text, &forwarder);
}

std::string Json::dump(int indent) const {
  return with_escapes(
      written(*this).dump(indent, ' ', false, WrittenJson::error_handler_t::replace));
}

std::optional<std::string> Json::dump_valid() const {
  try {
    return written(*this).dump();
  } catch (const WrittenJson::type_error&) {
    return std::nullopt;
  }
}

std::string Json::shown() const {
  return written(*this).dump(-1, ' ', true, WrittenJson::error_handler_t::replace);
}

}  // namespace sluice
