#include "graph/graph_program.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "archive/graph_rewrites.h"
#include "base/as_error.h"
#include "base/format.h"
#include "base/text.h"
#include "graph/bind_arguments.h"
#include "graph/call_checks.h"
#include "graph/direct_calls.h"
#include "graph/graph_call.h"
#include "graph/graph_operators.h"
#include "graph/graph_sizes.h"
#include "graph/number_functions.h"
#include "layer/keyed_stream.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

std::size_t index(int number) { return static_cast<std::size_t>(number); }

// kSkipped nodes do not run. They compare dtypes, which autocast may change.
constexpr std::string_view kStrided = "aten.as_strided.default";
constexpr std::string_view kSkipped = "aten._assert_tensor_metadata.default";

template <typename Visit>
void each_value(const GraphArgument& argument, const Visit& visit) {
  if (argument.kind == GraphArgument::Kind::kValue) visit(argument.value);
  for (const GraphArgument& item : argument.list) each_value(item, visit);
}

class LastUses {
 public:
  LastUses(std::size_t num_slots, const std::vector<int>& kept) : is_read_(num_slots) {
    for (const int slot : kept) is_read_[index(slot)] = true;
  }

  void mark(std::vector<GraphCall>& calls) {
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      for (int& slot : call->results) {
        if (slot >= 0 && !is_read_[index(slot)]) slot = -1;
      }
      call->releases.clear();
      for (auto argument = call->arguments.rbegin(); argument != call->arguments.rend(); ++argument)
        mark(*argument, *call);
    }
  }
  bool is_read(int slot) const { return is_read_[index(slot)]; }

 private:
  void mark(BoundArgument& argument, GraphCall& call) {
    for (const auto& [position, slot] : argument.ints_in_slots) is_read_[index(slot)] = true;
    for (auto element = argument.elements.rbegin(); element != argument.elements.rend(); ++element)
      mark(*element, call);
    if (argument.slot < 0) return;
    argument.is_last_use =
        argument.kind == BoundArgument::Kind::kSlot && !is_read_[index(argument.slot)];
    is_read_[index(argument.slot)] = true;
    // Boxed calls move the value out of its slot, direct calls do not.
    if (argument.is_last_use && call.is_direct) call.releases.push_back(argument.slot);
  }

  std::vector<bool> is_read_;
};

[[noreturn]] void throw_failed(const GraphCall& call, const std::string& why) {
  throw Error(ErrorKind::kInput,
              {.what = formatted("'{}' of the exported graph fails: {}", call.target, why),
               .where = call.place,
               .remedy = "give a batch as the model was exported for, or export it again"});
}

// LibTorch's CPU allocator throws no special type, so compare messages.
bool lacks_memory(std::string_view message) {
  return message.find("allocate memory") != std::string_view::npos ||
         message.find("out of memory") != std::string_view::npos;
}

// Adds the node's place. Out-of-memory exceptions pass unchanged.
[[noreturn]] void rethrow_at(const GraphCall& call) {
  try {
    throw;
  } catch (const Error& error) {
    throw error.where().empty() ? error.at(call.place) : error;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    if (lacks_memory(error.what_without_backtrace())) throw;
    throw_failed(call, first_line(error.what_without_backtrace()));
  } catch (...) {
    throw as_error(std::current_exception(), call.place);
  }
}

at::Tensor as_tensor(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor();
  const at::ScalarType type = value.isBool()     ? at::kBool
                              : value.isDouble() ? at::kDouble
                                                 : at::kLong;
  return at::scalar_tensor(value.toScalar(), type);
}

}  // namespace

class GraphProgramBuilder {
 public:
  GraphProgramBuilder(GraphProgram& program, const GraphModule& module,
                      const std::vector<GraphOperator>& added, const GraphModuleFacts& facts)
      : program_(program), module_(module), added_(added), facts_(facts) {}

