#include "model/attention_inputs.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/format.h"
#include "sluice/error.h"
#include "sluice/parts/values.h"

namespace sluice {
namespace {

void require_sizes(const at::Tensor& tensor, const char* name, at::IntArrayRef sizes) {
  if (!tensor.defined() || tensor.sizes() == sizes) return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("{} is {}, but the batch has {} rows of {} tokens", name,
                                 to_text(meta_of(tensor)), sizes[0], sizes[1]),
               .where = "values of the batch",
               .remedy = "give it the sizes of input_ids"});
}

// [B, L]: number of each token's document
at::Tensor documents(const at::Tensor& position_ids_BL) {
  const at::Tensor begins = at::diff(position_ids_BL).ne(1).to(at::kLong).cumsum(1);
  return at::constant_pad_nd(begins, {1, 0});
}

// [L, L]: whether a query sees a key
at::Tensor causal(std::int64_t length, std::int64_t window, at::Device device) {
  const at::Tensor token = at::arange(length, at::TensorOptions(at::kLong).device(device));
  const at::Tensor distance_LL = token.unsqueeze(1) - token;
  at::Tensor seen_LL = distance_LL.ge(0);
  if (window > 0) seen_LL.logical_and_(distance_LL.lt(window));
  return seen_LL;
}

double least(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return -65504.0;
    case at::kBFloat16:
      return -static_cast<double>(std::numeric_limits<at::BFloat16>::max());
    case at::kDouble:
      return std::numeric_limits<double>::lowest();
    default:
      return std::numeric_limits<float>::lowest();
  }
}

at::Tensor additive(const at::Tensor& seen, at::ScalarType dtype, AttentionInputs::Unseen unseen) {
  const double value = unseen == AttentionInputs::Unseen::kLeast
                           ? least(dtype)
                           : -std::numeric_limits<double>::infinity();
  return at::zeros(seen.sizes(), seen.options().dtype(dtype))
      .masked_fill_(seen.logical_not(), value);
}

// The dtype of matrix products, which autocast may change.
at::ScalarType product_type(const at::Tensor& tensor) {
  const at::DeviceType device = tensor.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : tensor.scalar_type();
}

}  // namespace

AttentionInputs::Source::Source(const at::Tensor& tensor)
    : storage(tensor.storage().getWeakStorageImpl()),
      offset(tensor.storage_offset()),
      sizes(tensor.sizes().vec()) {}

bool AttentionInputs::Source::is(const at::Tensor& tensor) const {
  return !storage.expired() &&
         storage._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
         offset == tensor.storage_offset() && tensor.sizes() == at::IntArrayRef(sizes);
}

at::Tensor AttentionInputs::of_microbatch(const std::vector<at::Tensor>& sources, const Tag& tag,
                                          const std::function<at::Tensor()>& make) {
  const auto is_of = [&](const Entry& entry) {
    return entry.sources.size() == sources.size() &&
           std::equal(
               sources.begin(), sources.end(), entry.sources.begin(),
               [](const at::Tensor& tensor, const Source& source) { return source.is(tensor); });
  };
  const std::thread::id self = std::this_thread::get_id();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(entries_, [](const Entry& entry) {
      return std::any_of(entry.sources.begin(), entry.sources.end(),
                         [](const Source& source) { return source.expired(); });
    });
    at::Tensor found;
    for (Entry& entry : entries_) {
      if (!is_of(entry)) {
        if (entry.thread == self) entry.held.reset();
      } else if (entry.tag == tag && entry.thread == self) {
        found = at::Tensor(entry.value.lock());
        entry.held = found;
      }
    }
    if (found.defined()) return found;
    std::erase_if(entries_, [](const Entry& entry) { return entry.value.expired(); });
  }
  const c10::InferenceMode normal_tensors(false);
  const at::NoGradGuard no_grad;
  at::Tensor made = make();
  Entry entry{{}, tag, self, WeakTensor(made.getIntrusivePtr()), made};
  for (const at::Tensor& source : sources) entry.sources.emplace_back(source);
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back(std::move(entry));
  return made;
}

bool AttentionInputs::is_plain(const BatchPositions& batch, at::IntArrayRef sizes) {
  require_sizes(batch.attention_mask, "attention_mask", sizes);
  require_sizes(batch.position_ids, "position_ids", sizes);
  if (!batch.attention_mask.defined() && !batch.position_ids.defined()) return true;
  // Keep the result on the CPU, so that only the first layer waits for the device.
  const auto make = [&] {
    return batch.attention_mask.defined() ? batch.attention_mask.ne(0).all().cpu()
                                          : at::diff(batch.position_ids).eq(1).all().cpu();
  };
  const at::Tensor& source =
      batch.attention_mask.defined() ? batch.attention_mask : batch.position_ids;
  return of_microbatch({source}, {What::kIsPlain}, make).item<bool>();
}

