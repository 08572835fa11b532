#include <gtest/gtest.h>

#include <cstdint>

#include "support/fuzz_corpus.h"

extern "C" int fuzz_adapter_config(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_model_config(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_chat_program(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_costs(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_jsonl_row(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_layer_costs(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_layout(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_planned_model(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_row_tokens(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_safetensors(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_schedule_csv(const std::uint8_t* data, std::size_t size);
extern "C" int fuzz_token_file(const std::uint8_t* data, std::size_t size);

namespace sluice::fuzz_corpus_test {
namespace {

using testing::replay;

TEST(FuzzCorpusTest, ReplaysTheScheduleFilesFoundSoFar) {
  replay("schedule_csv", fuzz_schedule_csv);
}

TEST(FuzzCorpusTest, ReplaysTheAdapterConfigurationsFoundSoFar) {
  replay("adapter_config", fuzz_adapter_config);
}

TEST(FuzzCorpusTest, ReplaysTheModelConfigurationsFoundSoFar) {
  replay("model_config", fuzz_model_config);
}

TEST(FuzzCorpusTest, ReplaysTheCostsFoundSoFar) { replay("costs", fuzz_costs); }

TEST(FuzzCorpusTest, ReplaysTheLayerCostsFoundSoFar) { replay("layer_costs", fuzz_layer_costs); }

TEST(FuzzCorpusTest, ReplaysTheLayoutsFoundSoFar) { replay("layout", fuzz_layout); }

TEST(FuzzCorpusTest, ReplaysThePlannedModelsFoundSoFar) {
  replay("planned_model", fuzz_planned_model);
}

TEST(FuzzCorpusTest, ReplaysTheRowsFoundSoFar) {
  replay("jsonl_row", fuzz_jsonl_row);
  replay("row_tokens", fuzz_row_tokens);
}

TEST(FuzzCorpusTest, ReplaysTheChatTemplatesFoundSoFar) {
  replay("chat_program", fuzz_chat_program);
}

TEST(FuzzCorpusTest, ReplaysTheTokenFilesFoundSoFar) { replay("token_file", fuzz_token_file); }

TEST(FuzzCorpusTest, ReplaysTheSafetensorsFoundSoFar) { replay("safetensors", fuzz_safetensors); }

}  // namespace
}  // namespace sluice::fuzz_corpus_test