  void build(const std::vector<int>& nodes, const std::vector<int>& reads,
             const std::vector<int>& held, const std::vector<int>& writes) {
    program_.sizes_ = std::make_unique<GraphSizes>(module_, facts_.input_of, reads, held);
    find_known(nodes, writes);
    for (const int value : reads) {
      const bool is_known = slots_.contains(value);
      program_.read_slots_.push_back(is_known ? -1 : slot_of(value));
      program_.read_number_.push_back(module_.values[index(value)].kind !=
                                      GraphValue::Kind::kTensor);
    }
    for (const int value : held) program_.held_slots_.push_back(slot_of(value));
    for (const int number : nodes) {
      const GraphNode& node = module_.nodes.at(index(number));
      if (node.target != kSkipped && !is_known(node)) add(number, node);
    }
    for (const int value : writes) {
      const auto slot = slots_.find(value);
      if (slot == slots_.end()) {
        throw Error(ErrorKind::kInternal, {.what = "value '" + module_.values[index(value)].name +
                                                   "' of an exported graph is never computed"});
      }
      program_.write_slots_.push_back(slot->second);
    }
    mark_last_uses();
  }

 private:
  int slot_of(int value) {
    const auto [slot, is_new] = slots_.try_emplace(value, static_cast<int>(program_.num_slots_));
    if (is_new) ++program_.num_slots_;
    return slot->second;
  }

  void find_known(const std::vector<int>& nodes, const std::vector<int>& writes) {
    const auto add_known = [&](int value, bool also_constant) {
      const GraphValue& number = module_.values.at(index(value));
      if (number.kind != GraphValue::Kind::kInt || !number.number || slots_.contains(value)) return;
      if (number.number->is_number() && !also_constant) return;
      if (const auto found = program_.sizes_->find(*number.number))
        program_.known_.push_back({slot_of(value), *found});
    };
    for (const int node : nodes) {
      for (const auto& [name, argument] : module_.nodes.at(index(node)).arguments)
        each_value(argument, [&](int value) { add_known(value, false); });
    }
    for (const int value : writes) add_known(value, true);
  }

  bool is_known(const GraphNode& node) {
    if (node.results.empty()) return false;
    return std::all_of(node.results.begin(), node.results.end(), [&](const auto& result) {
      if (result.is_list || result.values.size() != 1 || result.values.front() < 0) return false;
      const GraphValue& value = module_.values.at(index(result.values.front()));
      if (value.kind != GraphValue::Kind::kInt || !value.number) return false;
      return value.number->is_number() || program_.sizes_->find(*value.number).has_value();
    });
  }

  void add(int number, const GraphNode& node) {
    GraphCall call;
    call.target = node.target;
    call.place = place_of(node, module_);
    call.grad_mode = node.grad_mode;
    const ValueSlots values{module_, slots_};
    const FoundOperator found = find_operator(node.target, added_);
    if (found.added) {
      call.run = run_added;
      call.added = *found.added;
      bind_as_written(node, values, call);
    } else if (found.op) {
      call.op = found.op;
      call.run = direct_call(found.op->operator_name());
      call.check = find_call_check(found.op->operator_name().name);
      call.is_direct = call.run != nullptr;
      if (!call.run)
        call.run = exported_target(node) == node.target ? run_boxed : run_math_attention;
      check_results(node, call);
      bind_arguments(node, values, found.op->schema(), call);
      if (node.target == kStrided) call.exported_strides = strides_of_tensor(node, call.place);
    } else if (const NumberFunction function = number_function(node.target)) {
      call.run = run_number;
      call.number = function;
      bind_as_written(node, values, call);
    } else {
      throw Error(
          ErrorKind::kInput,
          {.what =
               "the exported graph calls '" + node.target +
               "', which is neither an allowed operator of LibTorch nor one that the program gives",
           .where = call.place,
           .remedy = "give it to load_graph in your own program, or export the model without it"});
    }
    if (const auto name = facts_.random_names.find(number); name != facts_.random_names.end()) {
      call.random_name = name->second;
      call.is_random = draws(call);
    }
    for (const GraphNode::Result& result : node.results) {
      call.list_sizes.push_back(result.is_list ? static_cast<int>(result.values.size()) : -1);
      for (const int value : result.values) call.results.push_back(value < 0 ? -1 : slot_of(value));
    }
    add_evaluation(node, call);
    program_.calls_.push_back(std::move(call));
  }

