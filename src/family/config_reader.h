// Typed access to the fields of a config.json, with errors that name file and field.
//
// Owns: types and ranges of single fields.
// Does not own: the fields of a family (llama.h, gpt2.h).
// A field whose value is null counts as absent, as transformers means it.
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace sluice::detail {

// Bounds of what is read, so that no file can ask for unbounded memory or overflow a size.
inline constexpr std::int64_t kMaxDimension = std::int64_t{1} << 30;
inline constexpr double kMaxParameters = 1e15;

class ConfigReader {
 public:
  // object: must outlive the reader. prefix: "rope_parameters." for a nested object.
  ConfigReader(const Json& object, std::string file_name, std::string prefix = {});

  bool has(const std::string& key) const;
  bool is_null(const std::string& key) const;  // written, as null
  bool is_object(const std::string& key) const;
  std::vector<std::string> keys() const;  // those that are present, sorted
  // A size with several names. Returns `absent` if the file has none of them. Throws if two of them
  // differ, or if one is null: transformers reads no null as a size.
  std::int64_t size_of(const std::vector<std::string>& names, std::int64_t absent,
                       std::int64_t max = kMaxDimension) const;
  std::int64_t size(const std::string& key, std::int64_t fallback,
                    std::int64_t max = kMaxDimension) const;
  std::optional<double> number(const std::string& key) const;
  double number(const std::string& key, double fallback, double min, double max) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  // A list of strings; empty where it is absent.
  std::vector<std::string> texts(const std::string& key) const;
  // A list of whole numbers between min and max; empty where it is absent.
  std::vector<std::int64_t> sizes(const std::string& key, std::int64_t min, std::int64_t max) const;
  // A list of numbers between min and max; empty where it is absent.
  std::vector<double> numbers(const std::string& key, double min, double max) const;
  std::optional<ConfigReader> object(const std::string& key) const;
  // Throws unless `key` is absent or has one of `accepted`.
  void require_flag(const std::string& key, bool accepted, bool fallback) const;
  // Throws unless `key` is not written, or with a value of the JSON list `accepted`.
  void require_one_of(const std::string& key, const std::string& accepted) const;

  // Error(kInput) at "file, field 'prefix.key'".
  [[noreturn]] void fail(const std::string& key, const std::string& what,
                         const std::string& remedy = {}) const;
  // Error(kInput) at "file".
  [[noreturn]] void fail_missing(const std::string& key, const std::string& remedy) const;
  const std::string& file_name() const { return file_name_; }

 private:
  const Json* find(const std::string& key) const;
  std::int64_t checked_size(const std::string& key, const Json& value, std::int64_t max) const;

  const Json* object_;
  std::string file_name_, prefix_;
};

}  // namespace sluice::detail
