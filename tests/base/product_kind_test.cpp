#include "base/product_kind.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/cpu_level.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

// Removes variables that the test's environment may set.
class ProductKindTest : public testing::Test {
 protected:
  ProductKindTest() {
    unsetenv(kProductsVariable);
    unsetenv(kCpuVariable);
  }
  ~ProductKindTest() override {
    unsetenv(kProductsVariable);
    unsetenv(kCpuVariable);
  }
};

TEST_F(ProductKindTest, IsWhatTheVariableSaysAtEveryLevel) {
  for (const char* level : {"base", "avx2", "avx512"}) {
    setenv(kCpuVariable, level, 1);
    setenv(kProductsVariable, "own", 1);
    EXPECT_EQ(product_kind(), ProductKind::kOwn) << level;
    setenv(kProductsVariable, "libtorch", 1);
    EXPECT_EQ(product_kind(), ProductKind::kLibtorch) << level;
  }
}

TEST_F(ProductKindTest, DefaultsToLibtorchProductsBelowAvx512) {
  for (const char* level : {"base", "avx2"}) {
    setenv(kCpuVariable, level, 1);
    EXPECT_EQ(product_kind(), ProductKind::kLibtorch) << level;
    setenv(kProductsVariable, "", 1);
    EXPECT_EQ(product_kind(), ProductKind::kLibtorch) << level;
  }
}

TEST_F(ProductKindTest, RefusesAnotherWordWithTheNearest) {
  setenv(kProductsVariable, "libtorsh", 1);
  const Error error = test::error_of([] { product_kind(); });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_STREQ(error.what(),
               "unknown kind of matrix products 'libtorsh'; SLUICE_PRODUCTS; did you mean "
               "'libtorch'?");
}

}  // namespace
}  // namespace sluice
