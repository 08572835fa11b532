// Combines operator calls into a layer's operators and memory. Their order determines three costs:
//   - Shared gradients: y = a + b passes the gradient of y unchanged to a and b. Matrix products
//     that are used only in such a sum save one gradient for their weight gradients.
//   - Forward memory: values that later calls read, plus the running operator's memory.
//   - Backward memory: saved values are freed while gradients come and go.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "family/aten_operators.h"
#include "family/aten_targets.h"

namespace sluice::detail {
namespace {

namespace aten_layer {

bool is_parameter(const CallTensor& tensor) { return !tensor.weight.empty() && !tensor.is_made; }

bool has_gradient(const CallTensor& tensor) {
  return tensor.is_floating() && !tensor.is_free && tensor.weight.empty();
}

double bytes_of_gradient(const CallTensor& tensor) {
  CallTensor whole = tensor;
  whole.storage_bytes = -1;
  return whole.bytes();
}

std::set<std::string> entering_with_gradient(const std::vector<OperatorCall>& calls) {
  std::set<std::string> made, entering;
  for (const OperatorCall& call : calls) {
    for (const auto& [argument, tensors] : call.tensors)
      for (const CallTensor& tensor : tensors)
        if (has_gradient(tensor) && !made.contains(tensor.name)) entering.insert(tensor.name);
    for (const CallTensor& result : call.results) made.insert(result.name);
  }
  return entering;
}

// Results of weights and gradient-free values only (position tables, selected experts) count as
// weights, because their gradients can wait. Precondition: the layer's input has a gradient.
void note_weights(OperatorCall& call) {
  std::string weight;
  for (const auto& [argument, tensors] : call.tensors)
    for (const CallTensor& tensor : tensors) {
      if (has_gradient(tensor)) return;
      if (weight.empty() && !tensor.weight.empty()) weight = tensor.weight;
    }
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    CallTensor& result = call.results[i];
    if (result.is_free || !result.is_floating() || !result.weight.empty()) continue;
    const CallTensor* const viewed = viewed_argument(call, i);
    result.weight = weight;
    result.is_made = viewed ? !is_parameter(*viewed) : true;
  }
}

// Whether the operand's gradient is the result's gradient or a view of it.
bool hands_on(const OperatorCall& call, const CallTensor& operand) {
  const std::string_view name = operator_name(call.target);
  if (call.results.empty() || call.results[0].dtype != operand.dtype) return false;
  if (name == "cat" || name == "stack" || name == "sum") return true;
  if (call.results.size() > 1 || call.results[0].numel() != operand.numel()) return false;
  if (name == "clone" || name == "contiguous" || name == "reshape" || name == "flatten")
    return true;
  if (viewed_argument(call) && !is_in_place(call.target)) return true;
  return (name == "add" && call.real("alpha", 1) == 1) ||
         (name == "sub" && call.tensor("self") && call.tensor("self")->name == operand.name);
}

bool is_sum(const OperatorCall& call) {
  const std::string_view name = operator_name(call.target);
  return name == "add" || name == "sub";
}

double unreduced_gradient_bytes(const OperatorCall& call, const CallTensor& operand) {
  const std::string_view name = operator_name(call.target);
  const bool multiplies = name == "mul" || name == "div" || name == "pow" || name == "where" ||
                          name == "addcmul" || name == "maximum" || name == "minimum";
  if (!multiplies || call.results[0].numel() == operand.numel()) return 0;
  return bytes_of_gradient(call.results[0]);
}

// `name` is the tensor's name in the call, `tensor.name` its storage.
struct Value {
  std::string name;
  CallTensor tensor;
};
struct Step {
  const OperatorCall* call = nullptr;
  std::vector<Value> reads, writes;
};

struct Storage {
  double bytes = 0;
  int made = -1, last_read = -1;  // indices of calls; -1: a layer input (made), never (last_read)
  int readers = 0;
  bool leaves = false, counts = true;
  std::string same_gradient;  // storage with the same gradient buffer
};

using Storages = std::map<std::string, Storage>;

Storages storages_of(const std::vector<OperatorCall>& calls, const std::set<std::string>& leaving) {
  Storages all;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const OperatorCall& call = calls[i];
    const bool is_view = viewed_argument(call) && !is_in_place(call.target);
    std::set<std::string> read;
    for (const auto& [argument, tensors] : call.tensors)
      for (const CallTensor& tensor : tensors) {
        Storage& of = all[tensor.name];
        // Gradient-free values are counted once for all layers.
        if (of.made < 0 && is_parameter(tensor)) of.counts = false;
        if (of.made < 0 && tensor.is_free) of.counts = false;
        of.bytes = std::max(of.bytes, tensor.bytes());
        of.last_read = static_cast<int>(i);
        if (!is_view && read.insert(tensor.name).second) {
          ++of.readers;
          const bool same = is_sum(call) && hands_on(call, tensor);
          of.same_gradient = same && !is_in_place(call.target) ? call.results[0].name : "";
        }
      }
    for (const CallTensor& result : call.results) {
      const auto [known, is_new] = all.try_emplace(result.name);
      Storage& of = known->second;
      if (is_new) of.made = static_cast<int>(i);
      of.bytes = std::max(of.bytes, result.bytes());
    }
  }
  for (auto& [name, of] : all) {
    of.leaves = leaving.contains(name);
    if (of.readers != 1 || of.leaves) of.same_gradient.clear();
  }
  return all;
}

std::string gradient_of(const Storages& all, std::string name) {
  for (auto of = all.find(name); of != all.end() && !of->second.same_gradient.empty();
       of = all.find(name))
    name = of->second.same_gradient;
  return name;
}

double most_in_forward(const std::vector<OperatorRow>& rows, const Storages& all) {
  std::vector<double> made(rows.size()), left(rows.size());
  double live = 0, most = 0;
  for (const auto& [name, of] : all) {
    if (of.made < 0) {
      if (of.counts) live += of.bytes;
      continue;
    }
    made[static_cast<std::size_t>(of.made)] += of.bytes;
    if (!of.leaves) left[static_cast<std::size_t>(std::max(of.last_read, of.made))] += of.bytes;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    live += made[i];
    most = std::max(most, live + rows[i].in_forward);
    live -= left[i];
  }
  return most;
}

// Simulates the memory of a backward in reverse order of the calls. Gradients may share a buffer.
class Backward {
 public:
  Backward(const std::vector<Step>& steps, const std::vector<OperatorRow>& rows,
           const Storages& all)
      : steps_(steps), rows_(rows) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (const Operator& of : rows[i].operators)
        for (const OperatorBytes& bytes : of.bytes) {
          const auto storage = all.find(bytes.name);
          if (bytes.field != &LayerCost::after_forward ||
              (storage != all.end() && !storage->second.counts))
            continue;
          kept_[bytes.name] = std::max(kept_[bytes.name], bytes.bytes.constant);
          first_user_.try_emplace(bytes.name, i);
        }
    freed_.resize(rows.size());
    for (const auto& [name, user] : first_user_) freed_[user] += kept_[name];
  }

