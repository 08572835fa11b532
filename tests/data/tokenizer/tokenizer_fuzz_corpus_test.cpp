#include <gtest/gtest.h>

#include <cstdint>

#include "support/fuzz_corpus.h"

extern "C" int fuzz_tokenizer_json(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_tokenizer_files(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_tokenizer_encode(const std::uint8_t* data, std::size_t size);

namespace sluice {
namespace {

using testing::replay;

TEST(TokenizerFuzzCorpusTest, ReplaysTheFilesFoundSoFar) {
  replay("tokenizer_json", fuzz_tokenizer_json);
}

TEST(TokenizerFuzzCorpusTest, ReplaysTheDirectoriesFoundSoFar) {
  replay("tokenizer_files", fuzz_tokenizer_files);
}

TEST(TokenizerFuzzCorpusTest, ReplaysTheTextsFoundSoFar) {
  replay("tokenizer_encode", fuzz_tokenizer_encode);
}

}  // namespace
}  // namespace sluice
