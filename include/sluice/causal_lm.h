// Builds the native decoder families (Llama, Qwen, GPT-2, ...) as models ready to train.
//
//     sluice::Model model = sluice::causal_lm(sluice::read_model_spec("models/llama"));
//
// Parameters have the names and layouts of the Hugging Face checkpoint.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sluice/data.h"
#include "sluice/lora.h"
#include "sluice/model.h"
#include "sluice/model_spec.h"
#include "sluice/parts/values.h"

namespace sluice {

struct LayerOptions {
  at::ScalarType dtype = at::kFloat;
  c10::Device device = c10::kCPU;  // kMeta: RankStages::to_empty() allocates
  // The adapter that with_adapter() added to the model.
  std::optional<Adapter> adapter = {};
  // Uses sluice's kernels where possible (docs/fused.md). They round differently than LibTorch.
  bool fused = true;
};

// Returns one LayerSpec per entry of model.layers, without allocating parameters. The layers share
// one rotary table per device. Throws Error(kInput) for a model that sluice can plan but not run,
// and Error(kUsage) if only one of `model` and `options` has an adapter.
std::vector<LayerSpec> make_layers(const ModelSpec& model, const LayerOptions& options = {});

// Combines make_layers() and causal_lm_loss(). A batch has int64 "input_ids" and "labels" [batch,
// length], optionally "attention_mask" and "position_ids" (see TokenRows). Layers exchange "hidden"
// [batch, length, hidden_size]. The last layer writes "logits" [batch, length, vocab_size], or the
// sum "loss" if Precision::loss_chunks is on.
Model causal_lm(const ModelSpec& model, const LayerOptions& options = {});

// Cuts the rows of a step (1-based) into microbatches, of which the last may be smaller. Omits an
// attention mask of all ones. The result holds the rows (8 bytes per token). Throws Error(kUsage)
// for a microbatch_size below 1.
StepBatch causal_lm_batch(TokenRows rows, std::int64_t microbatch_size, std::int64_t step);
// Cuts one replica's rows. first_row is the index of their first in the batch of all replicas, a
// multiple of microbatch_size.
StepBatch causal_lm_batch(StepShare share, std::int64_t first_row, std::int64_t microbatch_size,
                          std::int64_t step);

// Sums the next-token cross-entropy of "logits" in float32. Token t predicts label t + 1. The first
// label of a row and kIgnoredLabel are ignored. If all labels are ignored, the loss is 0 with a
// valid autograd graph. Throws Error(kUsage) if shapes disagree, and Error(kInput) for an invalid
// label (CPU only).
LossValue causal_lm_loss(const Values& outputs, const Values& batch);

}  // namespace sluice
