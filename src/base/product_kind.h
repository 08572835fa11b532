#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kProductsVariable = "SLUICE_PRODUCTS";

enum class ProductKind : std::uint8_t {
  kOwn,
  kLibtorch,  // from LibTorch's BLAS, or by LibTorch itself
};

// Throws Error(kUsage) unless the word is own or libtorch.
ProductKind parse_product_kind(std::string_view word);

// Returns the implementation of matrix products that the environment variable SLUICE_PRODUCTS
// names. The default is kOwn (sluice's kernels) where it is faster: on AMD processors with AVX-512.
// Throws Error(kUsage) for an unknown word in SLUICE_PRODUCTS or SLUICE_CPU.
ProductKind product_kind();

}  // namespace sluice
