// Keyed random numbers for unchanged user code, by intercepting operators in the dispatcher.
//
// While a scope is open, our kernels for random operators fill in an empty generator argument.
// Accelerator kernels without this argument (fused dropout, flash attention) draw from the device's
// default generator, which gets the state of the scope's stream for the call. A backward needs no
// scope, because the forward saves masks and seeds.
#include "sluice/layer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/key_hash.h"
#include "layer/default_generator_swap.h"
#include "layer/interception_key.h"
#include "layer/keyed_stream.h"

namespace sluice {
namespace {

// Fills the Mersenne twister's whole state. Its own seeding uses only 32 bits.
at::Generator make_cpu_generator(std::uint64_t key) {
  at::Generator generator = at::detail::createCPUGenerator(key);
  at::mt19937_data_pod data = at::mt19937(key).data();
  for (std::uint32_t& word : data.state_) word = static_cast<std::uint32_t>(next_bits(key) >> 32);
  at::mt19937 engine;
  engine.set_data(data);
  at::check_generator<at::CPUGeneratorImpl>(generator)->set_engine(engine);
  return generator;
}

at::Generator make_device_generator(std::uint64_t key, c10::Device device) {
  at::Generator shared = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(shared.mutex());
  at::Generator generator = shared.clone();
  generator.set_current_seed(key);
  return generator;
}

thread_local KeyedStream* current_stream = nullptr;

bool is_optional_generator(const c10::Argument& argument) {
  const auto* optional = argument.type()->castRaw<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

c10::Device device_of_call(torch::jit::Stack::const_iterator begin,
                           torch::jit::Stack::const_iterator end) {
  for (auto value = begin; value != end; ++value) {
    if (value->isDevice()) return value->toDevice();
  }
  for (auto value = begin; value != end; ++value) {
    if (value->isTensor() && value->toTensor().defined()) return value->toTensor().device();
  }
  return c10::kCPU;
}

c10::Device with_index(c10::Device device) {
  if (device.is_cpu()) return c10::kCPU;
  if (device.has_index() || device.is_meta()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

void fill_in_generator(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack) {
  if (current_stream) {
    const auto& arguments = op.schema().arguments();
    const auto begin = stack->end() - static_cast<std::ptrdiff_t>(arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue& value = *(begin + static_cast<std::ptrdiff_t>(i));
      if (!value.isNone() || !is_optional_generator(arguments[i])) continue;
      const c10::Device device = with_index(device_of_call(begin, stack->end()));
      if (!device.is_meta()) value = current_stream->generator(device);
    }
  }
  op.redispatchBoxed(keys & kBelowInterception, stack);
}

// True for attention without dropout.
bool draws_nothing(const c10::OperatorHandle& op, torch::jit::Stack::const_iterator values) {
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (argument.name() == "dropout_p" && values->isDouble() && values->toDouble() == 0.0)
      return true;
    ++values;
  }
  return false;
}

void lend_default_generator(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                            torch::jit::Stack* stack) {
  const auto values = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const c10::Device device = with_index(device_of_call(values, stack->end()));
  if (!current_stream || device.is_cpu() || device.is_meta() || draws_nothing(op, values)) {
    op.redispatchBoxed(keys & kBelowInterception, stack);
    return;
  }
  // Ranks that are threads may share the device's default generator.
  static std::mutex one_at_a_time;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  const c10::impl::ExcludeDispatchKeyGuard inner_calls_too(kInterceptionKey);
  const DefaultGeneratorSwap swap(current_stream->generator(device),
                                  at::globalContext().defaultGenerator(device));
  op.redispatchBoxed(keys & kBelowInterception, stack);
}

// True for a random operator without generator argument that the accelerator itself implements.
// Composite operators call others, which are intercepted. CUDA kernels may be loaded later, so we
// do not look for them.
bool uses_default_generator(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
}

void intercept_operators() {
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", kInterceptionKey, __FILE__, __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.getNamespace() != "aten") continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) continue;
    const auto& arguments = op->schema().arguments();
    const std::string full_name = c10::toString(name);
    if (std::any_of(arguments.begin(), arguments.end(), is_optional_generator)) {
      library->impl(full_name.c_str(),
                    torch::CppFunction::makeFromBoxedFunction<&fill_in_generator>());
    } else if (uses_default_generator(*op)) {
      library->impl(full_name.c_str(),
                    torch::CppFunction::makeFromBoxedFunction<&lend_default_generator>());
    }
  }
}

std::uint64_t key_of(std::uint64_t step_key, std::uint64_t hashed_name, std::int64_t microbatch) {
  return absorb(absorb(step_key, hashed_name), static_cast<std::uint64_t>(microbatch));
}

}  // namespace

KeyedStream::KeyedStream(std::uint64_t seed, std::int64_t step, std::string_view layer,
                         std::int64_t microbatch)
    : step_key_(absorb(absorb(0, seed), static_cast<std::uint64_t>(step))),
      microbatch_(microbatch),
      key_(key_of(step_key_, hash_name(layer), microbatch)) {}

KeyedStream KeyedStream::of(std::uint64_t hashed_name) const {
  KeyedStream other;
  other.step_key_ = step_key_;
  other.microbatch_ = microbatch_;
  other.key_ = key_of(step_key_, hashed_name, microbatch_);
  return other;
}

const at::Generator& KeyedStream::generator(c10::Device device) {
  for (const auto& [owner, generator] : generators_) {
    if (owner == device) return generator;
  }
  generators_.emplace_back(
      device, device.is_cpu() ? make_cpu_generator(key_) : make_device_generator(key_, device));
  return generators_.back().second;
}

KeyedStream KeyedStream::of_slice(std::int64_t draw, std::int64_t slice) const {
  KeyedStream other;
  other.step_key_ = step_key_;
  other.microbatch_ = microbatch_;
  other.key_ =
      absorb(absorb(key_, static_cast<std::uint64_t>(draw)), static_cast<std::uint64_t>(slice));
  return other;
}

KeyedStream KeyedStream::copy() const {
  KeyedStream copy = *this;
  for (auto& [device, generator] : copy.generators_) generator = generator.clone();
  return copy;
}

KeyedStreamScope::KeyedStreamScope(KeyedStream& stream)
    : outer_(std::exchange(current_stream, &stream)), include_(kInterceptionKey) {
  static std::once_flag intercepted;
  std::call_once(intercepted, intercept_operators);
}
KeyedStreamScope::~KeyedStreamScope() { current_stream = outer_; }

NamedStreamScope::NamedStreamScope(std::uint64_t hashed_name) {
  if (!current_stream) return;
  stream_ = current_stream->of(hashed_name);
  scope_.emplace(*stream_);
}

DividedDraw::DividedDraw() {
  if (current_stream) number_ = current_stream->next_divided();
}

std::optional<KeyedStream> DividedDraw::stream_of(std::int64_t slice) const {
  if (!current_stream) return std::nullopt;
  return current_stream->of_slice(number_, slice);
}

struct KeyedRandomScope::Impl {
  Impl(std::uint64_t seed, std::int64_t step, std::string_view layer, std::int64_t microbatch)
      : stream(seed, step, layer, microbatch), scope(stream) {}
  KeyedStream stream;
  KeyedStreamScope scope;
};

KeyedRandomScope::KeyedRandomScope(std::uint64_t seed, std::int64_t step, std::string_view layer,
                                   std::int64_t microbatch)
    : impl_(std::make_unique<Impl>(seed, step, layer, microbatch)) {}
KeyedRandomScope::~KeyedRandomScope() = default;

std::optional<at::Generator> keyed_generator() {
  if (!current_stream) return std::nullopt;
  return current_stream->generator(c10::kCPU);
}

}  // namespace sluice

// Operators without our kernels skip the key. Registered at load time, because this touches every
// operator.
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
