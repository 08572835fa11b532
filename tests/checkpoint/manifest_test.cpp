#include "sluice/checkpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "base/content_hash.h"
#include "checkpoint/fuzz/properties.h"
#include "checkpoint/manifest.h"
#include "checkpoint/manifest_seal.h"
#include "support/expect_error.h"
#include "support/fuzz_corpus.h"
#include "support/mutate.h"

extern "C" int fuzz_manifest(const std::uint8_t* data, std::size_t size);

namespace sluice {
namespace {

using test::error_of;

// Two weights in one file, a third in another, and an example of every other entry.
Manifest sample() {
  const std::string hash = content_hash("x");
  Manifest manifest;
  manifest.version = "0.1.0";
  manifest.run = "0123456789abcdef";
  manifest.step = 9223372036854775807;
  manifest.sequence = 800;
  manifest.seed = 18446744073709551615u;
  manifest.fingerprints = {{"data", {20, hash}}, {"model", {0, hash}}};
  manifest.settings = {{"optimizer.lr", "0.001"}, {"optimizer.name", "AdamW"}};
  manifest.extra = {{"", "empty \" \\ \n \u00e9"}, {std::string("a\0b", 3), "nul"}};
  manifest.ties = {{"lm_head.weight", "a.weight"}};
  manifest.weights = {{"a.weight", "model-1.safetensors", 128, 24, {2, 3}, "F32", hash},
                      {"b.weight", "model-1.safetensors", 152, 2, {}, "BF16", hash},
                      {"../c", "model-2.safetensors", 8, 0, {0, 7}, "I64", hash}};
  manifest.optimizer = {
      {"exp_avg/a.weight", "optimizer/one.safetensors", 99, 24, {6}, "F32", hash}};
  manifest.extra_tensors = {{"mine", "extra/e.safetensors", 8, 3, {3}, "BOOL", hash}};
  manifest.files = {{"config.json", 7, hash}, {"tokenizer.json", 0, hash}};
  return manifest;
}

std::string body_of(const Manifest& manifest) {
  return std::string(unsealed(to_json(manifest), "manifest.json"));
}

Error refusal_of_text(const std::string& text) {
  return error_of([&] { parse_manifest(text, "manifest.json"); });
}

TEST(ManifestTest, ComesBackAsItWas) {
  for (const Manifest& manifest : {sample(), [] {
                                     Manifest bare;
                                     bare.run = "0000000000000000";
                                     return bare;
                                   }()}) {
    const std::string text = to_json(manifest);
    EXPECT_EQ(parse_manifest(text, "manifest.json"), manifest);
    EXPECT_EQ(to_json(parse_manifest(text, "manifest.json")), text);
  }
}

TEST(ManifestTest, OfTheFuzzersCorpusAreReadOrRefused) {
  testing::replay("manifest", fuzz_manifest);
}

TEST(ManifestTest, IsJsonWithOneTensorALineAndTheHashOfAllBeforeAtItsEnd) {
  const std::string text = to_json(sample());
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(json.at("step"), 9223372036854775807);
  EXPECT_EQ(json.at("data").at("sequence"), 800);
  EXPECT_EQ(json.at("weights").size(), 3u);
  EXPECT_EQ(json.rbegin().key(), "hash");
  const std::size_t end = text.rfind(",\n  \"hash\"");
  EXPECT_EQ(json.at("hash"), content_hash(text.substr(0, end)));
  EXPECT_EQ(text.back(), '\n');
  EXPECT_NE(text.find("\n    {\"name\": \"a.weight\", \"dtype\": \"F32\", \"shape\": [2, 3], "
                      "\"file\": \"model-1.safetensors\", \"offset\": 128, \"bytes\": 24, "),
            std::string::npos);
}

TEST(ManifestTest, ATextThatIsTornAnywhereIsRefused) {
  const std::string text = to_json(sample());
  for (std::size_t length = 0; length < text.size(); ++length) {
    const Error error = refusal_of_text(text.substr(0, length));
    ASSERT_EQ(error.kind(), ErrorKind::kCheckpoint) << length;
    ASSERT_EQ(error.where(), "manifest.json") << length;
  }
}

TEST(ManifestTest, AByteThatIsFlippedAnywhereIsRefused) {
  const std::string text = to_json(sample());
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char bit : {1, 32}) {
      std::string flipped = text;
      flipped[at] = static_cast<char>(flipped[at] ^ bit);
      ASSERT_EQ(refusal_of_text(flipped).kind(), ErrorKind::kCheckpoint) << at;
    }
  }
}

