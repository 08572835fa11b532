// What a forward of one's own returns, as tensors: the adapter from any type that holds them.
//
// Owns: Outputs. Does not own: what the tensors are called (layer.h).
// Thread-safety: values.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/parts/values.h"

namespace sluice {

// Made of, at compile time and to any depth:
//   a tensor; an std::optional of one (without: an undefined tensor, a value that is not there)
//   std::tuple, std::pair, std::array, a vector or any other range: their elements in order
//   Values, pairs of a string and a tensor, a map of them: tensors with names
//   a type of one's own: what a function beside it makes of it,
//     auto tensors_of(const Reply& reply) { return std::tie(reply.logits, reply.hidden); }
class Outputs {
 public:
  template <typename T>
  requires(!std::same_as<std::remove_cvref_t<T>, Outputs>)
      Outputs(const T& value) {  // NOLINT: meant to convert
    add(value);
  }

  // In the order in which they were found; without their names.
  std::vector<at::Tensor> tensors() const;
  // Those of these names, in this order: by name where they have names (others are left out), by
  // position else. Throws Error(kUsage), saying `who` returned them, for a name that is missing and
  // for another number of tensors.
  std::vector<at::Tensor> named(const std::vector<std::string>& names,
                                const std::string& who) const;

 private:
  template <typename T>
  static constexpr bool is_name = std::convertible_to<const T&, std::string_view>;

  void add_tensor(std::string name, at::Tensor tensor) {
    items_.emplace_back(std::move(name), std::move(tensor));
  }

  template <typename T>
  void add(const T& value) {
    if constexpr (std::convertible_to<const T&, at::Tensor>) {
      add_tensor("", value);
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
      std::apply([this](const auto&... parts) { add_all(parts...); }, value);
    } else if constexpr (std::ranges::input_range<const T>) {
      for (const auto& part : value) add(part);
    } else if constexpr (requires {
                           value.has_value();
                           *value;
                         }) {
      if (value.has_value()) {
        add(*value);
      } else {
        add_tensor("", at::Tensor());
      }
    } else {
      static_assert(
          requires { tensors_of(value); },
          "say which tensors this type holds: a function beside it, auto tensors_of(const "
          "T& value) { return std::tie(value.a, value.b); }");
      add(tensors_of(value));
    }
  }

  template <typename... Parts>
  void add_all(const Parts&... parts) {
    if constexpr (sizeof...(Parts) == 2) {
      add_two(parts...);
    } else {
      (add(parts), ...);
    }
  }

  template <typename First, typename Second>
  void add_two(const First& first, const Second& second) {
    if constexpr (is_name<First>) {
      add_tensor(std::string(std::string_view(first)), second);
    } else {
      add(first);
      add(second);
    }
  }

  std::vector<std::pair<std::string, at::Tensor>> items_;  // "": without a name
};

}  // namespace sluice
