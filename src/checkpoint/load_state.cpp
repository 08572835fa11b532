#include "checkpoint/load_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/nearest_name.h"
#include "base/text.h"
#include "checkpoint/kept_tensors.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor_files.h"
#include "comm/gather_messages.h"
#include "io/safetensors_dtype.h"
#include "kind/adapter_files.h"
#include "layer/slice.h"
#include "sluice/error.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

struct Reading {
  std::string name;
  std::vector<std::int64_t> shape;
  at::Tensor destination;
  const ParameterInfo* parameter = nullptr;
};

std::vector<Reading> readings_of(const std::vector<Stage*>& stages, const Checkpoint& checkpoint) {
  const bool adapter_alone = holds_adapter(checkpoint.manifest());
  std::vector<Reading> readings;
  for (Stage* stage : stages) {
    for (const ParameterInfo& parameter : stage->parameters()) {
      if (adapter_alone && !is_adapter_parameter(parameter.name)) continue;
      const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
      readings.push_back({(adapter_alone ? kAdapterPrefix : "") + name, parameter.global_shape,
                          parameter.tensor, &parameter});
    }
    if (adapter_alone) continue;
    for (auto& [name, tensor] : stage->chunk().buffers())
      readings.push_back({name, tensor.sizes().vec(), tensor});
  }
  return readings;
}

void require_fits(const Checkpoint& checkpoint, const std::vector<Reading>& readings) {
  std::vector<std::string> names;
  for (const SavedTensor& tensor : checkpoint.manifest().weights) names.push_back(tensor.name);
  for (const Reading& reading : readings) {
    const SavedTensor* saved = checkpoint.find(SavedKind::kWeights, reading.name);
    if (!saved) {
      throw Error(ErrorKind::kCheckpoint,
                  {.what = "the checkpoint has no '" + reading.name + "'",
                   .where = checkpoint.path(),
                   .remedy = "it belongs to another model; " + suggest_name(reading.name, names)});
    }
    if (saved->shape == reading.shape) continue;
    throw Error(ErrorKind::kCheckpoint,
                {.what = "'" + reading.name + "' is " + shape_text(saved->shape) + ", not " +
                         shape_text(reading.shape),
                 .where = checkpoint.path() + "/" + saved->file,
                 .remedy = "it belongs to another model"});
  }
}

// Throws if the model on all ranks lacks a tensor of the checkpoint. Collective.
void require_all_used(const Checkpoint& checkpoint, const std::vector<Reading>& readings,
                      const Group& world) {
  std::set<std::string> own;
  for (const Reading& reading : readings) own.insert(reading.name);
  std::set<std::string> used;
  const Packer message = Packer().add(std::vector<std::string>(own.begin(), own.end()));
  for (Unpacker& of_rank : gather_messages(world, message, "tensors of the checkpoint")) {
    for (std::string& name : of_rank.take<std::vector<std::string>>()) used.insert(std::move(name));
    of_rank.finish();
  }
  for (const SavedTensor& tensor : checkpoint.manifest().weights) {
    if (used.contains(tensor.name) || is_kept_file(tensor.file)) continue;
    throw Error(ErrorKind::kCheckpoint, {.what = "the model has no '" + tensor.name + "'",
                                         .where = checkpoint.path() + "/" + tensor.file,
                                         .remedy = "it belongs to another model"});
  }
}

// Reads a slice of a tensor. Checks the hash if the slice is the whole tensor.
void read_checked(const Checkpoint& checkpoint, SavedKind kind, const std::string& name,
                  const Slice& slice, at::Tensor& destination) {
  checkpoint.read_into(kind, name, slice, destination);
  const SavedTensor& saved = *checkpoint.find(kind, name);
  if (!is_whole(slice, saved.shape)) return;
  if (io::safetensors_dtype(destination.scalar_type()) != saved.dtype) {
    checkpoint.read(kind, name);  // checks the hash in the stored dtype
    return;
  }
  if (tensor_hash(destination) == saved.hash) return;
  throw Error(ErrorKind::kCheckpoint,
              {.what = "the content of '" + name + "' is not what was saved",
               .where = checkpoint.path() + "/" + saved.file,
               .remedy = "it was damaged: take an older checkpoint"});
}