TEST(ManifestTest, AnInvariantThatIsBrokenIsRefusedByTheReaderAndNeverWritten) {
  struct Case {
    const char* says;
    std::function<void(Manifest&)> change;
  };
  constexpr std::int64_t kMax = 9223372036854775807;
  const std::vector<Case> cases = {
      {"plain name", [](Manifest& m) { m.weights[0].file = "../model.safetensors"; }},
      {"plain name", [](Manifest& m) { m.weights[0].file = "/tmp/model.safetensors"; }},
      {"plain name", [](Manifest& m) { m.weights[0].file = "a/model.safetensors"; }},
      {"plain name", [](Manifest& m) { m.weights[0].file = "a\\model.safetensors"; }},
      {"plain name",
       [](Manifest& m) { m.weights[0].file = std::string("model\0.safetensors", 18); }},
      {"plain name", [](Manifest& m) { m.weights[0].file = "a\n.safetensors"; }},
      {"plain name", [](Manifest& m) { m.weights[0].file = ".hidden.safetensors"; }},
      {"plain name", [](Manifest& m) { m.weights[0].file = ""; }},
      {"plain name",
       [](Manifest& m) { m.weights[0].file = std::string(255, 'a') + ".safetensors"; }},
      {"ends in .safetensors", [](Manifest& m) { m.weights[0].file = "pytorch_model.bin"; }},
      {"in 'optimizer/'", [](Manifest& m) { m.optimizer[0].file = "one.safetensors"; }},
      {"in 'optimizer/'", [](Manifest& m) { m.optimizer[0].file = "optimizer/../a.safetensors"; }},
      {"in 'optimizer/'", [](Manifest& m) { m.optimizer[0].file = "optimizer//a.safetensors"; }},
      {"in 'optimizer/'", [](Manifest& m) { m.optimizer[0].file = "optimizers/a.safetensors"; }},
      {"in 'extra/'", [](Manifest& m) { m.extra_tensors[0].file = "optimizer/one.safetensors"; }},
      {"occurs twice", [](Manifest& m) { m.weights[1].name = "a.weight"; }},
      {"overlaps", [](Manifest& m) { m.weights[1].offset = 151; }},
      {"overlaps", [](Manifest& m) { m.weights[1].offset = 128; }},
      {"unknown dtype", [](Manifest& m) { m.weights[0].dtype = "F33"; }},
      {"has 24", [](Manifest& m) { m.weights[0].bytes = 23; }},
      {"has 24", [](Manifest& m) { m.weights[0].bytes = 18446744073709551615u; }},
      {"overflow",
       [](Manifest& m) {
         m.weights[0].shape = {kMax, kMax};
       }},
      {"overflow", [](Manifest& m) { m.weights[0].shape = {kMax}; }},
      {"outside of every file", [](Manifest& m) { m.weights[0].offset = 0; }},
      {"outside of every file", [](Manifest& m) { m.weights[0].offset = 18446744073709551615u; }},
      {"outside of every file", [](Manifest& m) { m.weights[0].offset = kMax; }},
      {"'hash'", [](Manifest& m) { m.weights[0].hash = "00"; }},
      {"'hash'", [](Manifest& m) { m.files[0].hash = std::string(32, 'G'); }},
      {"'hash'", [](Manifest& m) { m.fingerprints["model"].hash = ""; }},
      {"'run'", [](Manifest& m) { m.run = "0123456789ABCDEF"; }},
      {"plain name", [](Manifest& m) { m.files[0].file = "../config.json"; }},
      {"plain name", [](Manifest& m) { m.files[0].file = "."; }},
      {"occurs twice", [](Manifest& m) { m.files[0].file = "manifest.json"; }},
      {"occurs twice", [](Manifest& m) { m.files[0].file = "model-1.safetensors"; }},
      {"occurs twice", [](Manifest& m) { m.files[1].file = "config.json"; }},
      {"2^63-1", [](Manifest& m) { m.files[0].bytes = 9223372036854775808u; }},
      {"not among the weights", [](Manifest& m) { m.ties["lm_head.weight"] = "z"; }},
      {"both tied and among the weights", [](Manifest& m) { m.ties["b.weight"] = "a.weight"; }},
  };
  const nlohmann::ordered_json good = nlohmann::ordered_json::parse(body_of(sample()) + "}");
  for (const Case& item : cases) {
    SCOPED_TRACE(item.says);
    Manifest broken = sample();
    item.change(broken);
    const Error refused = error_of([&] { to_json(broken); });
    EXPECT_EQ(refused.kind(), ErrorKind::kInternal);
    EXPECT_NE(refused.fact().find(item.says), std::string::npos) << refused.what();
    // Parse the same fault from a text that another program wrote.
    nlohmann::ordered_json json = good;
    json["run"] = broken.run;
    json["ties"] = broken.ties;
    json["fingerprints"]["model"]["hash"] = broken.fingerprints["model"].hash;
    const auto fill = [&](const char* list, const std::vector<SavedTensor>& tensors) {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const SavedTensor& t = tensors[i];
        json[list][i] = {{"name", t.name}, {"dtype", t.dtype},   {"shape", t.shape},
                         {"file", t.file}, {"offset", t.offset}, {"bytes", t.bytes},
                         {"hash", t.hash}};
      }
    };
    fill("weights", broken.weights);
    fill("optimizer", broken.optimizer);
    fill("extra_tensors", broken.extra_tensors);
    for (std::size_t i = 0; i < broken.files.size(); ++i) {
      json["files"][i] = {{"file", broken.files[i].file},
                          {"bytes", broken.files[i].bytes},
                          {"hash", broken.files[i].hash}};
    }
    std::string text = json.dump();
    text.pop_back();
    const Error error = refusal_of_text(seal(text));
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_NE(error.fact().find(item.says), std::string::npos) << error.what();
    EXPECT_TRUE(error.where().starts_with("manifest.json, ")) << error.what();
  }
}

