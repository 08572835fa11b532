// Guarantees of the matrix products in use, from any library, and further guarantees of our own
// kernels.
#include "ops/products.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/own_products.h"

namespace sluice::ops {
namespace {

constexpr std::int64_t kIn = 48, kOut = 70;

// Returns a copy that starts `floats` floats after a 64-byte boundary.
at::Tensor moved(const at::Tensor& values, std::int64_t floats) {
  const at::Tensor room = at::empty({values.numel() + floats});
  return room.narrow(0, floats, values.numel()).view(values.sizes()).copy_(values);
}

struct Products {
  at::Tensor y, dx, dweight;
};

// Computes the products of a layer with the rows x and dy. Every operand starts `floats` floats
// after a 64-byte boundary.
Products products_of(const at::Tensor& x, const at::Tensor& dy, bool is_transposed,
                     std::int64_t floats = 0) {
  at::manual_seed(5);
  const at::Tensor weight = at::randn({kOut, kIn});
  const LinearWeights weights{
      moved(is_transposed ? weight.t().contiguous() : weight, floats), {}, is_transposed};
  const at::Tensor from_x = moved(x, floats), from_dy = moved(dy, floats);
  const std::int64_t rows = x.size(0);
  const ConstRows rows_of_x(from_x.const_data_ptr<float>(), kIn),
      rows_of_dy(from_dy.const_data_ptr<float>(), kOut);
  Products made{moved(at::zeros({rows, kOut}), floats), moved(at::zeros({rows, kIn}), floats),
                moved(at::zeros_like(weights.weight), floats)};
  linear(rows, weights, rows_of_x, {made.y.mutable_data_ptr<float>(), kOut});
  linear_input_gradient(rows, weights, rows_of_dy, {made.dx.mutable_data_ptr<float>(), kIn});
  linear_weight_gradient(rows, weights, rows_of_dy, rows_of_x,
                         {made.dweight.mutable_data_ptr<float>(), weights.weight.size(1)}, 1,
                         /*adds=*/false);
  if (is_transposed) made.dweight = made.dweight.t();
  return made;
}

struct Operands {
  at::Tensor x, dy;
};

Operands operands(std::int64_t rows) {
  at::manual_seed(rows);
  return {at::randn({rows, kIn}), at::randn({rows, kOut})};
}

bool same(const Products& a, const Products& b) {
  return at::equal(a.y, b.y) && at::equal(a.dx, b.dx) && at::equal(a.dweight, b.dweight);
}

TEST(ProductsTest, AreThoseOfFloat64) {
  at::manual_seed(5);
  const at::Tensor weight = at::randn({kOut, kIn}).to(at::kDouble);
  for (const std::int64_t rows : {1, 2, 33, 200}) {
    const auto [x, dy] = operands(rows);
    const auto wide_x = x.to(at::kDouble), wide_dy = dy.to(at::kDouble);
    for (const bool is_transposed : {false, true}) {
      const Products found = products_of(x, dy, is_transposed);
      const auto expect_near = [&](const at::Tensor& of, const at::Tensor& exact) {
        EXPECT_LE((of.to(at::kDouble) - exact).norm().item<double>(),
                  6e-7 * exact.norm().item<double>())
            << rows << is_transposed;
      };
      expect_near(found.y, wide_x.mm(weight.t()));
      expect_near(found.dx, wide_dy.mm(weight));
      expect_near(found.dweight, wide_dy.t().mm(wide_x));
    }
  }
}

TEST(ProductsTest, HaveTheSameBitsAgainAndAtPlacesAlikeModulo64Bytes) {
  for (const std::int64_t rows : {1, 3, 70, 200}) {
    const auto [x, dy] = operands(rows);
    for (const bool is_transposed : {false, true}) {
      for (const std::int64_t floats : {0, 2, 5}) {
        const Products first = products_of(x, dy, is_transposed, floats);
        EXPECT_TRUE(same(products_of(x, dy, is_transposed, floats), first)) << rows << floats;
        EXPECT_TRUE(same(products_of(x, dy, is_transposed, floats + 16), first)) << rows << floats;
      }
    }
  }
}

TEST(ProductsTest, RowsAreAlikeUpToRoundingWhateverIsBesideThem) {
  const auto [x, dy] = operands(70);
  const Products all = products_of(x, dy, false);
  for (const std::int64_t row : {0, 34, 69}) {
    const Products one = products_of(x.narrow(0, row, 1), dy.narrow(0, row, 1), false);
    EXPECT_TRUE(at::allclose(one.y[0], all.y[row], 1e-5, 1e-5)) << row;
    EXPECT_TRUE(at::allclose(one.dx[0], all.dx[row], 1e-5, 1e-5)) << row;
  }
}

TEST(ProductsTest, OwnOnesHaveTheSameBitsForARowWhateverIsBesideIt) {
  SLUICE_NEEDS_OWN_PRODUCTS();
  const auto [x, dy] = operands(70);
  for (const bool is_transposed : {false, true}) {
    const Products all = products_of(x, dy, is_transposed);
    for (const std::int64_t row : {0, 34, 69}) {
      const Products one = products_of(x.narrow(0, row, 1), dy.narrow(0, row, 1), is_transposed);
      EXPECT_TRUE(at::equal(one.y[0], all.y[row])) << row;
      EXPECT_TRUE(at::equal(one.dx[0], all.dx[row])) << row;
    }
  }
}

TEST(ProductsTest, OwnOnesHaveTheSameBitsAtAnyPlaceAndOnAnyNumberOfThreads) {
  SLUICE_NEEDS_OWN_PRODUCTS();
  for (const bool is_transposed : {false, true}) {
    const auto [x, dy] = operands(200);
    const Products first = products_of(x, dy, is_transposed);
    for (const std::int64_t floats : {1, 3, 8})
      EXPECT_TRUE(same(products_of(x, dy, is_transposed, floats), first)) << floats;
    at::set_num_threads(3);
    EXPECT_TRUE(same(products_of(x, dy, is_transposed), first));
    at::set_num_threads(1);
  }
}

TEST(ProductsTest, TheirNameIsThatOfTheirKind) {
  if (product_kind() == ProductKind::kOwn) {
    EXPECT_STREQ(products_name(), "own products");
  } else {
    EXPECT_EQ(std::string(products_name()).rfind("products of LibTorch", 0), 0u) << products_name();
  }
}

// A pipeline adds a microbatch's gradient to the sum inside the product, and a plain loop adds it
// afterwards. Libraries may round a deeper product differently when they add it.
TEST(ProductsTest, AddingTheGradientOfOneRowHasTheBitsOfASeparateProduct) {
  for (const bool is_transposed : {false, true}) {
    const auto [x, dy] = operands(1);
    const at::Tensor gradient = products_of(x, dy, is_transposed).dweight.contiguous();
    const at::Tensor before = at::randn({kOut, kIn});
    const LinearWeights weights{
        is_transposed ? at::zeros({kIn, kOut}) : at::zeros({kOut, kIn}), {}, is_transposed};
    const at::Tensor sum = is_transposed ? before.t().contiguous() : before.clone();
    linear_weight_gradient(1, weights, {dy.const_data_ptr<float>(), kOut},
                           {x.const_data_ptr<float>(), kIn},
                           {sum.mutable_data_ptr<float>(), sum.size(1)}, 1, /*adds=*/true);
    EXPECT_TRUE(at::equal(is_transposed ? sum.t() : sum, before + gradient)) << is_transposed;
  }
}

}  // namespace
}  // namespace sluice::ops
