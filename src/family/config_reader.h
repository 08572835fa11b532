// Typed access to the fields of a config.json. As in transformers, a null field counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace sluice::detail {

// Bounds memory and prevents overflow for malicious files.
inline constexpr std::int64_t kMaxDimension = std::int64_t{1} << 30;
inline constexpr double kMaxParameters = 1e15;

class ConfigReader {
 public:
  // `object` must outlive the reader. `prefix` is for example "rope_parameters.".
  ConfigReader(const Json& object, std::string file_name, std::string prefix = {});

  bool has(const std::string& key) const;
  bool is_null(const std::string& key) const;  // present, with the value null
  bool is_object(const std::string& key) const;
  std::vector<std::string> keys() const;  // present keys, sorted
  // Reads a size that has several names. Throws if their values differ, or if one is null, as in
  // transformers.
  std::int64_t size_of(const std::vector<std::string>& names, std::int64_t absent,
                       std::int64_t max = kMaxDimension) const;
  std::int64_t size(const std::string& key, std::int64_t fallback,
                    std::int64_t max = kMaxDimension) const;
  std::optional<double> number(const std::string& key) const;
  double number(const std::string& key, double fallback, double min, double max) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  // Returns an empty list if absent, like the two functions below.
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<std::int64_t> sizes(const std::string& key, std::int64_t min, std::int64_t max) const;
  std::vector<double> numbers(const std::string& key, double min, double max) const;
  std::optional<ConfigReader> object(const std::string& key) const;
  void require_flag(const std::string& key, bool accepted, bool fallback) const;
  // Throws if the value, even null, is not in the JSON list `accepted`.
  void require_one_of(const std::string& key, const std::string& accepted) const;

  // Throws Error(kInput) at "file, field 'prefix.key'".
  [[noreturn]] void fail(const std::string& key, const std::string& what,
                         const std::string& remedy = {}) const;
  [[noreturn]] void fail_missing(const std::string& key, const std::string& remedy) const;
  const std::string& file_name() const { return file_name_; }

 private:
  const Json* find(const std::string& key) const;
  std::int64_t checked_size(const std::string& key, const Json& value, std::int64_t max) const;

  const Json* object_;
  std::string file_name_, prefix_;
};

}  // namespace sluice::detail
