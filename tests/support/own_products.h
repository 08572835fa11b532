// For tests of guarantees that our own matrix products give and LibTorch's BLAS does not.
#pragma once

#include <gtest/gtest.h>

#include "base/product_kind.h"

#define SLUICE_NEEDS_OWN_PRODUCTS()                                               \
  if (product_kind() != ProductKind::kOwn)                                        \
  GTEST_SKIP() << "a promise of our own products, and these are LibTorch's; set " \
               << kProductsVariable << "=own to test it"
