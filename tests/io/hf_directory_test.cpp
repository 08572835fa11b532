#include "sluice/parts/hf_directory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/hf_shards.h"
#include "io/safetensors.h"
#include "layer/slice.h"
#include "support/bytes_read.h"
#include "support/counted_allocations.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using test::bytes_read_so_far;
using test::error_of;
using test::TempDirectory;
namespace fs = std::filesystem;

const std::string kModels = SLUICE_TEST_DATA "/reference/models/";
const std::string kIndex = "model.safetensors.index.json";

void write_tensors(const std::string& path,
                   const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  SafetensorsWriter::Plan plan;
  for (const auto& [name, tensor] : tensors) plan.emplace_back(name, meta_of(tensor));
  SafetensorsWriter writer(path, plan);
  for (const auto& [name, tensor] : tensors) writer.write(name, tensor);
  writer.finish();
}

void write_index(const TempDirectory& directory, const nlohmann::json& weight_map) {
  test::write_file(directory / kIndex, nlohmann::json{{"weight_map", weight_map}}.dump());
}

ParameterInfo parameter(const std::string& name, std::vector<std::int64_t> shape,
                        const std::string& tied_to = {}) {
  ParameterInfo info;
  info.name = name;
  info.global_shape = shape;
  info.tensor = at::full(shape, -1.0).requires_grad_();
  info.tied_to = tied_to;
  return info;
}

ModelSpec tied_spec() {
  ModelSpec spec;
  spec.layers = {
      {"model.embed_tokens", LayerRole::kEmbedding, {{"model.embed_tokens.weight", {4, 2}, ""}}},
      {"lm_head", LayerRole::kHead, {{"lm_head.weight", {4, 2}, "model.embed_tokens.weight"}}}};
  return spec;
}

// a and b in the first, c in the second
void write_sharded(const TempDirectory& directory) {
  write_tensors(directory / "model-00001-of-00002.safetensors",
                {{"a", at::ones({2})}, {"b", at::full({3}, 2.0)}});
  write_tensors(directory / "model-00002-of-00002.safetensors", {{"c", at::full({4}, 3.0)}});
  write_index(directory, {{"a", "model-00001-of-00002.safetensors"},
                          {"b", "model-00001-of-00002.safetensors"},
                          {"c", "model-00002-of-00002.safetensors"}});
}

TEST(HfDirectoryTest, ReadsASingleFileAndShardsWithAnIndex) {
  const HfDirectory single(kModels + "llama_untied");
  EXPECT_EQ(single.names().size(), 39u);
  EXPECT_EQ(single.shards().locate("lm_head.weight").entry->dtype, "F32");

  const TempDirectory directory;
  write_sharded(directory);
  const HfDirectory sharded(directory.str() + "/");
  EXPECT_EQ(sharded.names(), (std::vector<std::string>{"a", "b", "c"}));
  std::vector<ParameterInfo> parameters = {parameter("c", {4}), parameter("a", {2})};
  load_parameters(sharded, parameters, {});
  EXPECT_TRUE(parameters[0].tensor.equal(at::full({4}, 3.0)));
  EXPECT_TRUE(parameters[1].tensor.equal(at::ones({2})));
}

TEST(HfDirectoryTest, FollowsLinksAsTheHubCacheHasThem) {
  const TempDirectory directory;
  fs::create_directories(directory / "snapshot");
  write_tensors(directory / "blob", {{"a", at::ones({2})}});
  fs::create_symlink("../blob", directory / "snapshot/model.safetensors");
  EXPECT_TRUE(HfDirectory(directory / "snapshot").shards().find("a"));
}

