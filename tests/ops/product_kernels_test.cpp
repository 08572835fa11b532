// Compares matrix products with float64. The error of an element is at most depth * 2^-24 times the
// sum of the products' magnitudes. A quarter of that bound is enough in practice.
#include "ops/kernel_support.h"

namespace sluice::ops {
namespace {

using ProductKernelTest = KernelTest;
SLUICE_AT_EVERY_LEVEL(ProductKernelTest);

struct ProductCase {
  Index rows, columns, depth;
  bool a_transposed = false, b_transposed = false, add = false;
  float scale = 1;
};

// Returns C, which lies between other rows that must not change.
std::vector<float> run(const Kernels& kernels, const ProductCase& c, Place place = Place::kEnd,
                       Index first_row = 0) {
  const Index gap = 3, c_row = c.columns + gap;
  const auto a = random_floats(c.rows * c.depth, 1), b = random_floats(c.depth * c.columns, 2);
  Memory of_a(a, place), of_b(b, place),
      of_c(random_floats((c.rows - 1) * c_row + c.columns, 3), place),
      scratch(static_cast<std::size_t>(kernels.product_scratch()));
  const std::vector<float> before = of_c.values();
  const Index a_row = c.a_transposed ? 1 : c.depth, a_column = c.a_transposed ? c.rows : 1;
  kernels.product({.rows = c.rows - first_row,
                   .columns = c.columns,
                   .depth = c.depth,
                   .a = of_a.data() + first_row * a_row,
                   .a_row = a_row,
                   .a_column = a_column,
                   .b = of_b.data(),
                   .b_row = c.b_transposed ? c.depth : c.columns,
                   .b_transposed = c.b_transposed,
                   .c = of_c.data() + first_row * c_row,
                   .c_row = c_row,
                   .scale = c.scale,
                   .add = c.add,
                   .scratch = scratch.data()});
  const std::vector<float> after = of_c.values();
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (static_cast<Index>(i) % c_row >= c.columns) {
      EXPECT_EQ(after[i], before[i]) << i;
    }
  }
  return after;
}

void expect_near_exact(const Kernels& kernels, const ProductCase& c) {
  const Index c_row = c.columns + 3;
  const auto a = random_floats(c.rows * c.depth, 1), b = random_floats(c.depth * c.columns, 2),
             before = random_floats((c.rows - 1) * c_row + c.columns, 3);
  const std::vector<float> found = run(kernels, c);
  for (Index i = 0; i < c.rows; ++i) {
    for (Index j = 0; j < c.columns; ++j) {
      double exact = 0, size = 0;
      for (Index k = 0; k < c.depth; ++k) {
        const double product =
            static_cast<double>(a[c.a_transposed ? k * c.rows + i : i * c.depth + k]) *
            static_cast<double>(b[c.b_transposed ? j * c.depth + k : k * c.columns + j]);
        exact += product;
        size += std::abs(product);
      }
      const std::size_t at = static_cast<std::size_t>(i * c_row + j);
      exact *= c.scale;
      if (c.add) exact += static_cast<double>(before[at]);
      const double allowed =
          (0.25 * static_cast<double>(c.depth) + 4) * 6e-8 * (size + std::abs(exact));
      ASSERT_NEAR(found[at], exact, allowed)
          << c.rows << " " << c.columns << " " << c.depth << " at " << i << ", " << j;
    }
  }
}

TEST_P(ProductKernelTest, IsThatOfFloat64ForEverySizeAndLayout) {
  for (const Index rows : {1, 2, 5, 6, 25, 97}) {
    for (const Index columns : {1, 7, 16, 33, 48, 64, 70, 130}) {
      for (const Index depth : {1, 3, 50, 256, 300}) {
        for (int which = 0; which < 8; ++which) {
          expect_near_exact(kernels_, {.rows = rows,
                                       .columns = columns,
                                       .depth = depth,
                                       .a_transposed = (which & 1) != 0,
                                       .b_transposed = (which & 2) != 0,
                                       .add = (which & 4) != 0,
                                       .scale = which == 3 ? 0.5F : 1.0F});
        }
      }
    }
  }
}

TEST_P(ProductKernelTest, TakesDepthsOfSeveralParts) {
  for (const bool transposed : {false, true})
    expect_near_exact(kernels_, {13, 80, 4500, transposed, transposed, /*add=*/true});
}

TEST_P(ProductKernelTest, RowsHaveTheSameBitsWithoutThoseBeforeThem) {
  for (const bool transposed : {false, true}) {
    const ProductCase c{40, 70, 300, transposed, true, /*add=*/true};
    const std::vector<float> all = run(kernels_, c);
    for (const Index first : {1, 5, 24, 39}) {
      const std::vector<float> some = run(kernels_, c, Place::kEnd, first);
      for (Index i = first; i < c.rows; ++i) {
        for (Index j = 0; j < c.columns; ++j) {
          const std::size_t at = static_cast<std::size_t>(i * (c.columns + 3) + j);
          ASSERT_EQ(some[at], all[at]) << first;
        }
      }
    }
  }
}

TEST_P(ProductKernelTest, AddsAsIfTheProductWereAddedAsAWhole) {
  ProductCase c{20, 48, 200};
  const std::vector<float> alone = run(kernels_, c);
  c.add = true;
  const std::vector<float> added = run(kernels_, c),
                           before = random_floats((c.rows - 1) * 51 + c.columns, 3);
  for (std::size_t i = 0; i < added.size(); ++i) {
    if (i % 51 < 48) {
      ASSERT_EQ(added[i], before[i] + alone[i]);
    }
  }
}

TEST_P(ProductKernelTest, DoesNotDependOnWhereItsOperandsLie) {
  const ProductCase c{30, 100, 120, false, true, true};
  EXPECT_TRUE(same_bits(run(kernels_, c, Place::kOdd), run(kernels_, c, Place::kBegin)));
}

}  // namespace
}  // namespace sluice::ops
