// For guarantees of our own matrix products that LibTorch's BLAS does not give.
#pragma once

#include <gtest/gtest.h>

#include "base/product_kind.h"

#define SLUICE_NEEDS_OWN_PRODUCTS()                                               \
  if (product_kind() != ProductKind::kOwn)                                        \
  GTEST_SKIP() << "a promise of our own products, and these are LibTorch's; set " \
               << kProductsVariable << "=own to test it"
