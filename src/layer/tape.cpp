// The tape intercepts operators by a dispatch key above autograd. torch reserves the key
// DeferredInit for such uses and has no kernels for it. The key lies below that of
// interception_key.h.
#include "layer/tape.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty_ops.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "layer/keyed_stream.h"
#include "layer/unfilled.h"

namespace sluice {
namespace {

using torch::jit::Stack;

constexpr c10::DispatchKey kTapeKey = c10::DispatchKey::DeferredInit;
constexpr c10::DispatchKeySet kBelowTape(c10::DispatchKeySet::FULL_AFTER, kTapeKey);

// Unused random numbers are drawn in pieces of this many or more. normal_ draws 16 at a time.
constexpr std::int64_t kPiece = 1 << 16;

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      if (tensor) visit(*tensor);
  }
}

template <typename Replace>
c10::IValue with_tensors(const c10::IValue& value, Replace replace) {
  if (value.isTensor()) return replace(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(replace(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(replace(*tensor)) : std::nullopt);
    return list;
  }
  return value;
}

std::vector<at::Tensor> tensors_in(const Stack& values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values)
    for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

bool has_memory(const at::Tensor& tensor) { return tensor.defined() && !tensor.is_meta(); }

int generator_argument(const c10::FunctionSchema& schema) {
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* optional = schema.arguments()[i].type()->castRaw<c10::OptionalType>();
    const auto& type = optional ? optional->getElementType() : schema.arguments()[i].type();
    if (type->kind() == c10::TypeKind::GeneratorType) return static_cast<int>(i);
  }
  return -1;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

// True for an operator that calls other operators. The tape records these instead.
bool is_composite(const c10::OperatorHandle& op) {
  return !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::Meta);
}

at::Tensor view_of(const c10::Storage& storage, const at::Tensor& like) {
  const c10::InferenceMode normal_tensors(false);
  const at::NoGradGuard no_grad;
  return at::empty({0}, at::TensorOptions(like.scalar_type()).device(storage.device()))
      .set_(storage, like.storage_offset(), like.sizes(), like.strides());
}

}  // namespace

void replace_tensor_data(const at::Tensor& variable, const at::Tensor& memory) {
  const c10::InferenceMode normal_tensors(false);
  variable.unsafeGetTensorImpl()->shallow_copy_from(memory.getIntrusivePtr());
  if (!torch::autograd::impl::get_autograd_meta(variable)) return;
  // Remove the gradient accumulator, which refers to the old device.
  const c10::intrusive_ptr<torch::autograd::Node> none;
  torch::autograd::impl::set_grad_accumulator(variable, c10::weak_intrusive_ptr(none));
}

class Tape::Notes {
 public:
  static thread_local Notes* current;

  Notes() : outer_(std::exchange(current, this)), include_(std::in_place, kTapeKey) {}
  ~Notes() { stop(); }
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;

  void stop() {
    if (!include_) return;
    include_.reset();
    current = outer_;
  }