  // Returns the peak bytes beyond saved values and incoming gradients.
  double most(const std::vector<std::string>& leaving) {
    for (const std::string& name : leaving) gradients_.emplace(name, add_buffer(0));
    for (std::size_t i = steps_.size(); i-- > 0;) run(i);
    return most_;
  }

 private:
  struct Buffer {
    double bytes = 0;
    int holders = 1;
  };
  using BufferOf = std::map<std::string, std::size_t>;

  std::size_t add_buffer(double bytes) {
    buffers_.push_back({bytes, 1});
    live_ += bytes;
    most_ = std::max(most_, live_);
    return buffers_.size() - 1;
  }
  void release(std::size_t buffer) {
    if (--buffers_[buffer].holders == 0) live_ -= buffers_[buffer].bytes;
  }

  void run(std::size_t i) {
    const Step& step = steps_[i];
    std::size_t arrived = buffers_.size();
    for (const Value& result : step.writes) {
      const auto gradient = gradients_.find(result.name);
      if (gradient != gradients_.end()) arrived = gradient->second;
    }
    if (arrived < buffers_.size()) {
      compute(i, arrived);
      for (const Value& result : step.writes) {
        const auto gradient = gradients_.find(result.name);
        if (gradient == gradients_.end()) continue;
        release(gradient->second);
        gradients_.erase(gradient);
      }
    }
    live_ -= freed_[i];
  }

