// The matrix products that fused operators take, and which of them this process takes.
//
// Owns: SLUICE_PRODUCTS and its words, the choice by processor.
// Does not own: the products (ops/products.h).
// Thread-safety: pure functions of the processor and the environment.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr const char* kProductsVariable = "SLUICE_PRODUCTS";

enum class ProductKind : std::uint8_t {
  kOwn,       // ops/kernels
  kLibtorch,  // of the BLAS that LibTorch carries, or LibTorch's own
};

// Throws Error(kUsage) at another word than own and libtorch, with the nearest.
ProductKind parse_product_kind(std::string_view word);

// The kind that SLUICE_PRODUCTS names; where it is not set, our own products where they are faster:
// on AMD's processors at the level AVX-512. Throws as parse_product_kind and cpu_level.
ProductKind product_kind();

}  // namespace sluice
