// The matrix products of fused operators. SLUICE_PRODUCTS chooses between them.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kProductsVariable = "SLUICE_PRODUCTS";

enum class ProductKind : std::uint8_t {
  kOwn,       // ops/kernels
  kLibtorch,  // from LibTorch's BLAS, or LibTorch itself
};

// Accepts own and libtorch. Throws Error(kUsage) for other words and suggests the nearest.
ProductKind parse_product_kind(std::string_view word);

// The kind that SLUICE_PRODUCTS names. By default kOwn where it is faster: on AMD processors with
// AVX-512. Throws as parse_product_kind() and cpu_level().
ProductKind product_kind();

}  // namespace sluice
