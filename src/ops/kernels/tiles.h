// Small matrix products C = A B for attention, with sums in registers. Every element of C is one
// chain of multiply-adds over the depth, in order and in any tile. A triangular A skips only
// products with zeros.
#pragma once

#include "ops/kernels/vectors.h"

namespace sluice::ops {
namespace {

// AVX-512 has 32 registers: 24 hold sums, 4 a row of B, 1 an element of A. Other instruction sets
// have 16: 12, 2 and 1.
constexpr int kTileSums = kFloats == 16 ? 24 : 12;
constexpr int kTileVectors = kFloats == 16 ? 4 : 2;
constexpr Index kPanel = kTileVectors * kFloats;

inline Four load_four(const float* p) { return *reinterpret_cast<const FourInMemory*>(p); }
inline void store_four(float* p, Four v) { *reinterpret_cast<FourInMemory*>(p) = v; }

constexpr Index kLine = 64 / sizeof(float);
inline float* cache_line(float* p) {
  return p + (64 - reinterpret_cast<std::uintptr_t>(p) % 64) % 64 / sizeof(float);
}

// Where A(i, k) may be nonzero. kLower: k <= i + diagonal. kUpper: i <= k + diagonal.
enum class Shape : std::uint8_t { kWhole, kLower, kUpper };

// C = A B, where A(i, k) is a[i * a_row + k * a_column].
struct Product {
  Shape shape;
  Index diagonal;
  Index rows, depth;
  const float* a;
  Index a_row, a_column;
  const float* b;
  Index b_row;
  float* c;
  Index c_row;
  bool add;
};

template <int Rows, int Vectors>
inline void tile(const Product& p, Index row, Index column) {
  const float *a = p.a + row * p.a_row, *b = p.b + column;
  float* c = p.c + row * p.c_row + column;
  const Index a_row = p.a_row, a_column = p.a_column, b_row = p.b_row;
  const Index begin = p.shape == Shape::kUpper ? most(0, row - p.diagonal) : 0;
  const Index end = p.shape == Shape::kLower ? least(p.depth, row + Rows + p.diagonal) : p.depth;
  Floats sums[Rows][Vectors];
#pragma GCC unroll 32
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j)
      sums[i][j] = p.add ? load(c + i * p.c_row + kFloats * j) : Floats{};
  }
  for (Index k = begin; k < end; ++k) {
    Floats of_b[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) of_b[j] = load(b + k * b_row + kFloats * j);
#pragma GCC unroll 32
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) sums[i][j] += a[i * a_row + k * a_column] * of_b[j];
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) store(c + i * p.c_row + kFloats * j, sums[i][j]);
  }
}

// Computes rows from `first` on, a multiple of every tile's number of rows.
template <int Vectors>
inline void column_panel(const Product& p, Index column, Index first = 0) {
  constexpr int kRows = kTileSums / Vectors;
  Index row = first;
  for (; row + kRows <= p.rows; row += kRows) tile<kRows, Vectors>(p, row, column);
  for (; row + 4 <= p.rows; row += 4) tile<4, Vectors>(p, row, column);
  for (; row < p.rows; ++row) tile<1, Vectors>(p, row, column);
}

inline void panel_of(const Product& p, Index column, Index vectors, Index first = 0) {
  if constexpr (kTileVectors == 4) {
    if (vectors == 4) return column_panel<4>(p, column, first);
    if (vectors == 3) return column_panel<3>(p, column, first);
  }
  if (vectors == 2) return column_panel<2>(p, column, first);
  column_panel<1>(p, column, first);
}

inline void multiply(const Product& p, Index columns) {
  Index vectors = columns / kFloats;
  for (Index column = 0; vectors > 0;) {
    // Make panels about equally wide: 5 vectors become 3 and 2.
    const Index panels = (vectors + kTileVectors - 1) / kTileVectors;
    const Index width = (vectors + panels - 1) / panels;
    panel_of(p, column, width);
    column += width * kFloats;
    vectors -= width;
  }
}

}  // namespace
}  // namespace sluice::ops
