// The shared inputs of a model's blocks: the tokens that a token sees, and the angles of positions.
//
// Owns: masks and rotary tables, made once for a microbatch and a thread.
// Does not own: attention itself (modules.h), frequencies (rotary.h).
//
// Invariants:
//  1. Masks are those of transformers with attention "sdpa": a token sees those before it and
//     itself, inside its window, with mask 1, and without a mask those of its own document, which
//     starts where a position is not one more than that before it.
//  2. What depends on a batch is held for as long as the tensors of the batch it was made from, and
//     beside its users only for the last microbatch of a thread.
// Thread-safety: may be shared by threads.
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

// Positions of a batch, int64 [B, L] or undefined.
struct BatchPositions {
  at::Tensor attention_mask, position_ids;
};

class AttentionInputs {
 public:
  explicit AttentionInputs(std::vector<std::shared_ptr<RotaryTable>> rotary = {})
      : rotary_(std::move(rotary)) {}

  // The score of a token that is not seen: minus infinity, so that who sees nothing gets zeros, or
  // as the least number, so that he gets the mean of all.
  enum class Unseen { kInfinity, kLeast };
  struct Kind {
    std::int64_t window = 0;  // 0: none
    Unseen unseen = Unseen::kInfinity;
    bool always = false;  // also where plain causal attention says it all
  };

  // The mask that is added to the scores of queries [B, H, L, E] of this dtype, [B or 1, 1, L, L].
  // Undefined where plain causal attention says it all. Throws Error(kUsage) for other sizes than
  // [B, L].
  at::Tensor mask(const BatchPositions& batch, const at::Tensor& q_BHLE, const Kind& kind);

  // The same as the first key that each query of [B, L] tokens sees, where a token sees all from
  // there to itself: int32 [L], or of documents [B, L]; undefined: all are 0. None: the microbatch
  // has a mask, which says more than that.
  std::optional<at::Tensor> first_keys(const BatchPositions& batch, std::int64_t rows,
                                       std::int64_t length, std::int64_t window);

  // Cosines and sines of the rotary table `index`: [L, R], of position_ids [B, 1, L, R].
  std::pair<at::Tensor, at::Tensor> rotary(std::size_t index, const at::Tensor& position_ids,
                                           std::int64_t length, c10::Device device);

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  enum class What { kIsPlain, kMask, kCosine, kSine };
  struct Tag {
    What what;
    std::int64_t number = 0;  // number of a window or a table
    at::ScalarType dtype = at::kFloat;
    c10::Device device = c10::kCPU;
    Unseen unseen = Unseen::kInfinity;
    friend bool operator==(const Tag&, const Tag&) = default;
  };
  // Identity of the tensor of a batch, also behind another view of it.
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
    at::Tensor held;  // tensor of the thread's last microbatch
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
