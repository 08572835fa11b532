#include "base/cpu_level.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "sluice/error.h"

namespace sluice {
namespace {

TEST(CpuLevelTest, KnowsItsWords) {
  EXPECT_EQ(parse_cpu_level("base"), CpuLevel::kBase);
  EXPECT_EQ(parse_cpu_level("avx2"), CpuLevel::kAvx2);
  EXPECT_EQ(parse_cpu_level("avx512"), CpuLevel::kAvx512);
}

TEST(CpuLevelTest, RefusesAnotherWordWithTheNearest) {
  try {
    parse_cpu_level("avx");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_STREQ(error.what(), "unknown instruction set 'avx'; SLUICE_CPU; did you mean 'avx2'?");
  }
}

TEST(CpuLevelTest, IsTheProcessorsUnlessItIsCapped) {
  unsetenv(kCpuVariable);
  EXPECT_EQ(cpu_level(), processor_level());
  setenv(kCpuVariable, "", 1);
  EXPECT_EQ(cpu_level(), processor_level());
  setenv(kCpuVariable, "base", 1);
  EXPECT_EQ(cpu_level(), CpuLevel::kBase);
  setenv(kCpuVariable, "avx512", 1);
  EXPECT_EQ(cpu_level(), processor_level());  // a limit, not a requirement
  setenv(kCpuVariable, "sse", 1);
  EXPECT_THROW(cpu_level(), Error);
  unsetenv(kCpuVariable);
}

}  // namespace
}  // namespace sluice
