#include "checkpoint/checkpoint_diff.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "checkpoint/checkpoint_error.h"
#include "checkpoint/manifest.h"
#include "io/hf_shards.h"
#include "io/safetensors_dtype.h"
#include "layer/slice.h"
#include "sluice/parts/hf_directory.h"

namespace sluice {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;

using Key = std::pair<SavedKind, std::string>;
struct Stored {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string hash;

  std::string form() const { return dtype + " " + shape_text(shape); }
};

class Side {
 public:
  explicit Side(const std::string& path) {
    if (is_hugging_face(path)) {
      as_checkpoint_error([&] { directory_.emplace(path); });
      for (const std::string& name : directory_->names()) {
        const SafetensorsEntry& entry = *directory_->shards().find(name)->entry;
        tensors_[{SavedKind::kWeights, name}] = {entry.dtype, entry.shape, {}};
      }
      return;
    }
    checkpoint_.emplace(path);
    const Manifest& manifest = checkpoint_->manifest();
    add(SavedKind::kWeights, manifest.weights);
    add(SavedKind::kOptimizer, manifest.optimizer);
    add(SavedKind::kExtra, manifest.extra_tensors);
  }

  const Manifest* manifest() const { return checkpoint_ ? &checkpoint_->manifest() : nullptr; }
  const std::map<Key, Stored>& tensors() const { return tensors_; }
  const Stored* find(const Key& key) const {
    const auto found = tensors_.find(key);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  at::Tensor read(const Key& key, const Slice& slice) const {
    const auto& [kind, name] = key;
    const Stored& stored = tensors_.at(key);
    const std::optional<at::ScalarType> dtype = io::torch_dtype(stored.dtype);
    if (!dtype) {
      throw Error(ErrorKind::kCheckpoint, {.what = "dtype " + stored.dtype + " cannot be compared",
                                           .where = "tensor '" + name + "'",
                                           .remedy = "store the tensor as F32, F16 or BF16"});
    }
    at::Tensor piece = at::empty(shape_of(slice, stored.shape, name), *dtype);
    if (checkpoint_) {
      checkpoint_->read_into(kind, name, slice, piece);
    } else {
      as_checkpoint_error([&, &name = name] {
        directory_->shards().find(name)->file->read_into(name, slice, piece);
      });
    }
    return piece;
  }

 private:
  static bool is_hugging_face(const std::string& path) {
    std::error_code ignored;
    const auto has = [&](const char* name) {
      return std::filesystem::exists(path + "/" + name, ignored);
    };
    return !has(kManifestFile) && (has("model.safetensors") || has("model.safetensors.index.json"));
  }

  void add(SavedKind kind, const std::vector<SavedTensor>& tensors) {
    for (const SavedTensor& tensor : tensors)
      tensors_[{kind, tensor.name}] = {tensor.dtype, tensor.shape, tensor.hash};
  }

  std::optional<Checkpoint> checkpoint_;
  std::optional<HfDirectory> directory_;
  std::map<Key, Stored> tensors_;
};

// Divides a tensor's shape into boxes of at most `most` elements.
void for_each_box(const std::vector<std::int64_t>& shape, std::int64_t most,
                  const std::function<void(const Slice&)>& visit) {
  Slice box;
  for (const std::int64_t size : shape) box.push_back({0, size});
  std::size_t cut = shape.size();
  std::int64_t row = 1;
  while (cut > 0 && (shape[cut - 1] == 0 || row <= most / shape[cut - 1])) row *= shape[--cut];
  if (cut == 0) {
    visit(box);
    return;
  }
  const std::size_t split = cut - 1;
  const std::int64_t rows = std::max<std::int64_t>(most / row, 1);
  std::int64_t num_outer = 1;
  for (std::size_t d = 0; d < split; ++d) num_outer *= shape[d];
  for (std::int64_t outer = 0; outer < num_outer; ++outer) {
    std::int64_t index = outer;
    for (std::size_t d = split; d-- > 0;) {
      box[d] = {index % shape[d], 1};
      index /= shape[d];
    }
    for (std::int64_t done = 0; done < shape[split]; done += rows) {
      box[split] = {done, std::min(rows, shape[split] - done)};
      visit(box);
    }
  }
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  at::Tensor difference = (x - y).abs();
  difference.masked_fill_(difference.isnan(), std::numeric_limits<double>::infinity());
  difference.masked_fill_((x == y).logical_or_(x.isnan().logical_and_(y.isnan())), 0);
  return difference.max().item<double>();
}

std::optional<TensorDifference> compare_content(const Side& a, const Side& b, const Key& key) {
  const Stored& stored = *a.find(key);
  const std::string& other = b.find(key)->hash;
  if (!stored.hash.empty() && stored.hash == other) return std::nullopt;
  TensorDifference difference{key.first, key.second, stored.form(), stored.form()};
  bool differs = false;
  for_each_box(stored.shape, kPieceBytes / 8, [&](const Slice& box) {
    const at::Tensor x = a.read(key, box), y = b.read(key, box);
    if (same_bytes(x, y)) return;
    differs = true;
    if (!at::isFloatingType(x.scalar_type())) return;
    difference.largest_difference =
        std::max(difference.largest_difference.value_or(0), largest_difference(x, y));
  });
  return differs ? std::optional(difference) : std::nullopt;
}

void compare_tensors(const Side& a, const Side& b, CheckpointDiff& diff) {
  const bool weights_only = !a.manifest() || !b.manifest();
  std::set<Key> keys;
  for (const Side* side : {&a, &b}) {
    for (const auto& [key, stored] : side->tensors()) {
      if (!weights_only || key.first == SavedKind::kWeights) keys.insert(key);
    }
  }
  for (const Key& key : keys) {
    const Stored *in_a = a.find(key), *in_b = b.find(key);
    if (in_a && in_b && in_a->form() == in_b->form()) {
      if (const auto difference = compare_content(a, b, key)) diff.tensors.push_back(*difference);
    } else {
      diff.tensors.push_back(
          {key.first, key.second, in_a ? in_a->form() : "", in_b ? in_b->form() : ""});
    }
  }
}

std::vector<ValueDifference> compare(const std::map<std::string, std::string>& a,
                                     const std::map<std::string, std::string>& b) {
  std::set<std::string> names;
  for (const auto* map : {&a, &b}) {
    for (const auto& [name, value] : *map) names.insert(name);
  }
  const auto value_in = [](const std::map<std::string, std::string>& map, const std::string& name) {
    const auto found = map.find(name);
    return found == map.end() ? std::nullopt : std::optional(found->second);
  };
  std::vector<ValueDifference> differences;
  for (const std::string& name : names) {
    if (value_in(a, name) != value_in(b, name))
      differences.push_back({name, value_in(a, name), value_in(b, name)});
  }
  return differences;
}

std::vector<ValueDifference> compare_values(const Manifest& a, const Manifest& b) {
  std::vector<ValueDifference> differences;
  const auto add = [&](const char* name, auto in_a, auto in_b) {
    if (in_a != in_b) differences.push_back({name, std::to_string(in_a), std::to_string(in_b)});
  };
  add("step", a.step, b.step);
  add("sequence", a.sequence, b.sequence);
  add("seed", a.seed, b.seed);
  return differences;
}

}  // namespace

CheckpointDiff diff_checkpoints(const std::string& a, const std::string& b) {
  const Side in_a(a), in_b(b);
  CheckpointDiff diff;
  if (in_a.manifest() && in_b.manifest()) {
    const Manifest &x = *in_a.manifest(), &y = *in_b.manifest();
    diff.values = compare_values(x, y);
    diff.settings = compare(x.settings, y.settings);
    diff.extra = compare(x.extra, y.extra);
    diff.ties = compare(x.ties, y.ties);
  }
  compare_tensors(in_a, in_b, diff);
  return diff;
}

}  // namespace sluice