TEST(HfDirectoryTest, RefusesShardNamesThatArePaths) {
  const TempDirectory directory;
  for (const char* shard : {"../../etc/passwd", "/etc/passwd", "sub/model.safetensors",
                            "..\\x.safetensors", "", "..", "model.safetensors\0x"}) {
    write_index(directory, {{"a", shard}});
    const Error error = error_of([&] { HfDirectory opened(directory.str()); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(error.fact().find("shard"), std::string::npos) << error.what();
    EXPECT_FALSE(error.remedy().empty()) << error.what();
  }
}

TEST(HfDirectoryTest, APipeInThePlaceOfTheIndexIsRefused) {
  const TempDirectory directory;
  ASSERT_EQ(::mkfifo((directory / kIndex).c_str(), 0600), 0);
  const Error error = error_of([&] { HfDirectory opened(directory.str()); });
  EXPECT_EQ(error.fact(), "not a regular file");
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
}

TEST(HfDirectoryTest, RefusesAnIndexThatDisagreesWithItsShards) {
  const TempDirectory directory;
  write_sharded(directory);
  const std::string first = "model-00001-of-00002.safetensors",
                    second = "model-00002-of-00002.safetensors";
  write_index(directory, {{"a", second}, {"c", second}});
  EXPECT_EQ(error_of([&] { HfDirectory opened(directory.str()); }).fact(),
            "the index places tensor 'a' in '" + second + "', which does not have it");
  EXPECT_FALSE(error_of([&] { HfDirectory opened(directory.str()); }).remedy().empty());
  write_index(directory, {{"a", first}, {"x", first}});
  EXPECT_EQ(error_of([&] { HfDirectory opened(directory.str()); }).fact(),
            "the index places tensor 'x' in '" + first + "', which does not have it");
  write_index(directory, {{"a", first}, {"d", "model-00003-of-00003.safetensors"}});
  EXPECT_EQ(error_of([&] { HfDirectory opened(directory.str()); }).fact(),
            "shard 'model-00003-of-00003.safetensors' of model.safetensors.index.json is missing");
}

TEST(HfDirectoryTest, RefusesATensorInTwoShards) {
  const TempDirectory directory;
  write_sharded(directory);
  write_tensors(directory / "model-00002-of-00002.safetensors",
                {{"a", at::ones({2})}, {"c", at::ones({4})}});
  EXPECT_EQ(error_of([&] { HfDirectory opened(directory.str()); }).fact(),
            "tensor 'a' is in two shards");
  EXPECT_FALSE(error_of([&] { HfDirectory opened(directory.str()); }).remedy().empty());
  test::write_file(
      directory / kIndex,
      R"({"weight_map":{"a":"model-00001-of-00002.safetensors","a":"model-00002-of-00002.safetensors"}})");
  EXPECT_EQ(error_of([&] { HfDirectory opened(directory.str()); }).kind(), ErrorKind::kInput);
}

TEST(HfDirectoryTest, RefusesAnIndexThatIsNoMap) {
  const TempDirectory directory;
  for (const char* text :
       {"", "[]", "{}", "{\"weight_map\":[]}", "{\"weight_map\":{}}", "{\"weight_map\":{\"a\":1}}",
        "{\"weight_map\":{\"a\":\"m.safetensors\"}", "\xff"}) {
    test::write_file(directory / kIndex, text);
    const Error error = error_of([&] { HfDirectory opened(directory.str()); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << text;
    EXPECT_FALSE(error.remedy().empty()) << error.what();
    EXPECT_NE(error.where().find(kIndex), std::string::npos) << error.what();
  }
}

TEST(HfDirectoryTest, AdvisesHowToConvertPickles) {
  const TempDirectory directory;
  test::write_file(directory / "pytorch_model.bin", "pickle");
  Error error = error_of([&] { HfDirectory opened(directory.str()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(error.remedy().find("save_pretrained"), std::string::npos);
  write_index(directory, {{"a", "pytorch_model-00001-of-00002.bin"}});
  error = error_of([&] { HfDirectory opened(directory.str()); });
  EXPECT_NE(error.remedy().find("save_pretrained"), std::string::npos);
}

TEST(HfDirectoryTest, SaysWhatIsThereWhenThereAreNoWeights) {
  const TempDirectory directory;
  EXPECT_EQ(error_of([&] { HfDirectory opened(directory.str()); }).fact(),
            "the directory has neither model.safetensors nor model.safetensors.index.json");
  EXPECT_EQ(error_of([&] { HfDirectory opened(directory / "none"); }).kind(), ErrorKind::kInput);
  test::write_file(directory / "file", "");
  EXPECT_EQ(error_of([&] { HfDirectory opened(directory / "file"); }).fact(), "not a directory");
}

TEST(LoadParametersTest, LoadsGpt2NamesWithAndWithoutTheirPrefix) {
  const TempDirectory directory;
  write_tensors(directory / "model.safetensors", {{"h.0.ln_1.weight", at::full({3}, 5.0)}});
  std::vector<ParameterInfo> parameters = {parameter("transformer.h.0.ln_1.weight", {3})};
  load_parameters(HfDirectory(directory.str()), parameters, {});
  EXPECT_TRUE(parameters[0].tensor.equal(at::full({3}, 5.0)));
  EXPECT_TRUE(HfDirectory(kModels + "gpt2").shards().find("transformer.h.0.ln_1.weight"));
}

TEST(LoadParametersTest, ConvertsHalfPrecisionToTheParametersDtype) {
  const TempDirectory directory;
  write_tensors(directory / "model.safetensors",
                {{"a", at::full({2}, 1.5, at::kBFloat16)}, {"b", at::full({2}, 2.5, at::kHalf)}});
  std::vector<ParameterInfo> parameters = {parameter("a", {2}), parameter("b", {2})};
  load_parameters(HfDirectory(directory.str()), parameters, {});
  EXPECT_TRUE(parameters[0].tensor.equal(at::full({2}, 1.5)));
  EXPECT_TRUE(parameters[1].tensor.equal(at::full({2}, 2.5)));
  EXPECT_TRUE(parameters[0].tensor.requires_grad());
}

TEST(LoadParametersTest, FillsEveryUseOfATiedParameterFromTheOneThatIsStored) {
  for (const char* stored :
       {"model.embed_tokens.weight", "lm_head.weight", "embed_tokens.weight"}) {
    const TempDirectory directory;
    const at::Tensor value = at::randn({4, 2});
    write_tensors(directory / "model.safetensors", {{stored, value}});
    const HfDirectory opened(directory.str());
    EXPECT_TRUE(check_checkpoint(opened, tied_spec()).empty());
    std::vector<ParameterInfo> parameters = {
        parameter("model.embed_tokens.weight", {4, 2}),
        parameter("lm_head.weight", {4, 2}, "model.embed_tokens.weight")};
    load_parameters(opened, parameters, tied_spec());
    EXPECT_TRUE(parameters[0].tensor.equal(value)) << stored;
    EXPECT_TRUE(parameters[1].tensor.equal(value)) << stored;
  }
}

TEST(LoadParametersTest, SaysExpectedAndFoundShape) {
  const TempDirectory directory;
  write_tensors(directory / "model.safetensors", {{"a", at::ones({2, 3})}});
  std::vector<ParameterInfo> parameters = {parameter("a", {3, 2})};
  const Error error =
      error_of([&] { load_parameters(HfDirectory(directory.str()), parameters, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_EQ(error.fact(), "expected shape [3, 2] for 'a', found [2, 3]");
  EXPECT_EQ(error.where(), directory / "model.safetensors" + ", tensor 'a'");
}

// Describes a range of slices of "a" along `dim`.
ParameterInfo part_of(std::vector<std::int64_t> shape, const ParameterSplit& split,
                      const SliceRange& slices) {
  ParameterInfo info;
  info.name = "a";
  info.global_shape = shape;
  info.split = split;
  info.slices = slices;
  std::int64_t held = 0;
  const auto dim = static_cast<std::size_t>(split.dim);
  for (const Slice& box : info.boxes()) held += box.at(dim).size;
  shape.at(dim) = held;
  info.tensor = at::zeros(shape).requires_grad_();
  return info;
}

TEST(LoadParametersTest, ASliceHasTheBitsOfTheWhole) {
  const TempDirectory directory;
  for (const auto stored : {at::kFloat, at::kBFloat16}) {
    const at::Tensor value = at::randn({6, 5, 4}).to(stored);
    write_tensors(directory / "model.safetensors", {{"a", value}});
    const HfDirectory opened(directory.str());
    for (const int dim : {0, 1, 2}) {
      // With two sections, a slice has a box in each.
      const std::int64_t size = value.size(dim);
      for (const ParameterSplit& split :
           {ParameterSplit{.dim = dim}, ParameterSplit{.dim = dim, .sections = {2, size - 2}}}) {
        at::Tensor joined = at::full({6, 5, 4}, -1.0);
        for (const SliceRange slices : {SliceRange{0, 1, 4}, SliceRange{1, 4, 4}}) {
          std::vector<ParameterInfo> parameters = {part_of({6, 5, 4}, split, slices)};
          load_parameters(opened, parameters, {});
          std::int64_t begin = 0;
          for (const Slice& box : parameters[0].boxes()) {
            const IndexRange range = box.at(static_cast<std::size_t>(dim));
            joined.narrow(dim, range.offset, range.size)
                .copy_(parameters[0].tensor.detach().narrow(dim, begin, range.size));
            begin += range.size;
          }
        }
        EXPECT_TRUE(joined.equal(value.to(at::kFloat))) << dim;
      }
    }
  }
}

TEST(LoadParametersTest, OfASliceTheWholeShapeIsCompared) {
  const TempDirectory directory;
  write_tensors(directory / "model.safetensors", {{"a", at::ones({6, 4})}});
  std::vector<ParameterInfo> parameters = {part_of({8, 4}, {.dim = 0}, {0, 1, 4})};
  const Error error =
      error_of([&] { load_parameters(HfDirectory(directory.str()), parameters, {}); });
  EXPECT_EQ(error.fact(), "expected shape [8, 4] for 'a', found [6, 4]");
}

TEST(LoadParametersTest, NamesTheNearestTensorForOneThatIsMissing) {
  std::vector<ParameterInfo> parameters = {
      parameter("model.layers.0.mlp.gate_prj.weight", {128, 64})};
  const Error error =
      error_of([&] { load_parameters(HfDirectory(kModels + "llama_untied"), parameters, {}); });
  EXPECT_EQ(error.fact(), "no tensor 'model.layers.0.mlp.gate_prj.weight' among the weights");
  EXPECT_EQ(error.remedy(), "did you mean 'model.layers.0.mlp.gate_proj.weight'?");
}

// Searching a million names for the nearest once took seconds.
TEST(HfDirectoryTest, RefusesAMissingTensorOfAVastFileWithoutCopyingItsNames) {
  const TempDirectory directory;
  constexpr int kNumTensors = 100'001;
  std::string header = "{";
  for (int i = 0; i < kNumTensors; ++i) {
    header += (i ? ",\"model.layers." : "\"model.layers.") + std::to_string(i) +
              R"(.w":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  }
  header += "}";
  const std::uint64_t length = header.size();
  test::write_file(directory / "model.safetensors",
                   std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
                       std::string(kNumTensors, '\0'));
  const HfDirectory opened(directory.str());
  std::string message;
  const test::Allocations allocations = test::allocations_of([&] {
    message =
        test::message_of([&] { opened.shards().locate("model.layers.0.v", {"model.layers.1.w"}); });
  });
  EXPECT_NE(message.find("no tensor 'model.layers.0.v'"), std::string::npos) << message;
  EXPECT_LT(allocations.count, 1000);
}

TEST(LoadParametersTest, RefusesQuantizedAndIntegerWeights) {
  const TempDirectory directory;
  for (const auto dtype : {at::kChar, at::kFloat8_e4m3fn}) {
    write_tensors(directory / "model.safetensors", {{"a", at::zeros({2}, dtype)}});
    std::vector<ParameterInfo> parameters = {parameter("a", {2})};
    const Error error =
        error_of([&] { load_parameters(HfDirectory(directory.str()), parameters, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(error.fact().find("not a weight that can be trained"), std::string::npos);
  }
}

TEST(LoadParametersTest, ReadsOnlyTheTensorsOfThisRank) {
  const HfDirectory directory(kModels + "llama_untied");
  std::vector<ParameterInfo> parameters = {
      parameter("model.layers.3.mlp.up_proj.weight", {128, 64}),
      parameter("model.norm.weight", {64})};
  bytes_read_so_far();
  const std::uint64_t start = bytes_read_so_far();
  const std::uint64_t of_measuring = bytes_read_so_far() - start;
  const std::uint64_t before = bytes_read_so_far();
  load_parameters(directory, parameters, {});
  EXPECT_EQ(bytes_read_so_far() - before - of_measuring, (128 * 64 + 64) * sizeof(float));
}

TEST(LoadParametersTest, ReadsOnlyTheBytesOfASlice) {
  const HfDirectory directory(kModels + "llama_untied");
  ParameterInfo part = part_of({128, 64}, {.dim = 0}, {2, 3, 8});
  part.name = "model.layers.3.mlp.up_proj.weight";
  std::vector<ParameterInfo> parameters = {part};
  bytes_read_so_far();
  const std::uint64_t start = bytes_read_so_far();
  const std::uint64_t of_measuring = bytes_read_so_far() - start;
  const std::uint64_t before = bytes_read_so_far();
  load_parameters(directory, parameters, {});
  EXPECT_EQ(bytes_read_so_far() - before - of_measuring, 16 * 64 * sizeof(float));
}

TEST(CheckCheckpointTest, AcceptsTheReferenceModels) {
  for (const char* model : {"llama_untied", "llama_tied", "gpt2"}) {
    const ModelSpec spec = read_model_spec(kModels + model);
    EXPECT_EQ(check_checkpoint(HfDirectory(kModels + model), spec), std::vector<std::string>())
        << model;
  }
}

TEST(CheckCheckpointTest, ReturnsStrangersButNotKnownBuffers) {
  const TempDirectory directory;
  write_tensors(directory / "model.safetensors",
                {{"model.embed_tokens.weight", at::ones({4, 2})},
                 {"model.layers.0.self_attn.rotary_emb.inv_freq", at::ones({2})},
                 {"adapter.weight", at::ones({2})}});
  EXPECT_EQ(check_checkpoint(HfDirectory(directory.str()), tied_spec()),
            std::vector<std::string>{"adapter.weight"});
}

TEST(CheckCheckpointTest, RefusesTiedParametersThatAreStoredWithDifferentValues) {
  const TempDirectory directory;
  const at::Tensor value = at::ones({4, 2});
  write_tensors(directory / "model.safetensors",
                {{"model.embed_tokens.weight", value}, {"lm_head.weight", value}});
  EXPECT_TRUE(check_checkpoint(HfDirectory(directory.str()), tied_spec()).empty());
  write_tensors(directory / "model.safetensors",
                {{"model.embed_tokens.weight", value}, {"lm_head.weight", value * 2}});
  const Error error =
      error_of([&] { check_checkpoint(HfDirectory(directory.str()), tied_spec()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_NE(error.remedy().find("tie_word_embeddings"), std::string::npos);
}

TEST(HfDirectoryTest, SaysWhenALayerIsMissingAsAWhole) {
  const TempDirectory directory;
  write_tensors(directory / "model.safetensors", {{"model.layers.0.mlp.up.weight", at::ones({1})}});
  const HfDirectory opened(directory.str());
  EXPECT_EQ(error_of([&] { opened.shards().locate("model.layers.1.mlp.up.weight"); }).remedy(),
            "config.json and the weights belong to different models: the weights have no "
            "'model.layers.1'; name a folder whose files belong together");
  EXPECT_EQ(error_of([&] { opened.shards().locate("model.layers.0.mlp.op.weight"); }).remedy(),
            "did you mean 'model.layers.0.mlp.up.weight'?");
  // These names lack the prefix of the base model.
  const TempDirectory bare;
  write_tensors(bare / "model.safetensors", {{"layers.0.mlp.up.weight", at::ones({1})}});
  EXPECT_EQ(error_of([&] {
              HfDirectory(bare.str()).shards().locate("model.layers.0.mlp.op.weight");
            }).remedy(),
            "did you mean 'layers.0.mlp.up.weight'?");
}

// If one layer lacks a tensor, the other layers still have a similar name.
TEST(CheckCheckpointTest, TakesNoTensorThatTheModelWantsForAMisspeltOne) {
  ModelSpec spec;
  for (const std::string layer : {"0", "1"}) {
    spec.layers.push_back({"model.layers." + layer,
                           LayerRole::kBlock,
                           {{"model.layers." + layer + ".up.weight", {1}, {}},
                            {"model.layers." + layer + ".down.weight", {1}, {}}}});
  }
  const TempDirectory directory;
  write_tensors(directory / "model.safetensors", {{"model.layers.0.up.weight", at::ones({1})},
                                                  {"model.layers.0.down.weight", at::ones({1})},
                                                  {"model.layers.1.down.weight", at::ones({1})}});
  Error error = error_of([&] { check_checkpoint(HfDirectory(directory.str()), spec); });
  EXPECT_EQ(error.fact(), "no tensor 'model.layers.1.up.weight' among the weights");
  EXPECT_EQ(error.remedy(), "does config.json belong to these weights?");
  write_tensors(directory / "model.safetensors", {{"model.layers.0.up.weight", at::ones({1})},
                                                  {"model.layers.0.down.weight", at::ones({1})},
                                                  {"model.layers.1.op.weight", at::ones({1})},
                                                  {"model.layers.1.down.weight", at::ones({1})}});
  error = error_of([&] { check_checkpoint(HfDirectory(directory.str()), spec); });
  EXPECT_EQ(error.remedy(), "did you mean 'model.layers.1.op.weight'?");
}

TEST(CheckCheckpointTest, FindsMissingAndMisshapenTensorsWithoutLoading) {
  const TempDirectory directory;
  write_tensors(directory / "model.safetensors", {{"model.embed_tokens.weight", at::ones({4, 3})}});
  EXPECT_EQ(error_of([&] { check_checkpoint(HfDirectory(directory.str()), tied_spec()); }).fact(),
            "expected shape [4, 2] for 'model.embed_tokens.weight', found [4, 3]");
  write_tensors(directory / "model.safetensors", {{"x", at::ones({4, 3})}});
  EXPECT_EQ(error_of([&] { check_checkpoint(HfDirectory(directory.str()), tied_spec()); }).fact(),
            "no tensor 'model.embed_tokens.weight' among the weights");
}

}  // namespace
}  // namespace sluice
