// The native decoder families as lists of layers, their batches and their loss.
//
// Parameters have exactly the names and layouts of the Hugging Face checkpoint; results are those
// of transformers up to rounding. Thread-safety: the layers may be shared by threads; pure
// functions otherwise.
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
  at::ScalarType dtype = at::kFloat;  // dtype of parameters and activations
  c10::Device device = c10::kCPU;     // at::kMeta: sizes without memory (RankStages::to_empty)
  // The adapter that was given to with_adapter(), so that the model's description has its
  // parameters.
  std::optional<Adapter> adapter = {};
  // Blocks run on sluice's own kernels where these support them: float32 on the CPU, no dropout in
  // the block, no adapter, no mask in the microbatch, a multiple of 16 channels a head. False:
  // LibTorch's operators. The bits differ.
  bool fused = true;
};

// One LayerSpec per entry of model.layers, under the same name, with the settings in
// model.config_text; allocates nothing. The layers of one call share one rotary table per device.
// Throws Error(kInput) for a family or setting without modules, Error(kUsage) for an adapter that
// only one of the description and the options has.
std::vector<LayerSpec> make_layers(const ModelSpec& model, const LayerOptions& options = {});

// The layers of make_layers() with causal_lm_loss. Values: int64 [batch, length] "input_ids" and
// "labels" in every batch, "hidden" [batch, length, hidden_size] between the layers, "logits"
// [batch, length, vocab_size] after the last. A batch may also have "attention_mask" and
// "position_ids", int64 [batch, length], with the meaning of TokenRows (data.h).
// With Precision::loss_chunks in `model` the head may compute the loss itself, by blocks of the
// vocabulary: then "loss", its sum, comes after the last layer.
Model causal_lm(const ModelSpec& model, const LayerOptions& options = {});

// The batch of a step (1-based) of the native families: consecutive rows in microbatches of
// microbatch_size (the last may be smaller), as the values of causal_lm(), and the number of labels
// in each that causal_lm_loss counts. A mask of ones alone is left out. The rows are held, at 8
// bytes a token; the tensors of a microbatch are made wherever it is used. Throws Error(kUsage) for
// a microbatch_size below 1.
StepBatch causal_lm_batch(TokenRows rows, std::int64_t microbatch_size, std::int64_t step);
// The same for one replica: its rows are [first_row, ..) of the whole batch, which has
// share.total_counted counted labels. Precondition: microbatch_size divides first_row.
StepBatch causal_lm_batch(StepShare share, std::int64_t first_row, std::int64_t microbatch_size,
                          std::int64_t step);

// Shifted cross-entropy in float32: token t predicts label t + 1; labels of kIgnoredLabel and the
// first of each row do not count. outputs: "logits"; batch: "labels". Without a counted token the
// loss is 0 with a valid graph. Throws Error(kUsage) when shapes disagree, Error(kInput) for a
// label outside the vocabulary (found on CPU only).
LossValue causal_lm_loss(const Values& outputs, const Values& batch);

}  // namespace sluice
