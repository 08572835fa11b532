// An enumerator that may also be said by name: `options.schedule = "zbv"`.
//
// For an enum with two functions beside it:
//   std::string_view name_of(Kind);            its name
//   Kind kind_of_name(std::string_view, Kind); by any of its names; the second argument says of
//   what.
// Thread-safety: values.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace sluice {

template <typename Kind>
class ByName {
 public:
  ByName(Kind kind) : kind_(kind), text_(name_of(kind)) {}
  // Throws what kind_of_name() throws: Error(kUsage) with the nearest name.
  template <typename Text>
  requires std::convertible_to<const Text&, std::string_view> ByName(const Text& name)
      : kind_(kind_of_name(std::string_view(name), Kind())), text_(name) {}

  Kind kind() const { return kind_; }
  const std::string& text() const { return text_; }  // as it was said

  friend bool operator==(const ByName& a, const ByName& b) { return a.kind_ == b.kind_; }

 private:
  Kind kind_;
  std::string text_;
};

}  // namespace sluice
