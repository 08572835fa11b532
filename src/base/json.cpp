#include "base/json.h"

#include <algorithm>
#include <array>

#include "sluice/error.h"

namespace sluice {
namespace {

[[noreturn]] void fail_type(const Json& value, const std::string& expected) {
  throw Error(ErrorKind::kInternal,
              {.what = "a JSON value is not " + expected + " but " + value.type_name()});
}

}  // namespace

Json::Json() noexcept = default;
Json::Json(std::nullptr_t) noexcept {}
Json::Json(bool value) : value_(value) {}
Json::Json(int value) : value_(std::int64_t{value}) {}
Json::Json(long value) : value_(std::int64_t{value}) {}
Json::Json(long long value) : value_(std::int64_t{value}) {}
Json::Json(unsigned value) : value_(std::uint64_t{value}) {}
Json::Json(unsigned long value) : value_(std::uint64_t{value}) {}
Json::Json(unsigned long long value) : value_(std::uint64_t{value}) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::initializer_list<Member> members) : value_(Object{members}) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::array() {
  Json list;
  list.value_.emplace<List>();
  return list;
}

Json Json::object() {
  Json object;
  object.value_.emplace<Object>();
  return object;
}

bool Json::is_null() const { return std::holds_alternative<std::monostate>(value_); }
bool Json::is_boolean() const { return std::holds_alternative<bool>(value_); }
bool Json::is_number() const {
  return is_number_integer() || std::holds_alternative<double>(value_);
}
bool Json::is_number_integer() const {
  return is_number_unsigned() || std::holds_alternative<std::int64_t>(value_);
}
bool Json::is_number_unsigned() const { return std::holds_alternative<std::uint64_t>(value_); }
bool Json::is_string() const { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const { return std::holds_alternative<List>(value_); }
bool Json::is_object() const { return std::holds_alternative<Object>(value_); }

std::string Json::type_name() const {
  static constexpr std::array<const char*, 8> kNames = {"null",   "boolean", "number", "number",
                                                        "number", "string",  "array",  "object"};
  return kNames.at(value_.index());
}

template <typename T>
const T& Json::get(const char* type) const {
  const T* const value = std::get_if<T>(&value_);
  if (!value) fail_type(*this, type);
  return *value;
}

bool Json::boolean() const { return get<bool>("true or false"); }
std::int64_t Json::integer() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  if (const auto* value = std::get_if<double>(&value_)) return static_cast<std::int64_t>(*value);
  return static_cast<std::int64_t>(get<std::uint64_t>("a number"));
}
std::uint64_t Json::unsigned_integer() const {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return *value;
  return static_cast<std::uint64_t>(integer());
}
double Json::number() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  return get<double>("a number");
}
const std::string& Json::text() const { return get<std::string>("a string"); }
const Json::List& Json::list() const { return get<List>("a list"); }
const Json::Members& Json::members() const { return get<Object>("an object").members; }

std::size_t Json::size() const {
  if (is_array()) return list().size();
  if (is_object()) return members().size();
  return is_null() ? 0 : 1;
}

Json::Members::const_iterator Json::place_of(const Object& object, std::string_view key) const {
  const Members& members = object.members;
  if (!object.sorted) return std::ranges::find(members, key, &Member::key);
  return std::lower_bound(
      members.begin(), members.end(), key,
      [](const Member& member, std::string_view wanted) { return member.key < wanted; });
}

const Json* Json::find(std::string_view key) const {
  const Object* const object = std::get_if<Object>(&value_);
  if (!object) return nullptr;
  const auto place = place_of(*object, key);
  return place != object->members.end() && place->key == key ? &place->value : nullptr;
}

const Json& Json::at(std::string_view key) const {
  static const Json null;
  const Json* const value = find(key);
  return value ? *value : null;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_.emplace<Object>();
  if (const Json* value = find(key)) return const_cast<Json&>(*value);
  members();  // throws unless an object
  Object& object = std::get<Object>(value_);
  return object.members.insert(place_of(object, key), {std::string(key), {}})->value;
}

Json& Json::add(std::string key, Json value) {
  if (is_null()) value_.emplace<Object>();
  members();
  Object& object = std::get<Object>(value_);
  const auto place = object.sorted ? place_of(object, key) : object.members.cend();
  return object.members.insert(place, {std::move(key), std::move(value)})->value;
}

void Json::erase(std::string_view key) {
  if (!contains(key)) return;
  Object& object = std::get<Object>(value_);
  object.members.erase(place_of(object, key));
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.members()) (*this)[key] = value;
}

Json& Json::push_back(Json value) {
  if (is_null()) value_.emplace<List>();
  list();  // throws unless a list
  return std::get<List>(value_).emplace_back(std::move(value));
}

bool Json::operator==(const Json& other) const {
  if (is_number() && other.is_number()) {
    if (!is_number_integer() || !other.is_number_integer()) return number() == other.number();
    const bool is_negative = !is_number_unsigned() && integer() < 0;
    const bool other_is_negative = !other.is_number_unsigned() && other.integer() < 0;
    return is_negative == other_is_negative && unsigned_integer() == other.unsigned_integer();
  }
  if (value_.index() != other.value_.index()) return false;
  if (is_object()) {
    return size() == other.size() && std::ranges::all_of(members(), [&](const Member& member) {
             const Json* const twin = other.find(member.key);
             return twin && *twin == member.value;
           });
  }
  if (is_array()) return list() == other.list();
  if (is_string()) return text() == other.text();
  return is_null() || boolean() == other.boolean();
}

}  // namespace sluice
