#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "checkpoint/manifest.h"
#include "io/safetensors.h"
#include "sluice/checkpoint.h"
#include "sluice/parts/saver.h"
#include "support/temp_directory.h"

namespace sluice::test {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Returns the manifest entries in the order of `tensors`.
inline std::vector<SavedTensor> write_tensors(const std::string& folder, const std::string& file,
                                              const NamedTensors& tensors) {
  std::filesystem::create_directories(std::filesystem::path(folder + "/" + file).parent_path());
  SafetensorsWriter::Plan plan;
  for (const auto& [name, tensor] : tensors) plan.emplace_back(name, meta_of(tensor));
  SafetensorsWriter writer(folder + "/" + file, plan);
  for (const auto& [name, tensor] : tensors) writer.write(name, tensor);
  writer.finish();
  const SafetensorsReader reader(folder + "/" + file);
  const std::string bytes = read_file(folder + "/" + file);
  std::vector<SavedTensor> saved;
  for (const auto& [name, tensor] : tensors) {
    const SafetensorsEntry& entry = *reader.find(name);
    const std::uint64_t offset = reader.data_start() + entry.begin, size = entry.end - entry.begin;
    saved.push_back({name, file, offset, size, entry.shape, entry.dtype,
                     content_hash(std::string_view(bytes).substr(offset, size))});
  }
  return saved;
}

inline SavedFile write_saved_file(const std::string& folder, const std::string& file,
                                  const std::string& text) {
  write_file(folder + "/" + file, text);
  return {file, text.size(), content_hash(text)};
}

// A small checkpoint with every kind of file. Its content depends only on `step`.
inline Manifest write_checkpoint(const std::string& folder, std::int64_t step = 12) {
  const auto number = static_cast<double>(step);
  const at::Tensor a = at::arange(12, at::kFloat).reshape({3, 4}) + number;
  const at::Tensor b = (at::arange(6, at::kFloat) - number).to(at::kBFloat16).reshape({2, 3});
  Manifest manifest;
  manifest.version = "0.1.0";
  manifest.run = "0123456789abcdef";
  manifest.step = step;
  manifest.sequence = step * 8;
  manifest.seed = 18446744073709551615u;
  manifest.fingerprints = {{"configuration", {10, content_hash("configuration")}},
                           {"data", {20, content_hash("data")}},
                           {"model", {30, content_hash("model")}}};
  manifest.settings = {{"optimizer.lr", "0.001"}, {"optimizer.name", "AdamW"}};
  manifest.extra = {{"note", "caf\u00e9 \"quoted\"\n"}};
  manifest.ties = {{"lm_head.weight", "embed.weight"}};
  manifest.weights =
      write_tensors(folder, "model-00001-of-00002.safetensors", {{"embed.weight", a}});
  for (const SavedTensor& saved :
       write_tensors(folder, "model-00002-of-00002.safetensors",
                     {{"norm.weight", b}, {"norm.count", at::scalar_tensor(step, at::kLong)}}))
    manifest.weights.push_back(saved);
  manifest.optimizer =
      write_tensors(folder, "optimizer/state-00001-of-00001.safetensors",
                    {{"exp_avg/embed.weight", a * 0.5}, {"exp_avg/norm.weight", b.to(at::kFloat)}});
  manifest.extra_tensors =
      write_tensors(folder, "extra/extra.safetensors", {{"mine", at::arange(5, at::kInt)}});
  manifest.files = {write_saved_file(folder, "config.json", "{\"model_type\": \"none\"}\n"),
                    write_saved_file(folder, "model.safetensors.index.json",
                                     "{\"weight_map\": {\"embed.weight\": "
                                     "\"model-00001-of-00002.safetensors\", \"norm.weight\": "
                                     "\"model-00002-of-00002.safetensors\", \"norm.count\": "
                                     "\"model-00002-of-00002.safetensors\"}}\n"),
                    write_saved_file(folder, "tokenizer.json", "{}\n")};
  write_file(folder + "/" + kManifestFile, to_json(manifest));
  return manifest;
}

}  // namespace sluice::test
