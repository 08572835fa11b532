// Products of matrices as large as a layer's, for processors on which they are faster than those of
// LibTorch. See vectors.h for how these headers are used.
//
// A panel of B, kPanel columns wide and at most kDepth deep, stays in the second cache while tiles
// of A pass by it, whose sums never leave the registers (Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", TOMS 2008). A transposed B is turned panel by panel on
// the way: that is a few percent of a product of a few hundred rows, so nothing has to be packed
// ahead and kept.
//
// Invariant: an element of C is chains of multiply-adds over parts of the depth that the depth
// alone decides, each from zero, added to what is there: bits do not depend on tiles, rows or
// columns beside it.
#pragma once

#include "ops/kernels/kernels.h"
#include "ops/kernels/tiles.h"

namespace sluice::ops {
namespace {

constexpr Index kShortDepth = 256;   // of a part, where A is read along its rows
constexpr Index kLongDepth = 2048;   // where it is read across them: a part as deep as most
constexpr Index kBlockOfA = 131072;  // floats of A that pass by a panel: half of a second cache

// The elements of C are at c, in tiles of Rows x Vectors vectors.
template <int Rows, int Vectors>
inline void product_tile(Index depth, const float* a, Index a_row, Index a_column, const float* b,
                         Index b_row, float* c, Index c_row, bool add) {
  Floats sums[Rows][Vectors] = {};
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

template <int Vectors>
inline void product_panel(Index rows, Index depth, const float* a, Index a_row, Index a_column,
                          const float* b, Index b_row, float* c, Index c_row, bool add) {
  constexpr int kRows = kTileSums / Vectors;
  Index row = 0;
  for (; row + kRows <= rows; row += kRows)
    product_tile<kRows, Vectors>(depth, a + row * a_row, a_row, a_column, b, b_row, c + row * c_row,
                                 c_row, add);
  for (; row + 2 <= rows; row += 2)
    product_tile<2, Vectors>(depth, a + row * a_row, a_row, a_column, b, b_row, c + row * c_row,
                             c_row, add);
  if (row < rows)
    product_tile<1, Vectors>(depth, a + row * a_row, a_row, a_column, b, b_row, c + row * c_row,
                             c_row, add);
}

// y [depth, kPanel] = factor * x [depth, columns]; what is behind the columns is 0.
inline void copy_panel(Index depth, Index columns, const float* x, Index x_row, float factor,
                       float* y) {
  for (Index k = 0; k < depth; ++k, x += x_row, y += kPanel) {
    each_vector(columns, [&](Index i, auto part) { part.write(y + i, part.read(x + i) * factor); });
    for (Index i = columns; i < kPanel; ++i) y[i] = 0;
  }
}

// y [depth, kPanel] = factor * the transpose of x [columns, depth].
inline void turn_panel(Index depth, Index columns, const float* x, Index x_row, float factor,
                       float* y) {
  const Index whole_columns = columns / 4 * 4, whole_depth = depth / 4 * 4;
  for (Index column = 0; column < whole_columns; column += 4) {
    for (Index k = 0; k < whole_depth; k += 4) {
      Four r[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) r[i] = load_four(x + (column + i) * x_row + k) * factor;
      const Four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
                 b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
                 c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
                 d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
      float* const to = y + k * kPanel + column;
      store_four(to, __builtin_shufflevector(a, b, 0, 1, 4, 5));
      store_four(to + kPanel, __builtin_shufflevector(a, b, 2, 3, 6, 7));
      store_four(to + 2 * kPanel, __builtin_shufflevector(c, d, 0, 1, 4, 5));
      store_four(to + 3 * kPanel, __builtin_shufflevector(c, d, 2, 3, 6, 7));
    }
    for (Index k = whole_depth; k < depth; ++k)
      for (Index i = column; i < column + 4; ++i) y[k * kPanel + i] = x[i * x_row + k] * factor;
  }
  for (Index k = 0; k < depth; ++k) {
    for (Index i = whole_columns; i < columns; ++i) y[k * kPanel + i] = x[i * x_row + k] * factor;
    for (Index i = columns; i < kPanel; ++i) y[k * kPanel + i] = 0;
  }
}

inline Index rows_of_block(Index depth) {
  return most(kBlockOfA / most(depth, 1) / kTileSums * kTileSums, 4 * kTileSums);
}

// Of columns that are no whole vectors, this many rows come about beside C.
constexpr Index kNarrowRows = 4 * kTileSums;

std::int64_t product_scratch() { return kPanel * (kLongDepth + kNarrowRows); }

// One part of the depth, one block of rows, one panel of columns.
struct PanelProduct {
  Index rows, columns, depth;
  const float* a;
  Index a_row, a_column;
  const float* b;
  Index b_row;
  float* c;
  Index c_row;
  bool add;

  void run() const {
    const Index vectors = (columns + kFloats - 1) / kFloats;
    if constexpr (kTileVectors == 4) {
      if (vectors == 4) return run_wide<4>();
      if (vectors == 3) return run_wide<3>();
    }
    if (vectors == 2) return run_wide<2>();
    run_wide<1>();
  }

  // columns: no whole vectors, of a B that is 0 behind them. beside: kNarrowRows rows of kPanel.
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
    product_panel<Vectors>(rows, depth, a, a_row, a_column, b, b_row, c, c_row, add);
  }
};

void product(const ProductCall& p) {
  const Index part = p.a_column == 1 ? kShortDepth : kLongDepth;
  float *const panel = p.scratch, *const beside = panel + kPanel * kLongDepth;
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
                        .add = p.add || k > 0};
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
