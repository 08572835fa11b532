// Products C = A B of large matrices, for processors on which they are faster than LibTorch's.
//
// A panel of B stays in the L2 cache while all tiles of A are multiplied with it. A tile's sums
// stay in registers (Goto and van de Geijn, TOMS 2008). A transposed B is transposed panel by
// panel. That costs a few percent for a few hundred rows, so nothing is packed in advance.
//
// The bits of an element of C depend only on the depth, its row of A and its column of B. Each part
// of the depth is a chain of multiply-adds from zero, then added to C.
#pragma once

#include "ops/kernels/kernels.h"
#include "ops/kernels/tiles.h"

namespace sluice::ops {
namespace {

// Products are computed in parts of this depth. kLongDepth is used unless a_column is 1.
constexpr Index kShortDepth = 256;
constexpr Index kLongDepth = 2048;
constexpr Index kBlockOfA = 131072;  // floats of A per block, half of an L2 cache

template <int Rows, int Vectors>
inline void product_tile(Index depth, const float* a, Index a_row, Index a_column, const float* b,
                         Index b_row, float* c, Index c_row, bool add) {
  Floats sums[Rows][Vectors] = {};
#pragma GCC unroll 32
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) __builtin_prefetch(c + i * c_row + kFloats * j, /*write*/ 1);
  }
  for (Index k = 0; k < depth; ++k) {
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
    for (int j = 0; j < Vectors; ++j) {
      float* const at = c + i * c_row + kFloats * j;
      store(at, add ? load(at) + sums[i][j] : sums[i][j]);
    }
  }
}

// Prefetches the next panel of B while the current one is in use, because weights come from memory.
class NextPanel {
 public:
  NextPanel() = default;
  NextPanel(const float* at, Index rows, Index width, Index stride)
      : at_(at), rows_(rows), width_(width), stride_(stride) {}

  Index num_lines() const { return rows_ * ((width_ + kLine - 1) / kLine); }
  void ask_for(Index lines) {
    for (; lines > 0 && row_ < rows_; --lines) {
      __builtin_prefetch(at_ + row_ * stride_ + column_, /*write*/ 0, /*second cache*/ 2);
      column_ += kLine;
      if (column_ < width_) continue;
      column_ = 0;
      ++row_;
    }
  }

 private:
  const float* at_ = nullptr;
  Index rows_ = 0, width_ = 0, stride_ = 0;
  Index row_ = 0, column_ = 0;
};

template <int Vectors>
inline void product_panel(Index rows, Index depth, const float* a, Index a_row, Index a_column,
                          const float* b, Index b_row, float* c, Index c_row, bool add,
                          NextPanel next) {
  constexpr int kRows = kTileSums / Vectors;
  const Index tiles = most(1, rows / kRows), lines = (next.num_lines() + tiles - 1) / tiles;
  Index row = 0;
  for (; row + kRows <= rows; row += kRows, next.ask_for(lines))
    product_tile<kRows, Vectors>(depth, a + row * a_row, a_row, a_column, b, b_row, c + row * c_row,
                                 c_row, add);
  for (; row + 2 <= rows; row += 2)
    product_tile<2, Vectors>(depth, a + row * a_row, a_row, a_column, b, b_row, c + row * c_row,
                             c_row, add);
  if (row < rows)
    product_tile<1, Vectors>(depth, a + row * a_row, a_row, a_column, b, b_row, c + row * c_row,
                             c_row, add);
}

inline void copy_panel(Index depth, Index columns, const float* x, Index x_row, float factor,
                       float* y) {
  for (Index k = 0; k < depth; ++k, x += x_row, y += kPanel) {
    each_vector(columns, [&](Index i, auto part) { part.write(y + i, part.read(x + i) * factor); });
    for (Index i = columns; i < kPanel; ++i) y[i] = 0;
  }
}

#if SLUICE_KERNEL_FLOATS == 16
constexpr Index kTurn = 16;
inline void turn_block(const float* x, Index x_row, float factor, float* y) {
  Floats r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = load(x + i * x_row) * factor;
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28,
                                   13, 29);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27,
                                       14, 30, 15, 31);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      r[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8,
                                             9, 24, 25, 12, 13, 28, 29);
      r[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 18, 19, 6, 7, 22, 23,
                                                 10, 11, 26, 27, 14, 15, 30, 31);
    }
  }
  // r[4 g + c] has rows 4 g to 4 g + 3. Its quarter q has their values in column 4 q + c.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    t[c] = __builtin_shufflevector(r[c], r[4 + c], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25,
                                   26, 27);
    t[4 + c] = __builtin_shufflevector(r[c], r[4 + c], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15,
                                       28, 29, 30, 31);
    t[8 + c] = __builtin_shufflevector(r[8 + c], r[12 + c], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10,
                                       11, 24, 25, 26, 27);
    t[12 + c] = __builtin_shufflevector(r[8 + c], r[12 + c], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14,
                                        15, 28, 29, 30, 31);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    r[c] = __builtin_shufflevector(t[c], t[8 + c], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21,
                                   22, 23);
    r[8 + c] = __builtin_shufflevector(t[c], t[8 + c], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27,
                                       28, 29, 30, 31);
    r[4 + c] = __builtin_shufflevector(t[4 + c], t[12 + c], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19,
                                       20, 21, 22, 23);
    r[12 + c] = __builtin_shufflevector(t[4 + c], t[12 + c], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25,
                                        26, 27, 28, 29, 30, 31);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) store(y + i * kPanel, r[i]);
}
#else
constexpr Index kTurn = 4;
inline void turn_block(const float* x, Index x_row, float factor, float* y) {
  Four r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) r[i] = load_four(x + i * x_row) * factor;
  const Four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
             b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
             c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
             d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  store_four(y, __builtin_shufflevector(a, b, 0, 1, 4, 5));
  store_four(y + kPanel, __builtin_shufflevector(a, b, 2, 3, 6, 7));
  store_four(y + 2 * kPanel, __builtin_shufflevector(c, d, 0, 1, 4, 5));
  store_four(y + 3 * kPanel, __builtin_shufflevector(c, d, 2, 3, 6, 7));
}
#endif

