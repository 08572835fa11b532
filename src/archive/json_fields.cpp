#include "archive/json_fields.h"

#include <limits>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice::detail {

void refuse_archive(const std::string& where, const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kInput, {.what = what, .where = where, .remedy = remedy});
}

void refuse_archive(const std::string& where, const std::string& what) {
  refuse_archive(where, what, "export the model again");
}

void JsonField::refuse(const std::string& what) const { refuse_archive(where_, what); }

void JsonField::refuse_type(const char* wanted) const {
  refuse(formatted("{} is {}, not {}", name_.empty() ? "a value" : "'" + std::string(name_) + "'",
                   value_.type_name(), wanted));
}

JsonField JsonField::at(std::string_view key) const {
  if (!value_.is_object()) refuse_type("an object");
  const Json* member = value_.find(key);
  if (!member) refuse(formatted("'{}' is missing", key));
  return {*member, where_, key};
}

const Json* JsonField::find(std::string_view key) const {
  if (!value_.is_object()) refuse_type("an object");
  const Json* member = value_.find(key);
  return member && !member->is_null() ? member : nullptr;
}

const Json::List& JsonField::list() const {
  if (!value_.is_array()) refuse_type("a list");
  return value_.list();
}

const Json::Members& JsonField::members() const {
  if (!value_.is_object()) refuse_type("an object");
  return value_.members();
}

const std::string& JsonField::text() const {
  if (!value_.is_string()) refuse_type("a text");
  return value_.text();
}

std::int64_t JsonField::integer() const {
  if (!value_.is_number_integer()) refuse_type("a whole number");
  if (value_.is_number_unsigned() &&
      value_.unsigned_integer() > static_cast<std::uint64_t>(INT64_MAX))
    refuse(formatted("'{}' is {}, beyond 64 bits", name_, value_.unsigned_integer()));
  return value_.integer();
}

double JsonField::number() const {
  if (value_.is_string()) {
    const std::string& text = value_.text();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  if (!value_.is_number()) refuse_type("a number");
  return value_.number();
}

bool JsonField::boolean() const {
  if (!value_.is_boolean()) refuse_type("true or false");
  return value_.boolean();
}

const Json::Member& JsonField::only_member() const {
  if (!value_.is_object() || value_.size() != 1) refuse_type("an object with one member");
  return value_.members()[0];
}

}  // namespace sluice::detail
