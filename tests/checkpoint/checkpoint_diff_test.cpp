#include "checkpoint/checkpoint_diff.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "checkpoint/manifest.h"
#include "sluice/parts/saver.h"
#include "support/checkpoint_folder.h"
#include "support/expect_error.h"

namespace sluice {
namespace {

using test::NamedTensors;
using test::TempDirectory;
using test::write_checkpoint;
using test::write_file;

void write_weights(const std::string& path, const NamedTensors& tensors) {
  Manifest manifest;
  manifest.run = "0123456789abcdef";
  manifest.weights = test::write_tensors(path, "model.safetensors", tensors);
  write_file(path + "/" + kManifestFile, to_json(manifest));
}

TEST(CheckpointDiffTest, EqualOnesAreEqualWhateverRunWroteThem) {
  const TempDirectory directory;
  write_checkpoint(directory / "a");
  Manifest other = write_checkpoint(directory / "b");
  other.run = "fedcba9876543210";
  other.version = "9";
  other.fingerprints.clear();
  write_file(directory / "b" + "/manifest.json", to_json(other));
  EXPECT_TRUE(diff_checkpoints(directory / "a", directory / "b").equal());
}

TEST(CheckpointDiffTest, NamesEveryKindOfDifference) {
  const TempDirectory directory;
  Manifest a = write_checkpoint(directory / "a", 12);
  const Manifest b = write_checkpoint(directory / "b", 13);
  a.extra["more"] = "x";
  a.ties.clear();
  a.seed = 1;
  write_file(directory / "a" + "/manifest.json", to_json(a));
  const CheckpointDiff diff = diff_checkpoints(directory / "a", directory / "b");
  ASSERT_EQ(diff.values.size(), 3u);
  EXPECT_EQ(diff.values[0].name, "step");
  EXPECT_EQ(diff.values[1].b, "104");
  EXPECT_EQ(diff.values[2].name, "seed");
  EXPECT_TRUE(diff.settings.empty());
  ASSERT_EQ(diff.extra.size(), 1u);
  EXPECT_EQ(diff.extra[0].a, "x");
  EXPECT_EQ(diff.extra[0].b, std::nullopt);
  ASSERT_EQ(diff.ties.size(), 1u);
  EXPECT_EQ(diff.ties[0].b, "embed.weight");
  // Every tensor except 'mine' depends on the step.
  ASSERT_EQ(diff.tensors.size(), a.weights.size() + a.optimizer.size());
  EXPECT_EQ(diff.tensors[0].name, "embed.weight");
  EXPECT_EQ(diff.tensors[0].largest_difference, 1.0);
  EXPECT_EQ(diff.tensors[1].name, "norm.count");
  EXPECT_EQ(diff.tensors[1].largest_difference, std::nullopt);
  EXPECT_EQ(diff.tensors[3].kind, SavedKind::kOptimizer);
  EXPECT_EQ(diff.tensors[3].largest_difference, 0.5);
}

TEST(CheckpointDiffTest, LooksAtEveryPieceOfALargeTensor) {
  const TempDirectory directory;
  constexpr std::int64_t kMany = 2'100'000;
  const std::vector<std::vector<std::int64_t>> shapes = {
      {kMany}, {5, 2, kMany / 10}, {1, kMany}, {0, kMany}};
  NamedTensors zeros, last;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const at::Tensor zero = at::zeros(shapes[i], at::kBFloat16), other = zero.clone();
    if (zero.numel() > 0) {
      other.view(-1)[-1] = static_cast<double>(i) + 1;
      other.view(-1)[kMany / 2] = -0.5;
    }
    zeros.emplace_back(std::to_string(i), zero);
    last.emplace_back(std::to_string(i), other);
  }
  write_weights(directory / "a", zeros);
  write_weights(directory / "b", last);
  // Hugging Face directories with the same files have no stored hashes.
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(directory / ("hf_" + std::string(name)));
    std::filesystem::copy_file(directory / (std::string(name) + "/model.safetensors"),
                               directory / ("hf_" + std::string(name) + "/model.safetensors"));
  }
  for (const auto& [a, b] : {std::pair("a", "b"), {"hf_a", "b"}, {"hf_a", "hf_b"}}) {
    const CheckpointDiff diff = diff_checkpoints(directory / a, directory / b);
    ASSERT_EQ(diff.tensors.size(), 3u) << a;
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(diff.tensors[i].largest_difference, static_cast<double>(i) + 1);
  }
  EXPECT_TRUE(diff_checkpoints(directory / "hf_b", directory / "b").equal());
}

TEST(CheckpointDiffTest, WhatIsNotANumberIsComparedToo) {
  const TempDirectory directory;
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  write_weights(directory / "a", {{"both", at::tensor({nan, inf, 1.0})},
                                  {"one", at::tensor({nan, 1.0})},
                                  {"zero", at::tensor({0.0})}});
  write_weights(directory / "b", {{"both", at::tensor({nan, inf, 3.0})},
                                  {"one", at::tensor({0.0, 1.0})},
                                  {"zero", at::tensor({-0.0})}});
  const CheckpointDiff diff = diff_checkpoints(directory / "a", directory / "b");
  ASSERT_EQ(diff.tensors.size(), 3u);
  EXPECT_EQ(diff.tensors[0].largest_difference, 2.0);
  EXPECT_EQ(diff.tensors[1].largest_difference, inf);
  EXPECT_EQ(diff.tensors[2].largest_difference, 0.0);
}

TEST(CheckpointDiffTest, ADirectoryThatCannotBeReadIsAnErrorOfTheCheckpoint) {
  const TempDirectory directory;
  write_checkpoint(directory / "a");
  write_file(directory / "hf" + "/model.safetensors", "torn");
  EXPECT_EQ(test::error_of([&] { diff_checkpoints(directory / "a", directory / "hf"); }).kind(),
            ErrorKind::kCheckpoint);
}

}  // namespace
}  // namespace sluice