// Reads the elements of `part` in this rank's tensor-parallel slices.
void read_held_part(const Checkpoint& checkpoint, SavedKind kind, const StatePart& part) {
  const ParameterInfo& parameter = *part.parameter;
  std::vector<std::int64_t> shape = parameter.global_shape;
  shape[static_cast<std::size_t>(parameter.split->dim)] = 0;
  for (const Slice& box : parameter.boxes()) {
    const auto dim = static_cast<std::size_t>(parameter.split->dim);
    shape[dim] += box[dim].size;
  }
  at::Tensor held = at::empty(shape, part.tensor.options());
  for_each_box(parameter, held, [&](const Slice& box, at::Tensor of_box) {
    read_checked(checkpoint, kind, part.name, box, of_box);
  });
  at::Tensor(part.tensor).view(-1).copy_(held.view(-1).narrow(0, part.begin, part.tensor.numel()));
}

void read_part(const Checkpoint& checkpoint, SavedKind kind, const StatePart& part) {
  const bool is_held = part.parameter && !part.parameter->is_whole() &&
                       part.shape.size() == part.parameter->global_shape.size();
  if (is_held) return read_held_part(checkpoint, kind, part);
  const std::int64_t all = c10::multiply_integers(part.shape);
  if (part.tensor.numel() == all) {
    at::Tensor whole = part.tensor.sizes() == at::IntArrayRef(part.shape)
                           ? part.tensor
                           : part.tensor.view(part.shape);
    read_checked(checkpoint, kind, part.name, {}, whole);
    return;
  }
  const std::int64_t row = all / part.shape[0], end = part.begin + part.tensor.numel();
  const std::int64_t first = part.begin / row, last = (end + row - 1) / row;
  Slice slice{{first, last - first}};
  for (std::size_t d = 1; d < part.shape.size(); ++d) slice.push_back({0, part.shape[d]});
  std::vector<std::int64_t> shape = part.shape;
  shape[0] = last - first;
  at::Tensor rows = at::empty(shape, part.tensor.options());
  read_checked(checkpoint, kind, part.name, slice, rows);
  at::Tensor(part.tensor)
      .view(-1)
      .copy_(rows.view(-1).narrow(0, part.begin - first * row, part.tensor.numel()));
}

void read(const Checkpoint& checkpoint, Reading& reading) {
  const auto read_box = [&](const Slice& box, at::Tensor part) {
    read_checked(checkpoint, SavedKind::kWeights, reading.name, box, part);
  };
  if (reading.parameter)
    return for_each_box(*reading.parameter, reading.destination.detach(), read_box);
  read_box({}, reading.destination);
}

}  // namespace

void load_stages(const Checkpoint& checkpoint, const std::vector<Stage*>& stages,
                 const Group& world, const std::function<void(Stage& stage)>& begin,
                 const std::function<void(Stage& stage)>& end) {
  const std::vector<Reading> readings = readings_of(stages, checkpoint);
  require_fits(checkpoint, readings);
  require_all_used(checkpoint, readings, world);
  for (Stage* stage : stages) {
    if (begin) begin(*stage);
    for (Reading& reading : readings_of({stage}, checkpoint)) read(checkpoint, reading);
    if (end) end(*stage);
  }
}

std::vector<std::string> load_optimizer(const Checkpoint& checkpoint,
                                        const std::vector<StatePart>& state) {
  const at::NoGradGuard no_grad;
  std::set<std::string> without;
  for (const StatePart& part : state) {
    if (checkpoint.find(SavedKind::kOptimizer, part.name)) {
      read_part(checkpoint, SavedKind::kOptimizer, part);
    } else {
      at::Tensor(part.tensor).zero_();
      without.insert(part.name.substr(part.name.find('/') + 1));
    }
  }
  return {without.begin(), without.end()};
}

}  // namespace sluice
