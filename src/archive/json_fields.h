// Fields of JSON that somebody else wrote, with errors that say where the archive is wrong.
//
// Owns: looking into values. Does not own: parsing (base/strict_json.h).
// Errors: Error(kInput) at the place that the field has: "model.pt2, entry 'models/model.json',
// node 12 'aten.linear.default'".
// Thread-safety: values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace sluice::detail {

// A value with the place of what holds it.
class JsonField {
 public:
  JsonField(const Json& value, const std::string& where, std::string_view name = {})
      : value_(value), where_(where), name_(name) {}

  const Json& json() const { return value_; }
  const std::string& where() const { return where_; }

  // All throw where the value is of another type. The result has this field's place.
  JsonField at(std::string_view key) const;
  // Nothing where there is none, or null.
  const Json* find(std::string_view key) const;
  const Json::List& list() const;
  const Json::Members& members() const;
  const std::string& text() const;
  std::int64_t integer() const;
  double number() const;  // also the texts "Infinity", "-Infinity" and "NaN"
  bool boolean() const;
  // A union of the archive: the one member of an object.
  const Json::Member& only_member() const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  [[noreturn]] void refuse_type(const char* wanted) const;

  const Json& value_;
  const std::string& where_;
  std::string_view name_;
};

// Throws Error(kInput), with the remedy that another export is needed.
[[noreturn]] void refuse_archive(const std::string& where, const std::string& what);
[[noreturn]] void refuse_archive(const std::string& where, const std::string& what,
                                 const std::string& remedy);

}  // namespace sluice::detail