  BoundArgument strides_of_tensor(const GraphNode& node, const std::string& place) {
    BoundArgument strides;
    strides.kind = BoundArgument::Kind::kInts;
    for (const auto& [name, argument] : node.arguments) {
      if (argument.kind != GraphArgument::Kind::kValue) continue;
      const GraphValue& tensor = module_.values.at(index(argument.value));
      for (const SizeExpression& stride : tensor.strides) {
        if (stride.is_number()) {
          strides.ints.push_back(stride.number());
          continue;
        }
        const auto number = program_.sizes_->find(stride);
        if (!number) {
          throw Error(ErrorKind::kInput,
                      {.what = formatted("the stride {} of the tensor that '{}' reads cannot "
                                         "be computed from the sizes of its layer's inputs",
                                         stride.text(), node.target),
                       .where = place,
                       .remedy = "cut the model elsewhere, or export it with fixed sizes"});
        }
        const int slot = static_cast<int>(program_.num_slots_++);
        program_.known_.push_back({slot, *number});
        strides.ints_in_slots.emplace_back(strides.ints.size(), slot);
        strides.ints.push_back(0);
      }
    }
    return strides;
  }

  static void check_results(const GraphNode& node, const GraphCall& call) {
    const std::size_t expected = call.op->schema().returns().size();
    if (node.results.size() == expected || (node.results.empty() && !call.is_direct)) return;
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("'{}' has {} results in the exported graph, but the operator has {}",
                           node.target, node.results.size(), expected),
         .where = call.place,
         .remedy = "export the model again"});
  }

  // A batch counter is a buffer that is incremented in place, except in evaluation.
  bool counts_batches(const GraphNode& node) {
    if (node.target != "aten.add_.Tensor" || node.arguments.empty()) return false;
    const GraphArgument& counter = node.arguments.front().second;
    if (counter.kind != GraphArgument::Kind::kValue) return false;
    const GraphInput* input = facts_.input_of.at(index(counter.value));
    return input && input->kind == GraphInput::Kind::kBuffer && node.results.size() == 1 &&
           node.results.front().values.size() == 1 &&
           !(node.results.front().values.front() >= 0 &&
             facts_.is_read.at(index(node.results.front().values.front())));
  }

  void add_evaluation(const GraphNode& node, const GraphCall& call) {
    if (counts_batches(node)) {
      has_evaluation_ = true;
      return;
    }
    GraphCall turned = call;
    if (switch_to_evaluation(turned)) {
      turned.is_random = false;
      has_evaluation_ = true;
    }
    program_.evaluation_calls_.push_back(std::move(turned));
  }

  void mark_last_uses() {
    if (!has_evaluation_) program_.evaluation_calls_.clear();
    LastUses uses(program_.num_slots_, program_.write_slots_);
    uses.mark(program_.calls_);
    LastUses in_evaluation(program_.num_slots_, program_.write_slots_);
    in_evaluation.mark(program_.evaluation_calls_);
    const auto drop_unread = [&](std::vector<int>& slots) {
      for (int& slot : slots) {
        if (slot >= 0 && !uses.is_read(slot) && !in_evaluation.is_read(slot)) slot = -1;
      }
    };
    drop_unread(program_.read_slots_);
    drop_unread(program_.held_slots_);
  }

  GraphProgram& program_;
  const GraphModule& module_;
  const std::vector<GraphOperator>& added_;
  const GraphModuleFacts& facts_;
  std::unordered_map<int, int> slots_;  // graph value -> slot
  bool has_evaluation_ = false;
};