TEST(ManifestTest, AFormThatIsNotOfItsVersionIsRefused) {
  struct Case {
    const char* from;
    const char* to;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"\"sluice checkpoint\"", "\"other\"", "its format is 'other'"},
      {"\"version\": 1", "\"version\": 2", "has version 2, not 1"},
      {"\"version\": 1", "\"version\": \"1\"", "a string in 'version'"},
      {"\"version\": 1", "\"version\": -1", "a negative number in 'version'"},
      {"\"version\": 1", "\"version\": 1.0", "not a 64-bit integer in 'version'"},
      {"\"step\": 9223372036854775807", "\"step\": 9223372036854775808", "above 2^63-1"},
      {"\"step\": 9223372036854775807", "\"step\": null", "null in 'step'"},
      {"\"step\": 9223372036854775807", "\"step\": [1]", "a list in 'step'"},
      {"\"step\": 9223372036854775807", "\"step\": {}", "an object in 'step'"},
      {"\"seed\": 18446744073709551615", "\"seed\": 18446744073709551616", "not a 64-bit integer"},
      {"\"seed\": 18446744073709551615", "\"seed\": 1e999", "not valid JSON"},
      {"\"seed\": 18446744073709551615", "\"seed\": true", "a boolean in 'seed'"},
      {"\"seed\"", "\"sed\"", "unknown key 'sed'"},
      {"\"seed\"", "\"step\"", "key 'step' appears twice"},
      {"{\"sequence\": 800}", "{}", "key 'sequence' is missing"},
      {"{\"sequence\": 800}", "{\"sequence\": 1, \"sequence\": 1}", "appears twice"},
      {"{\"sequence\": 800}", "{\"position\": 1}", "unknown key 'position'"},
      {"{\"sequence\": 800}", "7", "a number in 'data'"},
      {"\"optimizer.lr\": \"0.001\"", "\"optimizer.lr\": 0.001", "in 'settings'"},
      {"\"optimizer.lr\"", "\"optimizer.name\"", "key 'optimizer.name' appears twice"},
      {"\"model\": {", "\"data\": {", "key 'data' appears twice"},
      {"\"model\": {\"bytes\": 0, ", "\"model\": {", "key 'bytes' is missing"},
      {"\"model\": {\"bytes\": 0, ", "\"model\": {\"offset\": 0, ", "unknown key 'offset'"},
      {"\"offset\": 128, ", "", "key 'offset' is missing"},
      {"\"offset\": 128, ", "\"offset\": 128, \"offset\": 128, ", "key 'offset' appears twice"},
      {"\"offset\": 128, ", "\"offset\": 128, \"rank\": 1, ", "unknown key 'rank'"},
      {"\"offset\": 128, ", "\"offset\": [128], ", "a list in 'offset'"},
      {"\"shape\": [2, 3]", "\"shape\": [2, [3]]", "a list in 'shape'"},
      {"\"shape\": [2, 3]", "\"shape\": [2, -3]", "a negative number in 'shape'"},
      {"\"shape\": [2, 3]", "\"shape\": [2, 9223372036854775808]", "above 2^63-1"},
      {"\"shape\": [2, 3]", "\"shape\": 6", "a number in 'shape'"},
      {"\"weights\": [", "\"weights\": [[], ", "a list in 'weights'"},
      {"\"weights\": [", "\"weights\": [1, ", "a number in 'weights'"},
      {"\"weights\": [", "\"weights\": {", "an object in 'weights'"},
      {"{\"file\": \"config.json\"", "{\"name\": \"config.json\"", "unknown key 'name'"},
      {"{\n", "[", "does not start with '{'"},
      {"{\n", "\xEF\xBB\xBF{", "does not start with '{'"},
      {"{\n", "{{", "not valid JSON"},
      {"config.json", "config\xFF.json", "not valid JSON"},
  };
  const std::string body = body_of(sample());
  for (const Case& item : cases) {
    SCOPED_TRACE(std::string(item.from) + " -> " + item.to);
    std::string text = body;
    const std::size_t at = text.find(item.from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string_view(item.from).size(), item.to);
    const Error error = refusal_of_text(seal(text));
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_NE(error.fact().find(item.says), std::string::npos) << error.what();
  }
  std::string with_nul = body;
  with_nul[with_nul.find("0.1.0")] = '\0';
  EXPECT_NE(refusal_of_text(seal(with_nul)).fact().find("a NUL character"), std::string::npos);
  for (const char* key :
       {"format", "version", "sluice", "run", "step", "data", "seed", "settings", "fingerprints",
        "ties", "extra", "weights", "optimizer", "extra_tensors", "files"}) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(body + "}");
    json.erase(key);
    std::string text = json.dump();
    text.pop_back();
    EXPECT_EQ(refusal_of_text(seal(text)).fact(),
              "not a manifest: key '" + std::string(key) + "' is missing");
  }
}

