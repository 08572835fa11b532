// The checkpoint folders of these tests are written byte by byte after docs/checkpoints.md.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "support/run_program.h"
#include "support/temp_directory.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;
using test::list_directory;
using test::read_file;
using test::write_file;

std::string bytes_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Returns the tensor's line of the manifest.
std::string write_tensor(const std::string& path, const std::string& file, const std::string& name,
                         const std::vector<float>& values) {
  const std::string data = bytes_of(values), shape = "[" + std::to_string(values.size()) + "]";
  std::string header = R"({"__metadata__":{"format":"pt"},")" + name +
                       R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,)" +
                       std::to_string(data.size()) + "]}}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  write_file(path + "/" + file, length + header + data);
  return R"({"name": ")" + name + R"(", "dtype": "F32", "shape": )" + shape + R"(, "file": ")" +
         file + R"(", "offset": )" + std::to_string(8 + header.size()) + R"(, "bytes": )" +
         std::to_string(data.size()) + R"(, "hash": ")" + content_hash(data) + "\"}";
}

struct Content {
  std::int64_t step = 12;
  std::vector<float> weights = {1, 2, 3};
  std::string name = "norm.weight", rate = "0.001";
  bool config = true;
};

void write_checkpoint(const std::string& path, const Content& content = {}) {
  const std::string weights =
      write_tensor(path, "model.safetensors", content.name, content.weights);
  const std::string state = write_tensor(path, "optimizer/state-00001-of-00001.safetensors",
                                         "exp_avg/norm.weight", {0.5, 0.25});
  std::string files;
  if (content.config) {
    const std::string config = "{\"model_type\": \"llama\"}\n";
    write_file(path + "/config.json", config);
    files = R"({"file": "config.json", "bytes": )" + std::to_string(config.size()) +
            R"(, "hash": ")" + content_hash(config) + "\"}";
  }
  const std::string body = R"({
  "format": "sluice checkpoint",
  "version": 1,
  "sluice": "0.1.0",
  "run": "0123456789abcdef",
  "generation": 0,
  "step": )" + std::to_string(content.step) +
                           R"(,
  "data": {"sequence": 96},
  "seed": 0,
  "fingerprints": {},
  "settings": {"optimizer.lr": ")" +
                           content.rate + R"("},
  "ties": {},
  "extra": {},
  "weights": [)" + weights +
                           R"(],
  "optimizer": [)" + state +
                           R"(],
  "extra_tensors": [],
  "files": [)" + files + "]";
  write_file(path + "/manifest.json", body + ",\n  \"hash\": \"" + content_hash(body) + "\"\n}\n");
}

class CheckpointCommandTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }

  ProgramResult checkpoint(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "checkpoint");
    return run_sluice(arguments);
  }
  nlohmann::json json_of(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const ProgramResult result = checkpoint(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return nlohmann::json::parse(result.out, nullptr, false);
  }
  void expect_refused(const std::vector<std::string>& arguments, int exit_code,
                      const std::string& says) const {
    const ProgramResult result = checkpoint(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err.rfind("sluice: error: ", 0), 0u) << result.err;
    EXPECT_EQ(parts_of(result.err), 3) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  }

  const test::TempDirectory folder_;
};

void damage(const std::string& file) {
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(file, bytes);
}

TEST_F(CheckpointCommandTest, ListsByStepWhichCanBeGoneOnFrom) {
  const std::string ck = at("ck");
  write_checkpoint(ck + "/step-00000120", {.step = 120});
  write_checkpoint(ck + "/step-00000012");
  damage(ck + "/step-00000012/model.safetensors");
  fs::create_directory(ck + "/step-00000005");
  const nlohmann::json rows = json_of({"list", ck});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0],
            (nlohmann::json{{"step", 5},
                            {"path", ck + "/step-00000005"},
                            {"ok", false},
                            {"reason", "there is no manifest.json, so it was not committed"}}));
  EXPECT_EQ(rows[1].at("ok"), false);
  EXPECT_NE(rows[1].at("reason").get<std::string>().find("tensor 'norm.weight'"),
            std::string::npos);
  EXPECT_EQ(rows[2],
            (nlohmann::json{
                {"step", 120}, {"path", ck + "/step-00000120"}, {"ok", true}, {"reason", ""}}));
  EXPECT_EQ(json_of({"list", ck + "/"})[2].at("path"), ck + "/step-00000120");
  const ProgramResult text = checkpoint({"list", ck});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find(" 120  yes  " + ck), std::string::npos) << text.out;
  fs::create_directory(at("empty"));
  EXPECT_EQ(json_of({"list", at("empty")}), nlohmann::json::array());
  EXPECT_EQ(checkpoint({"list", at("empty")}).out, "no checkpoints in " + at("empty") + "\n");
  expect_refused({"list", at("none")}, 4, "there is no such folder");
}

TEST_F(CheckpointCommandTest, VerifiesOneOrSaysWhatIsDamaged) {
  const std::string path = at("ck/step-00000012");
  write_checkpoint(path);
  const ProgramResult good = checkpoint({"verify", path});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_EQ(good.out, path + ": ok: step 12, 2 tensors, 20 bytes\n");
  expect_refused({"verify", at("ck/step-0000012")}, 4, "did you mean '" + path + "'?");
  expect_refused({"verify", at("ck")}, 4, "did you mean '" + path + "'?");
  expect_refused({"verify", ""}, 4, "there is no such checkpoint");
  damage(path + "/optimizer/state-00001-of-00001.safetensors");
  expect_refused({"verify", path}, 4, "tensor 'exp_avg/norm.weight'");
}

