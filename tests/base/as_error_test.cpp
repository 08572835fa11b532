#include "base/as_error.h"

#include <gtest/gtest.h>

#include <new>

namespace sluice {
namespace {

template <typename Thrown>
Error caught(const Thrown& thrown) {
  return as_error(std::make_exception_ptr(thrown), "rank 1");
}

TEST(AsErrorTest, KeepsAnErrorAndGivesAllElseAKindAndThePlace) {
  const Error error(ErrorKind::kPeer, {.what = "lost", .where = "rank 0", .remedy = "look there"});
  EXPECT_STREQ(caught(error).what(), error.what());
  EXPECT_EQ(caught(error).kind(), ErrorKind::kPeer);
  EXPECT_STREQ(caught(std::bad_alloc()).what(), "out of memory; rank 1");
  EXPECT_EQ(caught(std::bad_alloc()).kind(), ErrorKind::kMemory);
  EXPECT_STREQ(caught(std::runtime_error("first\nsecond")).what(), "first; rank 1");
  EXPECT_EQ(caught(std::runtime_error("first")).kind(), ErrorKind::kInternal);
  EXPECT_STREQ(caught(1).what(), "an exception of unknown type; rank 1");
}

}  // namespace
}  // namespace sluice