TEST(ManifestTest, AHostileTextIsRefusedInBoundedTimeAndMemory) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string body = body_of(sample());
  std::string lists(1'000'000, '['), objects, many, numbers = body;
  for (int i = 0; i < 200'000; ++i) objects += "{\"weights\":";
  many = "{\"weights\": [" + lists;
  numbers.replace(numbers.find("[2, 3]"), 6, "[" + std::string(2 * 10'000'000, '0') + "]");
  for (const std::string& text :
       {lists, objects, many, numbers, std::string(std::size_t{60} << 20, ' '),
        std::string(kMaxManifestBytes + 1, '{'), "{\"weights\": [" + std::string(1 << 20, ' ')}) {
    EXPECT_EQ(refusal_of_text(seal(text)).kind(), ErrorKind::kCheckpoint);
    EXPECT_EQ(refusal_of_text(text).kind(), ErrorKind::kCheckpoint);
  }
  EXPECT_NE(
      refusal_of_text(std::string(kMaxManifestBytes + 1, '{')).fact().find("larger than 256.00MiB"),
      std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(ManifestTest, NoMutationBreaksTheInvariants) {
  Manifest second = sample();
  second.weights.clear();
  second.ties.clear();
  const std::vector<std::string> seeds = {body_of(sample()), body_of(second)};
  std::mt19937 random(3);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round)
    accepted += test::check_manifest(test::mutate(seeds[random() % 2], seeds, random));
  EXPECT_GT(accepted, 100);
}

TEST(ManifestTest, AnExtraThatIsNotTextIsRefusedWhenItIsWritten) {
  Manifest manifest = sample();
  manifest.extra["mine"] = "\xff";
  const Error error = error_of([&] { to_json(manifest); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.fact(), "a text of the checkpoint is not UTF-8");
}

}  // namespace
}  // namespace sluice
