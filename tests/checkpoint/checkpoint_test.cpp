#include "sluice/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "checkpoint/manifest.h"
#include "checkpoint/manifest_seal.h"
#include "support/checkpoint_folder.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::read_file;
using test::TempDirectory;
using test::write_checkpoint;
using test::write_file;

constexpr auto kWeights = SavedKind::kWeights;

// Every fault is a checkpoint error, found either on opening or on verification.
Error refusal_of(const std::string& path) {
  return error_of([&] { Checkpoint(path).verify(2); });
}

TEST(CheckpointTest, GivesWhatWasSaved) {
  const TempDirectory directory;
  const std::string path = directory / "step-00000012";
  const Manifest manifest = write_checkpoint(path);
  const Checkpoint checkpoint(path + "//");
  EXPECT_EQ(checkpoint.path(), path);
  EXPECT_EQ(checkpoint.manifest(), manifest);
  for (const int threads : {0, 1, 3, 1000}) checkpoint.verify(threads);
  const at::Tensor a = at::arange(12, at::kFloat).reshape({3, 4}) + 12;
  EXPECT_TRUE(checkpoint.read(kWeights, "embed.weight").equal(a));
  EXPECT_EQ(checkpoint.read(kWeights, "norm.weight").scalar_type(), at::kBFloat16);
  EXPECT_EQ(checkpoint.read(kWeights, "norm.count").item<std::int64_t>(), 12);
  EXPECT_TRUE(checkpoint.read(SavedKind::kOptimizer, "exp_avg/embed.weight").equal(a * 0.5));
  EXPECT_TRUE(checkpoint.read(SavedKind::kExtra, "mine").equal(at::arange(5, at::kInt)));
  EXPECT_EQ(checkpoint.find(kWeights, "mine"), nullptr);
  EXPECT_EQ(checkpoint.find(kWeights, "embed.weight")->file, "model-00001-of-00002.safetensors");
}

TEST(CheckpointTest, ReadsSlicesAndConvertsFloatingTypes) {
  const TempDirectory directory;
  write_checkpoint(directory / "c");
  const Checkpoint checkpoint(directory / "c");
  const at::Tensor a = checkpoint.read(kWeights, "embed.weight");
  at::Tensor rows = at::empty({2, 4}), box = at::empty({2, 2}, at::kDouble);
  checkpoint.read_into(kWeights, "embed.weight", {{1, 2}, {0, 4}}, rows);
  EXPECT_TRUE(rows.equal(a.narrow(0, 1, 2)));
  checkpoint.read_into(kWeights, "embed.weight", {{0, 2}, {1, 2}}, box);
  EXPECT_TRUE(box.equal(a.narrow(0, 0, 2).narrow(1, 1, 2).to(at::kDouble)));
  at::Tensor half = at::empty({2, 3}, at::kHalf);
  checkpoint.read_into(kWeights, "norm.weight", {}, half);
  EXPECT_TRUE(half.to(at::kBFloat16).equal(checkpoint.read(kWeights, "norm.weight")));
}

