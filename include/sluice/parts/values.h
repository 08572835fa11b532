// Named tensors, and what is known of a tensor without having it.
//
// Owns: TensorMeta, Values. Does not own: what the names mean (layer.h).
// Thread-safety: values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// What is known of a tensor without having it. Of an undefined tensor, an optional value that is
// not there: no sizes and the dtype at::ScalarType::Undefined.
struct TensorMeta {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};
TensorMeta meta_of(const at::Tensor& tensor);
std::string to_text(const TensorMeta& meta);   // "float32[2, 16, 64]"
std::string dtype_name(at::ScalarType dtype);  // "float32", "bfloat16", "int64"

// Named tensors in a fixed order. Small: linear search.
class Values {
 public:
  Values() = default;
  Values(std::initializer_list<std::pair<std::string, at::Tensor>> items) : items_(items) {}
  bool has(std::string_view name) const;
  // Throws Error(kUsage) naming the value and those present.
  const at::Tensor& get(std::string_view name) const;
  const at::Tensor& operator[](std::string_view name) const { return get(name); }
  void set(const std::string& name, at::Tensor tensor);  // adds or replaces
  void erase(std::string_view name);
  std::size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<std::pair<std::string, at::Tensor>> items_;
};

}  // namespace sluice