  // All gradients of an operator exist before they are accumulated.
  void compute(std::size_t i, std::size_t arrived) {
    const Step& step = steps_[i];
    std::vector<std::pair<std::string, std::size_t>> computed;
    std::set<std::string> seen;
    double for_a_moment = rows_[i].in_backward;
    for (const Value& operand : step.reads) {
      const CallTensor& tensor = operand.tensor;
      if (is_parameter(tensor) && tensor.is_floating()) for_a_moment += bytes_of_gradient(tensor);
      if (is_parameter(tensor) || tensor.is_free || !tensor.is_floating() ||
          !seen.insert(operand.name).second)
        continue;
      if (hands_on(*step.call, tensor)) {
        ++buffers_[arrived].holders;
        computed.emplace_back(operand.name, arrived);
      } else {
        computed.emplace_back(operand.name, add_buffer(bytes_of_gradient(tensor)));
        for_a_moment += unreduced_gradient_bytes(*step.call, tensor);
      }
    }
    most_ = std::max(most_, live_ + for_a_moment);
    for (const auto& [name, buffer] : computed) {
      const auto [of, is_first] = gradients_.emplace(name, buffer);
      if (is_first) continue;
      // Accumulates in place if no other gradient uses the buffer.
      if (buffers_[of->second].holders == 1) {
        release(buffer);
      } else if (buffers_[buffer].holders == 1) {
        release(std::exchange(of->second, buffer));
      } else {
        const std::size_t sum = add_buffer(buffers_[buffer].bytes);
        release(buffer);
        release(std::exchange(of->second, sum));
      }
    }
  }

  const std::vector<Step>& steps_;
  const std::vector<OperatorRow>& rows_;
  std::map<std::string, double> kept_;
  std::map<std::string, std::size_t>
      // First user of each saved tensor, whose backward frees it.
      first_user_;
  std::vector<double> freed_;
  BufferOf gradients_;
  std::vector<Buffer> buffers_;
  double live_ = 0, most_ = 0;
};

}  // namespace aten_layer
}  // namespace

LayerOperators operators_of(std::vector<OperatorCall>& calls,
                            const std::vector<std::string>& leaving, const Precision& precision) {
  using namespace aten_layer;
  std::map<std::string, CallTensor> settled;
  std::vector<OperatorRow> rows;
  std::vector<Step> steps;
  const std::set<std::string> entering = entering_with_gradient(calls);
  const bool enters = !entering.empty();
  for (OperatorCall& call : calls) {
    Step& step = steps.emplace_back();
    step.call = &call;
    for (auto& [argument, tensors] : call.tensors)
      for (CallTensor& tensor : tensors) {
        const std::string name = tensor.name;
        const auto known = settled.find(name);
        if (known != settled.end()) tensor = known->second;
        step.reads.push_back({name, tensor});
      }
    for (const CallTensor& result : call.results) step.writes.push_back({result.name, {}});
    settle_results(call, precision);
    if (enters) note_weights(call);
    for (std::size_t i = 0; i < step.writes.size(); ++i) {
      step.writes[i].tensor = call.results[i];
      settled[step.writes[i].name] = call.results[i];
    }
    rows.push_back(row_of(call, precision));
  }
  std::set<std::string> leave;
  for (const std::string& name : leaving) {
    const auto known = settled.find(name);
    leave.insert(known == settled.end() ? name : known->second.name);
  }
  const Storages all = storages_of(calls, leave);
  const double in_forward = most_in_forward(rows, all);
  const double on_entry = Backward(steps, rows, all).most(leaving);
  LayerOperators layer;
  for (OperatorRow& row : rows)
    for (Operator& of : row.operators) {
      // An operator that reads only weights has no gradient with respect to the layer's input. When
      // the backward is split, I (the input gradient) therefore leaves no gradients of the operator
      // for W (the weight gradient).
      const bool of_weights = enters && of.reads.empty();
      std::erase_if(of.bytes, [&](const OperatorBytes& bytes) {
        const auto storage = all.find(bytes.name);
        return bytes.field == &LayerCost::in_forward || bytes.field == &LayerCost::on_entry ||
               (storage != all.end() && !storage->second.counts) ||
               (of_weights && bytes.name.starts_with("d "));
      });
      for (OperatorBytes& bytes : of.bytes)
        if (bytes.field == &LayerCost::after_input && bytes.name.starts_with("d "))
          bytes.name = "d " + gradient_of(all, bytes.name.substr(2));
      for (std::string& value : of.reads)
        if (entering.contains(value)) value = "x";
      layer.all.push_back(std::move(of));
    }
  if (layer.all.empty()) layer.all.emplace_back();
  layer.all.back().bytes.push_back({.field = &LayerCost::in_forward,
                                    .needed = Needed::kAlways,
                                    .name = "moment",
                                    .bytes = {.constant = in_forward}});
  // Attach the backward's temporary memory to the last operator with a backward.
  for (std::size_t i = layer.all.size(); i-- > 0;) {
    if (layer.all[i].writes.empty()) continue;
    layer.all[i].bytes.push_back({.field = &LayerCost::on_entry,
                                  .needed = Needed::kBackward,
                                  .name = "moment",
                                  .bytes = {.constant = on_entry}});
    break;
  }
  return layer;
}

}  // namespace sluice::detail
