// Replays what the fuzz targets (tests/fuzz) have found interesting; a crash fails the test.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "support/reference_cases.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sluice {
namespace {

TEST(FuzzCorpusTest, ReplaysTheScheduleFilesFoundSoFar) {
  const std::filesystem::path folder =
      std::filesystem::path(SLUICE_TEST_DATA) / "fuzz" / "corpus" / "schedule_csv";
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    SCOPED_TRACE(name);
    const std::string text = testing::read_test_file("fuzz/corpus/schedule_csv/" + name);
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0);
    ++files;
  }
  EXPECT_GT(files, 10);
}

}  // namespace
}  // namespace sluice
