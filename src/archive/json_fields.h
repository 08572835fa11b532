// JSON of an untrusted archive, with its place for errors: "model.pt2, entry 'models/model.json',
// node 12 'aten.linear.default'".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace sluice::detail {

class JsonField {
 public:
  JsonField(const Json& value, const std::string& where, std::string_view name = {})
      : value_(value), where_(where), name_(name) {}

  const Json& json() const { return value_; }
  const std::string& where() const { return where_; }

  JsonField at(std::string_view key) const;
  // Returns nullptr if missing or null.
  const Json* find(std::string_view key) const;
  const Json::List& list() const;
  const Json::Members& members() const;
  const std::string& text() const;
  std::int64_t integer() const;
  double number() const;  // also "Infinity", "-Infinity" and "NaN"
  bool boolean() const;
  // The archive writes a union as an object with one member.
  const Json::Member& only_member() const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  [[noreturn]] void refuse_type(const char* wanted) const;

  const Json& value_;
  const std::string& where_;
  std::string_view name_;
};

[[noreturn]] void refuse_archive(const std::string& where, const std::string& what);
[[noreturn]] void refuse_archive(const std::string& where, const std::string& what,
                                 const std::string& remedy);

}  // namespace sluice::detail