  void add(const at::Tensor& tensor) {
    remember(tensor);
    place_of(tensor.storage());
  }

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const auto begin = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
    const Stack arguments(begin, stack->end());
    const std::vector<at::Tensor> tensors = tensors_in(arguments);
    const int generator = generator_argument(op.schema());
    const bool draws = generator >= 0 || op.hasTag(at::Tag::nondeterministic_seeded);
    const bool touches = std::any_of(tensors.begin(), tensors.end(),
                                     [&](const at::Tensor& tensor) { return is_noted(tensor); });
    if (!touches && draws && std::any_of(tensors.begin(), tensors.end(), has_memory)) settle();
    if (!touches || (draws && is_composite(op))) {
      op.redispatchBoxed(keys & kBelowTape, stack);
      return;
    }
    stack->erase(begin, stack->end());
    Stack results = arguments;
    const c10::impl::ExcludeDispatchKeyGuard no_tape(kTapeKey);
    if (!note(op, arguments, generator, results)) {
      if (draws) settle();
      read(tensors);
      results = arguments;
      op.callBoxed(results);
    }
    for (c10::IValue& result : results) stack->push_back(std::move(result));
  }

  void finish(const std::function<Gets(const at::Tensor&)>& gets) {
    stop();
    std::vector<at::Tensor> alive = take_alive();
    std::vector<bool> has_numbers(storages_.size());
    std::unordered_set<const c10::StorageImpl*> stay;
    for (const at::Tensor& tensor : alive)
      if (gets(tensor) == Gets::kNothing) stay.insert(key(tensor));
    std::erase_if(alive, [&](const at::Tensor& tensor) { return stay.contains(key(tensor)); });
    for (const at::Tensor& tensor : alive)
      if (gets(tensor) == Gets::kNumbers) has_numbers[family(places_.at(key(tensor)))] = true;
    run([&](std::size_t family) { return has_numbers[family]; }, alive);
    for (const at::Tensor& tensor : alive) give(tensor);
  }

 private:
  // A storage without memory and its replacement. Storages connected by an operator form a family,
  // which gets values as a whole or not at all.
  struct Noted {
    c10::Storage without, with;
    std::size_t bytes = 0;
    std::size_t parent = 0;
  };
  struct Note {
    c10::OperatorHandle op;
    Stack arguments;  // with stand-ins for tensors without memory
    std::vector<at::Tensor>
        results;  // stand-ins of new tensors, in order; undefined if the result is an argument
    std::size_t place = 0;
    int generator_argument = -1;
    at::Generator generator = {};
    bool is_settled = true, has_run = false;
  };

  static const c10::StorageImpl* key(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  }
  bool is_noted(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.is_meta() && tensor.has_storage() &&
           places_.contains(key(tensor));
  }

  std::size_t place_of(const c10::Storage& storage) {
    const auto [found, added] = places_.emplace(storage.unsafeGetStorageImpl(), storages_.size());
    if (added) {
      storage.unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
      storages_.push_back({storage, {}, storage.nbytes(), storages_.size()});
    }
    return found->second;
  }
  std::size_t family(std::size_t place) {
    while (storages_[place].parent != place)
      place = storages_[place].parent = storages_[storages_[place].parent].parent;
    return place;
  }

  void remember(const at::Tensor& tensor) { tensors_.emplace_back(tensor.getIntrusivePtr()); }

  std::vector<at::Tensor> take_alive() {
    std::vector<at::Tensor> alive;
    std::unordered_set<const c10::TensorImpl*> seen;
    for (const auto& weak : tensors_) {
      auto held = weak.lock();
      if (!held) continue;
      const at::Tensor tensor(std::move(held));
      if (is_noted(tensor) && seen.insert(tensor.unsafeGetTensorImpl()).second)
        alive.push_back(tensor);
    }
    return alive;
  }

  static at::Tensor stand_in(const at::Tensor& tensor) { return view_of(tensor.storage(), tensor); }

  bool can_wait(const c10::OperatorHandle& op, const Stack& arguments, int generator) const {
    const auto& schema = op.schema();
    bool makes = false;
    for (const c10::Argument& returned : schema.returns()) {
      const auto kind = returned.type()->kind();
      makes |= kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].isDevice() && !arguments[i].toDevice().is_cpu() &&
          !arguments[i].toDevice().is_meta())
        return false;
      if (!is_written(schema.arguments()[i])) continue;
      makes = true;
      bool writes_memory = false;
      for_each_tensor(arguments[i],
                      [&](const at::Tensor& tensor) { writes_memory |= has_memory(tensor); });
      if (writes_memory) return false;
    }
    if (generator < 0) return makes && !op.hasTag(at::Tag::nondeterministic_seeded);
    // Postpone a draw only if it fills its single tensor. Otherwise other tensors' values may
    // decide how many numbers it draws.
    std::size_t num_tensors = 0, num_written = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      num_tensors += arguments[i].isTensor() ? 1 : 0;
      num_written += arguments[i].isTensor() && is_written(schema.arguments()[i]) ? 1 : 0;
    }
    return num_tensors == 1 && num_written == 1;
  }

  // Records the operator to run later and computes only the sizes and types of its results.
  // `results` holds the arguments on entry and the results on return. `generator` is the index of
  // the argument that is a random generator, or -1. Returns false if the operator must run now.
  bool note(const c10::OperatorHandle& op, const Stack& arguments, int generator, Stack& results) {
    if (!can_wait(op, arguments, generator)) return false;
    Note note = {op, {}, {}};
    std::optional<std::size_t> place;
    for (const c10::IValue& argument : arguments) {
      note.arguments.push_back(with_tensors(argument, [&](const at::Tensor& tensor) {
        // Copy tensors that have memory, because they may change or be freed later.
        if (has_memory(tensor) && !tensor.unsafeGetTensorImpl()->is_wrapped_number())
          return tensor.detach().clone();
        if (!is_noted(tensor)) return tensor;
        place = joined(place, place_of(tensor.storage()));
        return stand_in(tensor);
      }));
    }
    for (c10::IValue& argument : results) argument = without_memory(argument);
    try {
      op.callBoxed(results);
    } catch (const c10::Error&) {
      return false;
    }
    const std::vector<at::Tensor> made = tensors_in(results);
    if (std::any_of(made.begin(), made.end(), has_memory)) return false;
    for (const at::Tensor& tensor : made) {
      if (!tensor.defined()) {
        note.results.emplace_back();
        continue;
      }
      const bool is_new = !is_noted(tensor);
      place = joined(place, place_of(tensor.storage()));
      note.results.push_back(is_new ? stand_in(tensor) : at::Tensor());
      remember(tensor);
    }
    note.place = *place;
    if (generator >= 0) note_draw(note, generator);
    notes_.push_back(std::move(note));
    return true;
  }

  std::size_t joined(std::optional<std::size_t> a, std::size_t b) {
    b = family(b);
    if (!a) return b;
    storages_[b].parent = family(*a);
    return family(*a);
  }

  // Replaces devices and tensors by meta ones, except zero-dimensional tensors with memory.
  c10::IValue without_memory(const c10::IValue& argument) const {
    if (argument.isDevice()) return c10::Device(c10::kMeta);
    return with_tensors(argument, [](const at::Tensor& tensor) {
      if (!has_memory(tensor) || tensor.dim() == 0) return tensor;
      return at::empty_strided(tensor.sizes(), tensor.strides(),
                               at::TensorOptions(tensor.scalar_type()).device(at::kMeta));
    });
  }

  static void note_draw(Note& note, int generator) {
    note.generator_argument = generator;
    const c10::IValue& given = note.arguments[static_cast<std::size_t>(generator)];
    const std::optional<at::Generator> keyed = keyed_generator();
    note.generator = given.isGenerator() ? given.toGenerator()
                     : keyed             ? *keyed
                                         : at::detail::getDefaultCPUGenerator();
    note.is_settled = false;
    // Draw from a shared generator now, because other code may use it.
    if (!keyed || note.generator.unsafeGetGeneratorImpl() != keyed->unsafeGetGeneratorImpl())
      settle(note);
  }

  // Advances the shared generator. Saves a copy of its earlier state to draw from later.
  static void settle(Note& note) {
    const at::Generator shared = note.generator;
    note.generator = shared.clone();
    note.is_settled = true;
    advance_generator(note, shared);
  }
  void settle() {
    const c10::impl::ExcludeDispatchKeyGuard no_tape(kTapeKey);
    for (Note& note : notes_)
      if (!note.is_settled) settle(note);
  }

  static void advance_generator(const Note& note, const at::Generator& generator) {
    const std::string& name = note.op.schema().name();
    at::Tensor whole;
    for (const at::Tensor& tensor : tensors_in(note.arguments)) whole = tensor;
    const bool in_pieces =
        whole.is_contiguous() && (name == "aten::uniform_" || name == "aten::normal_");
    const auto draw = [&](const at::Tensor& target) {
      Stack arguments;
      for (const c10::IValue& argument : note.arguments)
        arguments.push_back(with_tensors(argument, [&](const at::Tensor&) { return target; }));
      arguments[static_cast<std::size_t>(note.generator_argument)] = generator;
      note.op.callBoxed(arguments);
    };
    const at::NoGradGuard no_grad;
    const auto options = at::TensorOptions(whole.scalar_type()).device(at::kCPU);
    if (!in_pieces) {
      draw(at::empty_strided(whole.sizes(), whole.strides(), options));
      return;
    }
    const at::Tensor piece = at::empty({std::min(whole.numel(), 2 * kPiece)}, options);
    for (std::int64_t left = whole.numel(); left > 0;) {
      const std::int64_t size = left < 2 * kPiece ? left : kPiece;
      draw(piece.narrow(0, 0, size));
      left -= size;
    }
  }

  template <typename Visit>
  void for_each_place(const Note& note, Visit visit) const {
    const auto of = [&](const at::Tensor& tensor) {
      if (is_noted(tensor)) visit(places_.at(key(tensor)));
    };
    for (const c10::IValue& argument : note.arguments) for_each_tensor(argument, of);
    for (const at::Tensor& result : note.results) of(result);
  }

  // Runs the recorded operators of the selected families in order. Frees tensors outside `alive`
  // after their last use.
  void run(const std::function<bool(std::size_t family)>& needs,
           const std::vector<at::Tensor>& alive) {
    const auto is_due = [&](const Note& note) {
      return !note.has_run && needs(family(note.place));
    };
    std::unordered_map<std::size_t, const Note*> last_use;
    for (const Note& note : notes_)
      if (is_due(note)) for_each_place(note, [&](std::size_t place) { last_use[place] = &note; });
    for (const at::Tensor& tensor : alive) last_use[places_.at(key(tensor))] = nullptr;
    const auto last_draw = std::find_if(notes_.rbegin(), notes_.rend(), [&](const Note& note) {
      return !note.is_settled && is_due(note);
    });
    auto left = notes_.rend() - last_draw;
    for (Note& note : notes_) {
      --left;
      if (is_due(note)) {
        run(note);
        for_each_place(note, [&](std::size_t place) {
          if (last_use.at(place) == &note) storages_[place].with = {};
        });
      } else if (!note.is_settled && left > 0) {
        settle(note);
      }
    }
  }

  void run(Note& note) {
    const at::NoGradGuard no_grad;
    Stack values;
    for (const c10::IValue& argument : note.arguments)
      values.push_back(with_tensors(argument, [&](const at::Tensor& tensor) {
        return is_noted(tensor) ? with_memory(tensor) : tensor;
      }));
    if (note.generator_argument >= 0)
      values[static_cast<std::size_t>(note.generator_argument)] = note.generator;
    note.op.callBoxed(values);
    const std::vector<at::Tensor> made = tensors_in(values);
    for (std::size_t i = 0; i < made.size(); ++i)
      if (note.results[i].defined()) take(note.results[i], made[i]);
    note.is_settled = note.has_run = true;
  }

  at::Tensor with_memory(const at::Tensor& tensor) {
    Noted& noted = storages_[places_.at(key(tensor))];
    if (!noted.with)
      noted.with = at::empty({static_cast<std::int64_t>(noted.bytes)}, at::kByte).storage();
    return view_of(noted.with, tensor);
  }
  void take(const at::Tensor& stand_in, const at::Tensor& made) {
    Noted& noted = storages_[places_.at(key(stand_in))];
    if (!noted.with && made.strides() == stand_in.strides() &&
        made.storage_offset() == stand_in.storage_offset()) {
      noted.with = made.storage();
    } else {
      with_memory(stand_in).copy_(made);
    }
  }

  void give(const at::Tensor& tensor) {
    TORCH_CHECK(tensor.is_leaf(), "a constructor keeps a tensor that it computed with a graph");
    const bool is_new = !storages_[places_.at(key(tensor))].with;
    const at::Tensor memory = with_memory(tensor);
    if (is_new) set_unfilled(memory);
    replace_tensor_data(tensor, memory);
  }

  void read(const std::vector<at::Tensor>& tensors) {
    std::unordered_set<std::size_t> families;
    for (const at::Tensor& tensor : tensors)
      if (is_noted(tensor)) families.insert(family(places_.at(key(tensor))));
    const std::vector<at::Tensor> alive = take_alive();
    run([&](std::size_t family) { return families.contains(family); }, alive);
    for (const at::Tensor& tensor : alive)
      if (families.contains(family(places_.at(key(tensor))))) give(tensor);
  }

  Notes* outer_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> include_;
  std::vector<Noted> storages_;
  std::unordered_map<const c10::StorageImpl*, std::size_t> places_;
  std::vector<Note> notes_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> tensors_;
};

