#include "io/hf_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/content_hash.h"
#include "base/file.h"
#include "support/expect_error.h"
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

namespace fs = std::filesystem;

class LinkedFilesTest : public ::testing::Test {
 protected:
  LinkedFilesTest() {
    test::write_file(directory_ / "id_rsa", "private");
    test::write_file(directory_ / "model/tokenizer.json", "{}");
  }
  std::string model() const { return directory_ / "model"; }
  void expect_refused(const std::string& path) const {
    for (const auto& use :
         std::vector<std::function<void()>>{[&] { tokenizer_files(parent_directory(path)); },
                                            [&] { copy_file(path, directory_ / "copy"); }}) {
      const Error error = test::error_of(use);
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_EQ(error.where(), path);
      EXPECT_NE(error.fact().find(fs::canonical(directory_ / "id_rsa").string()), std::string::npos)
          << error.what();
    }
    EXPECT_FALSE(fs::exists(directory_ / "copy"));
  }
  const TempDirectory directory_;
};

TEST_F(LinkedFilesTest, ALinkOutOfTheDirectoryIsNotCopied) {
  for (const std::string& target : {directory_ / "id_rsa", std::string("../id_rsa")}) {
    fs::remove(model() + "/merges.txt");
    fs::create_symlink(target, model() + "/merges.txt");
    expect_refused(model() + "/merges.txt");
  }
}

TEST_F(LinkedFilesTest, AChainOfLinksIsFollowedToItsEnd) {
  fs::create_symlink(directory_ / "id_rsa", model() + "/step");
  fs::create_symlink("step", model() + "/chat_template.jinja");
  expect_refused(model() + "/chat_template.jinja");
}

TEST_F(LinkedFilesTest, AFolderThatIsALinkLeadsOutAsWell) {
  fs::create_directory_symlink(directory_.str(), model() + "/inner");
  fs::create_symlink("inner/id_rsa", model() + "/vocab.json");
  expect_refused(model() + "/vocab.json");
}

TEST_F(LinkedFilesTest, ALinkWithinTheDirectoryIsFine) {
  fs::create_symlink("tokenizer.json", model() + "/merges.txt");
  EXPECT_EQ(tokenizer_files(model()).size(), 2u);
  EXPECT_EQ(copy_file(model() + "/merges.txt", directory_ / "copy").bytes, 2u);
  EXPECT_FALSE(fs::is_symlink(directory_ / "copy"));
}

TEST_F(LinkedFilesTest, TheDirectoryItselfMayBeALink) {
  fs::create_directory_symlink(model(), directory_ / "llama");
  EXPECT_EQ(copy_file(directory_ / "llama/tokenizer.json", directory_ / "copy").bytes, 2u);
}

TEST_F(LinkedFilesTest, ASnapshotOfTheHuggingFaceCacheHasItsFilesAmongTheBlobs) {
  const std::string cache = directory_ / "hub/models--org--name";
  const std::string snapshot = cache + "/snapshots/0123abcd";
  test::write_file(cache + "/blobs/f00d", "{}");
  fs::create_directories(snapshot);
  fs::create_symlink("../../blobs/f00d", snapshot + "/tokenizer.json");
  EXPECT_EQ(tokenizer_files(snapshot).size(), 1u);
  EXPECT_EQ(copy_file(snapshot + "/tokenizer.json", directory_ / "copy").bytes, 2u);
  fs::remove(directory_ / "copy");
  fs::create_directory_symlink(snapshot, directory_ / "latest");
  EXPECT_EQ(tokenizer_files(directory_ / "latest").size(), 1u);
  // A link must not lead to another part of the cache, nor to a blob that links out of the cache.
  fs::create_symlink("../../../../id_rsa", snapshot + "/merges.txt");
  expect_refused(snapshot + "/merges.txt");
  fs::remove(snapshot + "/merges.txt");
  fs::create_symlink(directory_ / "id_rsa", cache + "/blobs/beef");
  fs::create_symlink("../../blobs/beef", snapshot + "/merges.txt");
  expect_refused(snapshot + "/merges.txt");
}

TEST_F(LinkedFilesTest, FoldersThatOnlyLookLikeACacheAreNone) {
  // A model was unpacked in a home folder, whose other files do not belong to the model.
  test::write_file(directory_ / "blobs/id_rsa", "private");
  fs::create_directories(directory_ / "snapshots/1");
  fs::create_symlink("../../blobs/id_rsa", directory_ / "snapshots/1/merges.txt");
  EXPECT_EQ(test::error_of([&] { tokenizer_files(directory_ / "snapshots/1"); }).kind(),
            ErrorKind::kInput);
}

}  // namespace
}  // namespace sluice::io