GraphModuleFacts facts_of(const GraphModule& module, const std::vector<GraphOperator>& operators) {
  GraphModuleFacts facts{.random_names = random_names(module, operators),
                         .is_read = std::vector<bool>(module.values.size()),
                         .input_of = std::vector<const GraphInput*>(module.values.size())};
  const auto mark = [&](int value) { facts.is_read.at(index(value)) = true; };
  for (const GraphNode& node : module.nodes) {
    for (const auto& [name, argument] : node.arguments) each_value(argument, mark);
  }
  for (const GraphOutput& output : module.outputs) each_value(output.value, mark);
  for (const GraphInput& input : module.inputs)
    if (input.value >= 0) facts.input_of.at(index(input.value)) = &input;
  return facts;
}

GraphProgram::GraphProgram(const GraphModule& module, const std::vector<int>& nodes,
                           const std::vector<int>& reads, const std::vector<int>& held,
                           const std::vector<int>& writes,
                           const std::vector<GraphOperator>& operators)
    : GraphProgram(module, nodes, reads, held, writes, operators, facts_of(module, operators)) {}

GraphProgram::GraphProgram(const GraphModule& module, const std::vector<int>& nodes,
                           const std::vector<int>& reads, const std::vector<int>& held,
                           const std::vector<int>& writes,
                           const std::vector<GraphOperator>& operators,
                           const GraphModuleFacts& facts) {
  GraphProgramBuilder(*this, module, operators, facts).build(nodes, reads, held, writes);
}

GraphProgram::~GraphProgram() = default;
GraphProgram::GraphProgram(GraphProgram&&) noexcept = default;
GraphProgram& GraphProgram::operator=(GraphProgram&&) noexcept = default;

std::size_t GraphProgram::num_calls() const { return calls_.size(); }

const std::vector<GraphCall>& GraphProgram::calls(const Mode& mode) const {
  return mode.training || evaluation_calls_.empty() ? calls_ : evaluation_calls_;
}

std::vector<at::Tensor> GraphProgram::run(const std::vector<at::Tensor>& read,
                                          const std::vector<at::Tensor>& held,
                                          const Mode& mode) const {
  if (read.size() != read_slots_.size() || held.size() != held_slots_.size()) {
    throw Error(
        ErrorKind::kInternal,
        {.what = formatted("a program of {} read and {} held tensors is given {} and {}",
                           read_slots_.size(), held_slots_.size(), read.size(), held.size())});
  }
  const GraphSizes::Numbers numbers = sizes_->numbers(read, held);
  GraphFrame frame;
  frame.slots.resize(num_slots_);
  if (!held.empty()) {
    frame.device = held.front().device();
  } else if (!read.empty()) {
    frame.device = read.front().device();
  }
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (read_slots_[i] < 0) continue;
    frame.at(read_slots_[i]) = read_number_[i] ? c10::IValue(read[i].item()) : c10::IValue(read[i]);
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held_slots_[i] >= 0) frame.at(held_slots_[i]) = held[i];
  }
  for (const Known& known : known_) frame.at(known.slot) = (*numbers)[known.number];

  const bool records = at::GradMode::is_enabled();
  const at::AutoGradMode restored(records);
  bool now_records = records;
  const GraphCall* current = nullptr;
  try {
    for (const GraphCall& call : calls(mode)) {
      current = &call;
      const bool wants = records && call.grad_mode != GraphNode::GradMode::kOff;
      if (wants != now_records) at::GradMode::set_enabled(now_records = wants);
      if (call.check) call.check(call, frame);
      if (call.is_random) {
        const NamedStreamScope own_numbers(call.random_name);
        call.run(call, frame);
      } else {
        call.run(call, frame);
      }
      for (const int slot : call.releases) frame.at(slot) = c10::IValue();
    }
  } catch (...) {
    rethrow_at(*current);
  }
  std::vector<at::Tensor> written;
  written.reserve(write_slots_.size());
  for (const int slot : write_slots_) written.push_back(as_tensor(frame.at(slot)));
  return written;
}

}  // namespace sluice::detail
