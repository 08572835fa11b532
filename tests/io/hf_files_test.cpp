#include "io/hf_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/content_hash.h"
#include "base/file.h"
#include "support/temp_directory.h"

namespace sluice::io {
namespace {

using test::read_file;
using test::TempDirectory;

TEST(HfFilesTest, ShardsAreNamedAsTransformersNamesThem) {
  EXPECT_EQ(shard_name("model", 0, 1), "model.safetensors");
  EXPECT_EQ(shard_name("model", 0, 2), "model-00001-of-00002.safetensors");
  EXPECT_EQ(shard_name("state", 99'999, 100'000), "state-100000-of-100000.safetensors");
}

TEST(HfFilesTest, TheIndexHasTheBytesOfAllTensorsAndTheFileOfEach) {
  const auto index = nlohmann::json::parse(index_text({{"a", "x"}, {"b", "y"}}, 12));
  EXPECT_EQ(index["metadata"]["total_size"], 12);
  EXPECT_EQ(index["weight_map"]["b"], "y");
}

TEST(HfFilesTest, TheConfigurationIsKeptButForTheDtype) {
  const std::string text = config_of_weights(
      R"({"zeta": [1, 2], "model_type": "llama", "torch_dtype": "bfloat16", "x": {"y": null}})",
      "float32");
  EXPECT_EQ(nlohmann::json::parse(text), nlohmann::json::parse(R"({"zeta": [1, 2],
            "model_type": "llama", "torch_dtype": "float32", "x": {"y": null},
            "architectures": ["LlamaForCausalLM"]})"));
  EXPECT_LT(text.find("zeta"), text.find("model_type"));
}

TEST(HfFilesTest, AModelThatWasReadBareIsWrittenAsTheLanguageModelThatItIs) {
  for (const auto& [type, architecture] : {std::pair{"gpt2", "GPT2LMHeadModel"},
                                           {"llama", "LlamaForCausalLM"},
                                           {"qwen2", "Qwen2ForCausalLM"}}) {
    const nlohmann::json config = {{"model_type", type}, {"architectures", {"BareModel"}}};
    EXPECT_EQ(nlohmann::json::parse(config_of_weights(config.dump(), "float32"))["architectures"],
              nlohmann::json({architecture}));
  }
}

TEST(HfFilesTest, FilesOfTheTokenizerAreFoundAndCopiedWithTheirHash) {
  const TempDirectory directory;
  test::write_file(directory / "source/tokenizer.json", std::string(3'000'000, 'x'));
  test::write_file(directory / "source/merges.txt", "");
  test::write_file(directory / "source/model.safetensors", "not copied");
  test::write_file(directory / "source/README.md", "not copied");
  std::vector<std::string> names;
  for (const std::string& file : tokenizer_files(directory / "source"))
    names.push_back(base_name(file));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"merges.txt", "tokenizer.json"}));
  EXPECT_TRUE(tokenizer_files("").empty());
  const CopiedFile copied = copy_file(directory / "source/tokenizer.json", directory / "copy");
  EXPECT_EQ(copied.bytes, 3'000'000u);
  EXPECT_EQ(copied.hash, content_hash(read_file(directory / "copy")));
}

}  // namespace
}  // namespace sluice::io
