// Runs earlier findings of the fuzz targets (tests/fuzz). A crash fails the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "support/reference_cases.h"

namespace sluice::testing {

inline void replay(const std::string& corpus, int (*target)(const std::uint8_t*, std::size_t)) {
  const std::filesystem::path folder =
      std::filesystem::path(SLUICE_TEST_DATA) / "fuzz" / "corpus" / corpus;
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    SCOPED_TRACE(name);
    const std::string text = read_test_file("fuzz/corpus/" + corpus + "/" + name);
    EXPECT_EQ(target(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0);
    ++files;
  }
  EXPECT_GT(files, 10);
}

}  // namespace sluice::testing
