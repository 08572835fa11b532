// JSON as text: the one source that knows the library, whose header costs more than all of ours.
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
  bool binary(binary_t&) override { return false; }  // not in text
  bool key(string_t& text) override { return events_.key(text); }
  bool start_object(std::size_t) override { return events_.start_object(); }
  bool end_object() override { return events_.end_object(); }
  bool start_array(std::size_t) override { return events_.start_array(); }
  bool end_array() override { return events_.end_array(); }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::json::exception& error) override {
    // Without the library's own prefix, "[json.exception.parse_error.101] parse error at ...: " or
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

}  // namespace

void read_json(std::string_view text, JsonEvents& events) {
  EventForwarder forwarder(events);
  nlohmann::json::sax_parse(text, &forwarder);
}

std::string Json::dump(int indent) const {
  return written(*this).dump(indent, ' ', false, WrittenJson::error_handler_t::replace);
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