thread_local Tape::Notes* Tape::Notes::current = nullptr;

Tape::Tape() : notes_(std::make_unique<Notes>()) {}
Tape::~Tape() = default;
bool Tape::is_recording() { return Notes::current != nullptr; }
void Tape::finish(const std::function<Gets(const at::Tensor&)>& gets) { notes_->finish(gets); }

class TapeKernels {
 public:
  static void any(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    if (Tape::Notes::current) {
      Tape::Notes::current->call(op, keys, stack);
    } else {  // an autograd thread, with its caller's dispatch keys but no tape
      op.redispatchBoxed(keys & kBelowTape, stack);
    }
  }

  // All of torch's factory functions call this operator in the end.
  static at::Tensor empty(c10::DispatchKeySet keys, c10::SymIntArrayRef sizes,
                          std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                          std::optional<at::Device> device, std::optional<bool> pin_memory,
                          std::optional<at::MemoryFormat> format) {
    const bool without = Tape::Notes::current && (!device || device->is_meta()) &&
                         layout.value_or(at::kStrided) == at::kStrided &&
                         !pin_memory.value_or(false);
    if (without) device = at::kMeta;
    at::Tensor tensor = at::_ops::empty_memory_format::redispatch(
        keys & kBelowTape, sizes, dtype, layout, device, pin_memory, format);
    if (without) Tape::Notes::current->add(tensor);
    return tensor;
  }
};

}  // namespace sluice

TORCH_LIBRARY_IMPL(_, DeferredInit, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&sluice::TapeKernels::any>());
}
TORCH_LIBRARY_IMPL(aten, DeferredInit, m) {
  m.impl("empty.memory_format", &sluice::TapeKernels::empty);
}