// Writes the zero-padded transpose of factor * x to y [depth, kPanel].
inline void turn_panel(Index depth, Index columns, const float* x, Index x_row, float factor,
                       float* y) {
  const Index whole_columns = columns / kTurn * kTurn, whole_depth = depth / kTurn * kTurn;
  for (Index column = 0; column < whole_columns; column += kTurn) {
    for (Index k = 0; k < whole_depth; k += kTurn)
      turn_block(x + column * x_row + k, x_row, factor, y + k * kPanel + column);
    for (Index k = whole_depth; k < depth; ++k)
      for (Index i = column; i < column + kTurn; ++i) y[k * kPanel + i] = x[i * x_row + k] * factor;
  }
  for (Index k = 0; k < depth; ++k) {
    for (Index i = whole_columns; i < columns; ++i) y[k * kPanel + i] = x[i * x_row + k] * factor;
    for (Index i = columns; i < kPanel; ++i) y[k * kPanel + i] = 0;
  }
}

inline Index rows_of_block(Index depth) {
  return most(kBlockOfA / most(depth, 1) / kTileSums * kTileSums, 4 * kTileSums);
}

// Rows that scratch memory has for columns at the right edge that do not fill a vector.
constexpr Index kNarrowRows = 4 * kTileSums;

std::int64_t product_scratch() { return kPanel * (kLongDepth + kNarrowRows) + kLine; }

struct PanelProduct {
  Index rows, columns, depth;
  const float* a;
  Index a_row, a_column;
  const float* b;
  Index b_row;
  float* c;
  Index c_row;
  bool add;
  NextPanel next;

  void run() const {
    const Index vectors = (columns + kFloats - 1) / kFloats;
    if constexpr (kTileVectors == 4) {
      if (vectors == 4) return run_wide<4>();
      if (vectors == 3) return run_wide<3>();
    }
    if (vectors == 2) return run_wide<2>();
    run_wide<1>();
  }

  // Computes columns that do not fill a vector, in scratch memory [kNarrowRows, kPanel].
  void run_narrow(float* beside) const {
    for (Index row = 0; row < rows; row += kNarrowRows) {
      PanelProduct part = *this;
      part.rows = least(kNarrowRows, rows - row);
      part.a += row * a_row;
      part.c = beside;
      part.c_row = kPanel;
      part.add = false;
      part.run();
      for (Index i = 0; i < part.rows; ++i) {
        for (Index j = 0; j < columns; ++j) {
          float& element = c[(row + i) * c_row + j];
          element = add ? element + beside[i * kPanel + j] : beside[i * kPanel + j];
        }
      }
    }
  }

 private:
  template <int Vectors>
  void run_wide() const {
    product_panel<Vectors>(rows, depth, a, a_row, a_column, b, b_row, c, c_row, add, next);
  }
};

inline NextPanel next_panel(const ProductCall& p, Index k, Index depth, Index column) {
  if (column >= p.columns) return {};
  const Index columns = least(kPanel, p.columns - column);
  if (p.b_transposed) return {p.b + column * p.b_row + k, columns, depth, p.b_row};
  return {p.b + k * p.b_row + column, depth, columns, p.b_row};
}

void product(const ProductCall& p) {
  const Index part = p.a_column == 1 ? kShortDepth : kLongDepth;
  float *const panel = cache_line(p.scratch), *const beside = panel + kPanel * kLongDepth;
  for (Index k = 0; k == 0 || k < p.depth; k += part) {
    const Index depth = least(part, p.depth - k), block = rows_of_block(depth);
    for (Index row = 0; row < p.rows; row += block) {
      for (Index column = 0; column < p.columns; column += kPanel) {
        PanelProduct of{.rows = least(block, p.rows - row),
                        .columns = least(kPanel, p.columns - column),
                        .depth = depth,
                        .a = p.a + row * p.a_row + k * p.a_column,
                        .a_row = p.a_row,
                        .a_column = p.a_column,
                        .b = p.b + (p.b_transposed ? column * p.b_row + k : k * p.b_row + column),
                        .b_row = p.b_row,
                        .c = p.c + row * p.c_row + column,
                        .c_row = p.c_row,
                        .add = p.add || k > 0,
                        .next = next_panel(p, k, depth, column + kPanel)};
        const bool is_narrow = of.columns % kFloats != 0;
        if (p.b_transposed || is_narrow || p.scale != 1) {
          if (p.b_transposed) {
            turn_panel(depth, of.columns, of.b, p.b_row, p.scale, panel);
          } else {
            copy_panel(depth, of.columns, of.b, p.b_row, p.scale, panel);
          }
          of.b = panel;
          of.b_row = kPanel;
        }
        if (is_narrow) {
          of.run_narrow(beside);
        } else {
          of.run();
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::ops
