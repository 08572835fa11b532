// Attention masks and rotary tables of a model's blocks, made once per microbatch and thread.
// Threads may share one object.
//
// Masks equal those of transformers with attention "sdpa". A token sees itself and earlier tokens
// in its window whose attention_mask is 1. Without attention_mask, it sees only its own document,
// which starts where a position is not its predecessor plus one.
//
// Masks expire with the batch's tensors. Only those of each thread's last microbatch are kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "model/rotary.h"

namespace sluice {

// Each is int64 [B, L], or undefined.
struct BatchPositions {
  at::Tensor attention_mask, position_ids;
};

class AttentionInputs {
 public:
  explicit AttentionInputs(std::vector<std::shared_ptr<RotaryTable>> rotary = {})
      : rotary_(std::move(rotary)) {}

  // What the mask adds for hidden keys: -infinity or the dtype's least number. A query that sees
  // nothing gets zeros with kInfinity, the mean of all values with kLeast.
  enum class Unseen { kInfinity, kLeast };
  struct Kind {
    std::int64_t window = 0;  // 0 if unlimited
    Unseen unseen = Unseen::kInfinity;
    bool always = false;  // make a mask even if plain causal attention suffices
  };

  // Returns the mask to add to the scores, [B or 1, 1, L, L], undefined for plain causal attention.
  // Throws Error(kUsage) if the batch's tensors are not [B, L].
  at::Tensor mask(const BatchPositions& batch, const at::Tensor& q_BHLE, const Kind& kind);

  // Returns the first key that each query sees, int32 [L], or [B, L] with documents, undefined if
  // all are 0. Returns std::nullopt if attention_mask hides tokens.
  std::optional<at::Tensor> first_keys(const BatchPositions& batch, std::int64_t rows,
                                       std::int64_t length, std::int64_t window);

  // Cosines and sines of rotary table `index`: [L, R], or [B, 1, L, R] with position_ids.
  std::pair<at::Tensor, at::Tensor> rotary(std::size_t index, const at::Tensor& position_ids,
                                           std::int64_t length, c10::Device device);

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  enum class What { kIsPlain, kMask, kCosine, kSine };
  struct Tag {
    What what;
    std::int64_t number = 0;  // the window, or the table's index
    at::ScalarType dtype = at::kFloat;
    c10::Device device = c10::kCPU;
    Unseen unseen = Unseen::kInfinity;
    friend bool operator==(const Tag&, const Tag&) = default;
  };
  struct Source {
    WeakStorage storage;
    std::int64_t offset = 0;
    std::vector<std::int64_t> sizes;
    explicit Source(const at::Tensor& tensor);
    bool is(const at::Tensor& tensor) const;
    bool expired() const { return storage.expired(); }
  };
  struct Entry {
    std::vector<Source> sources;
    Tag tag;
    std::thread::id thread;
    WeakTensor value;
    at::Tensor held;
  };
  struct Static {
    Tag tag;
    at::Tensor mask_LL;
  };

  at::Tensor of_microbatch(const std::vector<at::Tensor>& sources, const Tag& tag,
                           const std::function<at::Tensor()>& make);
  bool is_plain(const BatchPositions& batch, at::IntArrayRef sizes);
  at::Tensor of_length(std::int64_t length, const Tag& tag);

  std::vector<std::shared_ptr<RotaryTable>> rotary_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<Static> statics_;
};

}  // namespace sluice