TEST_F(CheckpointCommandTest, SaysWhatDiffers) {
  write_checkpoint(at("a"));
  write_checkpoint(at("b"), {.step = 13, .weights = {1, 2.5, 3}, .rate = "0.002"});
  write_checkpoint(at("c"), {.weights = {1, 2}});
  write_checkpoint(at("d"), {.name = "other.weight"});
  const nlohmann::json same = json_of({"diff", at("a"), at("a")});
  EXPECT_EQ(same.at("equal"), true);
  EXPECT_EQ(same.at("tensors").at("other_content"), nlohmann::json::array());

  const nlohmann::json content = json_of({"diff", at("a"), at("b")});
  EXPECT_EQ(content.at("equal"), false);
  EXPECT_EQ(content.at("values"), (nlohmann::json{{"step", {"12", "13"}}}));
  EXPECT_EQ(content.at("settings"), (nlohmann::json{{"optimizer.lr", {"0.001", "0.002"}}}));
  EXPECT_EQ(content.at("tensors").at("other_content"),
            (nlohmann::json::array(
                {{{"kind", "weights"}, {"name", "norm.weight"}, {"largest_difference", 0.5}}})));

  const nlohmann::json form = json_of({"diff", at("a"), at("c")});
  EXPECT_EQ(
      form.at("tensors").at("other_form"),
      (nlohmann::json::array(
          {{{"kind", "weights"}, {"name", "norm.weight"}, {"a", "F32 [3]"}, {"b", "F32 [2]"}}})));

  const nlohmann::json names = json_of({"diff", at("a"), at("d")});
  EXPECT_EQ(names.at("tensors").at("only_in_a")[0].at("name"), "norm.weight");
  EXPECT_EQ(names.at("tensors").at("only_in_b")[0].at("name"), "other.weight");

  const ProgramResult text = checkpoint({"diff", at("a"), at("b")});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out,
            "step: 12 | 13\nsettings optimizer.lr: 0.001 | 0.002\n"
            "weights norm.weight: differs by at most 0.5\n");
  EXPECT_EQ(checkpoint({"diff", at("a"), at("a")}).out, "equal\n");
  expect_refused({"diff", at("a"), at("z")}, 4, "there is no such checkpoint");
}

TEST_F(CheckpointCommandTest, ComparesWithAHuggingFaceDirectoryToo) {
  write_checkpoint(at("a"));
  ASSERT_EQ(checkpoint({"export", at("a"), at("hf")}).exit_code, 0);
  EXPECT_EQ(json_of({"diff", at("a"), at("hf")}).at("equal"), true);
  damage(at("hf/model.safetensors"));
  const nlohmann::json damaged = json_of({"diff", at("hf"), at("a")});
  EXPECT_EQ(damaged.at("equal"), false);
  EXPECT_GT(damaged.at("tensors").at("other_content")[0].at("largest_difference"), 0);
}

TEST_F(CheckpointCommandTest, ExportsAHuggingFaceDirectoryAndNothingElse) {
  write_checkpoint(at("a"));
  write_file(at("a/notes.txt"), "mine");
  const ProgramResult result = checkpoint({"export", at("a"), at("hf") + "/"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find(": 2 files, "), std::string::npos) << result.out;
  EXPECT_EQ(list_directory(at("hf")), (std::set<std::string>{"config.json", "model.safetensors"}));
  for (const std::string& file : list_directory(at("hf")))
    EXPECT_EQ(read_file(at("hf/" + file)), read_file(at("a/" + file)));
  fs::create_directory(at("empty"));
  EXPECT_EQ(checkpoint({"export", at("a"), at("empty")}).exit_code, 0);
  write_checkpoint(at("bare"), {.config = false});
  const ProgramResult bare = checkpoint({"export", at("bare"), at("weights")});
  EXPECT_EQ(bare.exit_code, 0) << bare.err;
  EXPECT_NE(bare.out.find("weights alone"), std::string::npos) << bare.out;
  EXPECT_EQ(list_directory(at("weights")), (std::set<std::string>{"model.safetensors"}));
  EXPECT_EQ(list_directory(folder_.str()),
            (std::set<std::string>{"a", "bare", "empty", "hf", "weights"}));
}

TEST_F(CheckpointCommandTest, AnExportThatFailsLeavesNothing) {
  write_checkpoint(at("a"));
  write_file(at("full/x"), "x");
  expect_refused({"export", at("a"), at("full")}, 2, "is not empty");
  expect_refused({"export", at("a"), at("full/x")}, 2, "not a directory");
  expect_refused({"export", at("a"), at("none/hf")}, 4, "cannot create directory");
  expect_refused({"export", at("a"), at("hf"), "--merge"}, 2, "there is no adapter to merge");
  damage(at("a/model.safetensors"));
  expect_refused({"export", at("a"), at("hf")}, 4, "tensor 'norm.weight'");
  EXPECT_EQ(list_directory(folder_.str()), (std::set<std::string>{"a", "full"}));
}

TEST_F(CheckpointCommandTest, WhatIsMisspeltIsNamed) {
  expect_refused({"verfy", at("a")}, 2, "did you mean 'verify'?");
  expect_refused({"list", at("a"), "--jsn"}, 2, "did you mean '--json'?");
  expect_refused({"list", at("a"), "--training.steps=3"}, 2, "unknown option '--training.steps'");
  expect_refused({"diff", at("a")}, 2, "B is required");
  const ProgramResult help = run_sluice({"help", "checkpoint"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("sluice checkpoint export PATH OUT"), std::string::npos);
}

}  // namespace
}  // namespace sluice::testing
