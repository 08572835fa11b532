// Replays what the fuzz targets (tests/fuzz) have found interesting; a crash fails the test.
#include <gtest/gtest.h>

#include <cstdint>

#include "support/fuzz_corpus.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_adapter_config(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_model_config(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_costs(const std::uint8_t* data, std::size_t size);

namespace sluice::fuzz_corpus_test {
namespace {

using testing::replay;

TEST(FuzzCorpusTest, ReplaysTheScheduleFilesFoundSoFar) {
  replay("schedule_csv", LLVMFuzzerTestOneInput);
}

TEST(FuzzCorpusTest, ReplaysTheAdapterConfigurationsFoundSoFar) {
  replay("adapter_config", fuzz_adapter_config);
}

TEST(FuzzCorpusTest, ReplaysTheModelConfigurationsFoundSoFar) {
  replay("model_config", fuzz_model_config);
}

TEST(FuzzCorpusTest, ReplaysTheCostsFoundSoFar) { replay("costs", fuzz_costs); }

}  // namespace
}  // namespace sluice::fuzz_corpus_test
