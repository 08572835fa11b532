// Replays what the fuzz targets of tokenizers (tests/fuzz) have found interesting; a crash fails
// the test.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "support/reference_cases.h"

extern "C" int fuzz_tokenizer_json(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_tokenizer_encode(const std::uint8_t* data, std::size_t size);

namespace sluice {
namespace {

void replay(const std::string& corpus, int (*target)(const std::uint8_t*, std::size_t)) {
  const std::filesystem::path folder =
      std::filesystem::path(SLUICE_TEST_DATA) / "fuzz" / "corpus" / corpus;
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    SCOPED_TRACE(name);
    const std::string text = testing::read_test_file("fuzz/corpus/" + corpus + "/" + name);
    EXPECT_EQ(target(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0);
    ++files;
  }
  EXPECT_GT(files, 10);
}

TEST(TokenizerFuzzCorpusTest, ReplaysTheFilesFoundSoFar) {
  replay("tokenizer_json", fuzz_tokenizer_json);
}

TEST(TokenizerFuzzCorpusTest, ReplaysTheTextsFoundSoFar) {
  replay("tokenizer_encode", fuzz_tokenizer_encode);
}

}  // namespace
}  // namespace sluice
