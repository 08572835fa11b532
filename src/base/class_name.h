#pragma once

#include <string>

namespace sluice {

inline std::string short_class_name(const std::string& class_name) {
  const std::size_t scope = class_name.rfind("::");
  std::string name = scope == std::string::npos ? class_name : class_name.substr(scope + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

inline bool is_class(const std::string& class_name, const std::string& by) {
  if (class_name.empty() || by.empty()) return false;
  const std::string name = short_class_name(class_name);
  return by == class_name || by == name || by == name + "Impl" || by + "Impl" == class_name;
}

}  // namespace sluice
