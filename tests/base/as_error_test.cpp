#include "base/as_error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <system_error>

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

TEST(AsErrorTest, NamesTheLimitThatASystemCallReached) {
  const auto of = [](int number) {
    return caught(std::system_error(number, std::generic_category()));
  };
  EXPECT_EQ(of(EMFILE).kind(), ErrorKind::kUsage);
  EXPECT_NE(of(EMFILE).remedy().find("ulimit -n"), std::string::npos);
  EXPECT_EQ(of(EAGAIN).kind(), ErrorKind::kMemory);  // thread creation failed
  EXPECT_NE(of(EAGAIN).remedy().find("ulimit -u"), std::string::npos);
  EXPECT_EQ(of(EINVAL).kind(), ErrorKind::kInternal);
}

}  // namespace
}  // namespace sluice