TEST(CheckpointTest, AReadThatDoesNotFitNamesTheTensor) {
  const TempDirectory directory;
  write_checkpoint(directory / "c");
  const Checkpoint checkpoint(directory / "c");
  at::Tensor wrong = at::empty({4, 3}), whole = at::empty({}, at::kInt);
  const Error missing = error_of([&] { checkpoint.read(kWeights, "embed.weigth"); });
  EXPECT_EQ(missing.kind(), ErrorKind::kCheckpoint);
  EXPECT_EQ(missing.fact(), "no tensor 'embed.weigth' among the weights");
  EXPECT_EQ(missing.remedy(), "did you mean 'embed.weight'?");
  for (const Error& error :
       {error_of([&] { checkpoint.read_into(kWeights, "embed.weight", {}, wrong); }),
        error_of([&] { checkpoint.read_into(kWeights, "norm.count", {}, whole); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_NE(error.fact().find("expected "), std::string::npos) << error.what();
  }
}

TEST(CheckpointTest, IsFoundThroughALink) {
  const TempDirectory directory;
  write_checkpoint(directory / "c");
  fs::create_directory_symlink("c", directory / "link");
  Checkpoint(directory / "link").verify();
}

TEST(CheckpointTest, AnyByteThatIsFlippedIsFound) {
  const TempDirectory directory;
  const std::string path = directory / "c";
  write_checkpoint(path);
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    const std::string file = entry.path(), bytes = read_file(file);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      const auto put = [&](char byte) {  // in place, which is faster
        std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
        stream.seekp(static_cast<std::streamoff>(at)).put(byte);
      };
      put(static_cast<char>(bytes[at] ^ (1 << at % 8)));
      const Error error = refusal_of(path);
      ASSERT_EQ(error.kind(), ErrorKind::kCheckpoint) << file << " at " << at << error.what();
      ASSERT_TRUE(error.where().starts_with(file)) << error.what();
      put(bytes[at]);
    }
  }
  Checkpoint(path).verify();
}

TEST(CheckpointTest, AFileOfAnotherLengthIsFoundWhenItIsOpened) {
  const TempDirectory directory;
  const std::string path = directory / "c";
  write_checkpoint(path);
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    const std::string file = entry.path(), bytes = read_file(file);
    for (std::size_t length = bytes.size() + 1;; --length) {
      fs::resize_file(file, length);
      if (length == bytes.size()) continue;
      const Error error = error_of([&] { const Checkpoint opened(path); });
      ASSERT_EQ(error.kind(), ErrorKind::kCheckpoint) << file << " at " << length;
      ASSERT_TRUE(error.where().starts_with(file)) << error.what();
      if (length == 0) break;
    }
    write_file(file, bytes);
  }
  Checkpoint(path).verify();
}

TEST(CheckpointTest, ATensorThatWasReplacedIsNamed) {
  const TempDirectory directory;
  const std::string path = directory / "c", file = path + "/model-00001-of-00002.safetensors";
  write_checkpoint(path);
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(file, bytes);
  const Error error = refusal_of(path);
  EXPECT_NE(error.fact().find("the saved content has changed: its hash is "), std::string::npos);
  EXPECT_EQ(error.where(), file + ", tensor 'embed.weight'");
}

TEST(CheckpointTest, AFileThatIsTruncatedAfterItWasOpenedIsAnError) {
  const TempDirectory directory;
  const std::string path = directory / "c";
  write_checkpoint(path);
  const Checkpoint checkpoint(path);
  fs::resize_file(path + "/model-00001-of-00002.safetensors", 100);
  EXPECT_EQ(error_of([&] { checkpoint.read(kWeights, "embed.weight"); }).kind(),
            ErrorKind::kCheckpoint);
  EXPECT_EQ(error_of([&] { checkpoint.verify(); }).kind(), ErrorKind::kCheckpoint);
}

TEST(CheckpointTest, WhatIsNoRegularFileInItIsRefused) {
  for (const std::string name : {"manifest.json", "config.json", "model-00001-of-00002.safetensors",
                                 "optimizer/state-00001-of-00001.safetensors", "optimizer"}) {
    SCOPED_TRACE(name);
    const TempDirectory directory;
    const std::string path = directory / "c", moved = directory / "moved";
    const std::string file = path + "/" + name;
    write_checkpoint(path);
    fs::rename(file, moved);
    const auto refused = [&](const std::string& says) {
      const Error error = error_of([&] { const Checkpoint opened(path); });
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      EXPECT_NE(error.fact().find(says), std::string::npos) << error.what();
    };
    refused(name == "manifest.json" ? "not committed"
            : name == "optimizer"   ? "no such folder"
                                    : "No such file");
    fs::create_symlink(moved, file);
    refused("a symbolic link, not a f");
    fs::remove(file);
    if (name == "optimizer") continue;
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    refused("not a regular file");
    fs::remove(file);
    fs::create_directory(file);
    refused("not a regular file");
  }
}