at::Tensor AttentionInputs::of_length(std::int64_t length, const Tag& tag) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = std::find_if(statics_.begin(), statics_.end(),
                            [&](const Static& mask) { return mask.tag == tag; });
  if (found == statics_.end()) found = statics_.insert(found, {tag, {}});
  if (!found->mask_LL.defined() || found->mask_LL.size(0) < length) {
    const c10::InferenceMode normal_tensors(false);
    const at::NoGradGuard no_grad;
    found->mask_LL = additive(causal(length, tag.number, tag.device), tag.dtype, tag.unseen);
  }
  return found->mask_LL.narrow(0, 0, length).narrow(1, 0, length).unsqueeze(0).unsqueeze(0);
}

at::Tensor AttentionInputs::mask(const BatchPositions& batch, const at::Tensor& q_BHLE,
                                 const Kind& kind) {
  const std::int64_t rows = q_BHLE.size(0), length = q_BHLE.size(2);
  const std::int64_t window = kind.window < length ? kind.window : 0;
  const Unseen unseen = kind.unseen;
  const Tag tag{What::kMask, window, product_type(q_BHLE), q_BHLE.device(), unseen};
  if (is_plain(batch, {rows, length})) {
    if (window == 0 && !kind.always) return {};
    return of_length(length, tag);
  }
  const bool pads = batch.attention_mask.defined();
  const at::Tensor& source = pads ? batch.attention_mask : batch.position_ids;
  return of_microbatch({source}, tag, [&] {
    const at::Tensor on_device = source.to(q_BHLE.device());
    const at::Tensor causal_LL = causal(length, window, q_BHLE.device());
    if (pads) {
      const at::Tensor seen = on_device.ne(0).view({rows, 1, 1, length}).logical_and(causal_LL);
      return additive(seen, tag.dtype, unseen);
    }
    const at::Tensor document_BL = documents(on_device);
    const at::Tensor same =
        document_BL.view({rows, 1, length, 1}).eq(document_BL.view({rows, 1, 1, length}));
    return additive(same.logical_and(causal_LL), tag.dtype, unseen);
  });
}

std::optional<at::Tensor> AttentionInputs::first_keys(const BatchPositions& batch,
                                                      std::int64_t rows, std::int64_t length,
                                                      std::int64_t window) {
  const bool is_causal = is_plain(batch, {rows, length});
  if (is_causal && (window == 0 || window >= length)) return at::Tensor();
  if (!is_causal && batch.attention_mask.defined()) return std::nullopt;
  const std::int64_t num_rows = is_causal ? 1 : rows;
  const at::Tensor position_ids =
      is_causal ? at::Tensor() : batch.position_ids.to(at::kCPU, at::kLong).contiguous();
  at::Tensor keys_BL = at::empty({num_rows, length}, at::kInt);
  auto* key = keys_BL.mutable_data_ptr<std::int32_t>();
  const std::int64_t* position = is_causal ? nullptr : position_ids.const_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::int64_t begin = 0;  // of the document
    for (std::int64_t i = 0; i < length; ++i, ++key) {
      if (position) {
        if (i > 0 && position[0] != position[-1] + 1) begin = i;
        ++position;
      }
      *key = static_cast<std::int32_t>(window > 0 ? std::max(begin, i - window + 1) : begin);
    }
  }
  return is_causal ? keys_BL.squeeze(0) : keys_BL;
}

std::pair<at::Tensor, at::Tensor> AttentionInputs::rotary(std::size_t index,
                                                          const at::Tensor& position_ids,
                                                          std::int64_t length, c10::Device device) {
  RotaryTable& table = *rotary_.at(index);
  if (!position_ids.defined()) return table.get(length, device);
  std::pair<at::Tensor, at::Tensor> made;
  const auto part = [&](What what) {
    return of_microbatch({position_ids},
                         {what, static_cast<std::int64_t>(index), at::kFloat, device}, [&] {
                           if (!made.first.defined()) made = table.at(position_ids, device);
                           return (what == What::kCosine ? made.first : made.second).unsqueeze(1);
                         });
  };
  at::Tensor cosine = part(What::kCosine);
  return {std::move(cosine), part(What::kSine)};
}

}  // namespace sluice
