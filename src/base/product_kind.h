#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kProductsVariable = "SLUICE_PRODUCTS";

enum class ProductKind : std::uint8_t {
  kOwn,
  kLibtorch,  // by LibTorch, or by its BLAS
};

ProductKind parse_product_kind(std::string_view word);

// The kind that $SLUICE_PRODUCTS names. The default is kOwn (sluice's kernels) where it is faster:
// on AMD processors with AVX-512. Throws Error(kUsage) for unknown words.
ProductKind product_kind();

}  // namespace sluice