// Edits the manifest and seals it again.
void rewrite(const std::string& path, const std::string& from, const std::string& to) {
  const std::string file = path + "/" + kManifestFile, text = read_file(file);
  std::string body(unsealed(text, file));
  const std::size_t at = body.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  body.replace(at, from.size(), to);
  write_file(file, seal(body));
}

TEST(CheckpointTest, AHeaderThatDisagreesWithTheManifestIsRefused) {
  struct Case {
    const char* from;
    const char* to;
    const char* says;
  };
  for (const Case& item : std::vector<Case>{
           {"\"embed.weight\", \"dtype\"", "\"embod.weight\", \"dtype\"",
            "does not have the tensor"},
           {"\"shape\": [3, 4]", "\"shape\": [4, 3]", "the manifest records F32 [4, 3] at byte"},
           {"\"dtype\": \"F32\", \"shape\": [3, 4]", "\"dtype\": \"I32\", \"shape\": [3, 4]",
            "the manifest records I32 [3, 4]"},
           {"\"file\": \"model-00001-of", "\"file\": \"model-00003-of", "No such file"},
           {"\"file\": \"model-00001-of", "\"file\": \"model-00002-of",
            "does not have the tensor"}}) {
    SCOPED_TRACE(item.to);
    const TempDirectory directory;
    const std::string path = directory / "c";
    write_checkpoint(path);
    rewrite(path, item.from, item.to);
    // The tie must refer to the changed name.
    if (std::string(item.to).find("embod") != std::string::npos)
      rewrite(path, "\"lm_head.weight\": \"embed.weight\"", "\"lm_head.weight\": \"embod.weight\"");
    const Error error = error_of([&] { const Checkpoint opened(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_NE(error.fact().find(item.says), std::string::npos) << error.what();
  }
}

TEST(CheckpointTest, ATensorTooManyOrTooFewIsRefused) {
  const TempDirectory directory;
  const std::string path = directory / "c";
  Manifest manifest = write_checkpoint(path);
  const std::vector<SavedTensor> weights = manifest.weights;
  manifest.weights.pop_back();  // removes norm.count, which the file has
  write_file(path + "/" + kManifestFile, to_json(manifest));
  Error error = refusal_of(path);
  EXPECT_EQ(error.fact(), "the manifest does not have the tensor");
  EXPECT_TRUE(error.where().ends_with("tensor 'norm.count'")) << error.where();
  // Then add a tensor at the end of a file that does not have it.
  manifest.weights = weights;
  manifest.weights.push_back(weights.front());
  manifest.weights.back().name = "more";
  manifest.weights.back().offset += manifest.weights.back().bytes;
  write_file(path + "/" + kManifestFile, to_json(manifest));
  error = refusal_of(path);
  EXPECT_EQ(error.fact(), "the file does not have the tensor");
}

TEST(CheckpointTest, AWrongHashIsFoundInEveryKindOfEntry) {
  const TempDirectory directory;
  const std::string path = directory / "c";
  const Manifest manifest = write_checkpoint(path);
  const std::string other = content_hash("other");
  for (int kind = 0; kind < 4; ++kind) {
    Manifest changed = manifest;
    if (kind == 0) changed.weights.back().hash = other;
    if (kind == 1) changed.optimizer.back().hash = other;
    if (kind == 2) changed.extra_tensors.back().hash = other;
    if (kind == 3) changed.files.back().hash = other;
    write_file(path + "/" + kManifestFile, to_json(changed));
    const Checkpoint opened(path);
    for (const int threads : {1, 4}) {
      const Error error = error_of([&] { opened.verify(threads); });
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      EXPECT_TRUE(error.fact().ends_with("the manifest records " + other)) << error.what();
    }
  }
}

TEST(CheckpointTest, APathThatIsNoneNamesTheNearest) {
  const TempDirectory directory;
  const std::string folder = directory / "ck";
  write_checkpoint(folder + "/step-00000012");
  write_checkpoint(folder + "/step-00000120", 120);
  fs::create_directory(folder + "/step-00000121");
  const auto refused = [](const std::string& path) {
    const Error error = error_of([&] { const Checkpoint opened(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    return error;
  };
  EXPECT_EQ(refused(folder + "/step-0000012").remedy(),
            "did you mean '" + folder + "/step-00000012'?");
  EXPECT_EQ(refused(folder + "/latest").remedy(), "did you mean '" + folder + "/step-00000120'?");
  EXPECT_EQ(refused(folder).remedy(), "did you mean '" + folder + "/step-00000120'?");
  EXPECT_EQ(refused(folder + "/step-00000121").fact(),
            "there is no manifest.json, so it was not committed");
  EXPECT_EQ(refused(folder + "/none/step-00000001").remedy(), "check the path");
  EXPECT_EQ(refused(folder + "/step-00000012/config.json").fact(), "not a directory");
  EXPECT_EQ(refused("").fact(), "there is no such checkpoint");
}

TEST(ListCheckpointsTest, SaysOfEveryFolderWhetherItCanBeGoneOnFrom) {
  const TempDirectory directory;
  const auto at = [&](const std::string& name) { return directory / ("step-" + name); };
  for (const int step : {120, 3, 7, 8, 9})
    write_checkpoint(
        directory / ("step-" + std::string(step > 99 ? "00000" : "0000000") + std::to_string(step)),
        step);
  write_checkpoint(at("1234567890"), 1234567890);
  write_checkpoint(at("00000011"), 12);
  fs::remove(at("00000007/manifest.json"));
  fs::resize_file(at("00000008/manifest.json"), 500);
  std::string bytes = read_file(at("00000009/optimizer/state-00001-of-00001.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() + 1);
  write_file(at("00000009/optimizer/state-00001-of-00001.safetensors"), bytes);
  fs::create_directory_symlink("step-00000003", at("00000004"));
  write_file(at("00000005"), "x");
  for (const char* name :
       {"12", "0000000012", "00000012.kept-1", "x0000012", "99999999999999999999"})
    fs::create_directory(at(name));
  fs::create_directory(directory / ".step-00000013.tmp-1");

  const std::vector<ListedCheckpoint> list = list_checkpoints(directory.str(), 2);
  std::vector<std::int64_t> steps;
  for (const ListedCheckpoint& listed : list) {
    steps.push_back(listed.step);
    EXPECT_EQ(listed.ok, listed.reason.empty()) << listed.path;
    EXPECT_TRUE(listed.committed || !listed.ok);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{3, 4, 5, 7, 8, 9, 11, 120, 1234567890}));
  ASSERT_EQ(list.size(), 9u);
  EXPECT_TRUE(list[0].ok && list[7].ok && list[8].ok);
  EXPECT_EQ(list[7].path, at("00000120"));
  EXPECT_EQ(list[1].reason, "a symbolic link, not a checkpoint");
  EXPECT_EQ(list[2].reason, "not a folder");
  EXPECT_EQ(list[3].reason, "there is no manifest.json, so it was not committed");
  EXPECT_FALSE(list[3].committed);
  EXPECT_NE(list[4].reason.find("does not end with its hash"), std::string::npos);
  EXPECT_FALSE(list[4].committed);
  EXPECT_TRUE(list[5].committed);
  EXPECT_NE(list[5].reason.find("; optimizer/state-00001-of-00001.safetensors, tensor 'exp_avg/"),
            std::string::npos)
      << list[5].reason;
  EXPECT_EQ(list[6].reason, "its name does not match its manifest of step 12");
  EXPECT_TRUE(list[6].committed);
}

TEST(ListCheckpointsTest, OfAFolderThatIsNotThereThereAreNone) {
  const TempDirectory directory;
  EXPECT_TRUE(list_checkpoints(directory / "none").empty());
  EXPECT_TRUE(list_checkpoints(directory.str()).empty());
  write_file(directory / "file", "x");
  EXPECT_EQ(error_of([&] { list_checkpoints(directory / "file"); }).kind(), ErrorKind::kCheckpoint);
}

}  // namespace
}  // namespace sluice
