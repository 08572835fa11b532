#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kProductsVariable = "SLUICE_PRODUCTS";

enum class ProductKind : std::uint8_t {
  kOwn,
  kLibtorch,  // from LibTorch's BLAS, or LibTorch itself
};

// Throws Error(kUsage) unless the word is own or libtorch.
ProductKind parse_product_kind(std::string_view word);

// The kind that SLUICE_PRODUCTS names. The default is kOwn where it is faster: on AMD processors
// with AVX-512. Throws as parse_product_kind() and cpu_level().
ProductKind product_kind();

}  // namespace sluice
