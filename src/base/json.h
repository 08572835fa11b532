// A JSON value. Objects parsed by strict_json.h have sorted members, others keep insertion order.
// Accessors throw Error(kInternal) for a value of another type.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

class Json {
 public:
  struct Member;
  using List = std::vector<Json>;
  using Members = std::vector<Member>;

  Json() noexcept;
  Json(std::nullptr_t) noexcept;
  Json(bool value);
  Json(int value);
  Json(long value);
  Json(long long value);
  Json(unsigned value);
  Json(unsigned long value);
  Json(unsigned long long value);
  Json(double value);
  Json(const char* text);
  Json(std::string text);
  Json(std::string_view text);
  Json(const void*) = delete;                   // a pointer would convert to bool
  Json(std::initializer_list<Member> members);  // {{"name", 1}, {"other", "text"}}
  template <typename T>
  Json(const std::optional<T>& value) : Json() {
    if (value) *this = Json(*value);
  }
  // A list, or an object if the range is a map.
  template <typename Range>
  requires requires(const Range& range) {
    range.begin() != range.end();
  } &&(!std::convertible_to<const Range&, std::string_view>)&&(
      !std::same_as<Range, std::initializer_list<Member>>)Json(const Range& range)
      : Json(is_map<Range> ? object() : array()) {
    for (const auto& each : range) {
      if constexpr (is_map<Range>)
        add(std::string(each.first), Json(each.second));
      else
        push_back(Json(each));
    }
  }
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array();
  static Json object();

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_number_integer() const;
  bool is_number_unsigned() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  std::string type_name() const;

  bool boolean() const;
  std::int64_t integer() const;
  std::uint64_t unsigned_integer() const;
  double number() const;
  const std::string& text() const;
  const List& list() const;
  const Members& members() const;

  // Elements of a list or object, 0 for null, otherwise 1.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // Returns nullptr if there is none.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  // Returns null if there is none.
  const Json& at(std::string_view key) const;
  // Adds a missing member. Null becomes an object. Build large objects with add(), because
  // operator[] searches linearly.
  Json& operator[](std::string_view key);
  // The key must be new. Null becomes an object.
  Json& add(std::string key, Json value);
  void erase(std::string_view key);
  void update(const Json& other);
  Json& push_back(Json value);

  // Compares numbers by value, not type.
  bool operator==(const Json& other) const;

  // Replaces invalid UTF-8 by U+FFFD.
  std::string dump(int indent = -1) const;
  // Returns std::nullopt for invalid UTF-8.
  std::optional<std::string> dump_valid() const;
  // Returns ASCII, for messages.
  std::string shown() const;

 private:
  friend class JsonBuilder;

  template <typename Range>
  static constexpr bool is_map = requires {
    typename Range::mapped_type;
  };

  struct Object {
    Members members;
    bool sorted = false;
  };
  Members::const_iterator place_of(const Object& object, std::string_view key) const;
  template <typename T>
  const T& get(const char* type) const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List, Object>
      value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

}  // namespace sluice
