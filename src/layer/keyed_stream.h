// Random streams that depend only on a key. A thread draws from its innermost scope's stream.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// The random numbers of one key, for one thread. Makes a device's generator at the first draw.
class KeyedStream {
 public:
  KeyedStream(std::uint64_t seed, std::int64_t step, std::string_view layer,
              std::int64_t microbatch);

  const at::Generator& generator(c10::Device device);
  // Returns the stream of another name for the same seed, step and microbatch, at its start.
  KeyedStream of(std::uint64_t hashed_name) const;
  // Returns the number of the next draw that is divided into slices, for of_slice().
  std::int64_t next_divided() { return num_divided_++; }
  KeyedStream of_slice(std::int64_t draw, std::int64_t slice) const;
  KeyedStream copy() const;

 private:
  KeyedStream() = default;

  std::uint64_t step_key_ = 0;
  std::int64_t microbatch_ = 0;
  std::uint64_t key_ = 0;
  std::int64_t num_divided_ = 0;
  std::vector<std::pair<c10::Device, at::Generator>> generators_;
};

// This thread draws from `stream`, which advances, while the scope exists.
class KeyedStreamScope {
 public:
  explicit KeyedStreamScope(KeyedStream& stream);
  ~KeyedStreamScope();
  KeyedStreamScope(const KeyedStreamScope&) = delete;
  KeyedStreamScope& operator=(const KeyedStreamScope&) = delete;

 private:
  KeyedStream* outer_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

// This thread draws from another name's stream while the scope exists, with seed, step and
// microbatch of the enclosing scope. That scope's stream does not advance. No effect outside a
// scope.
class NamedStreamScope {
 public:
  explicit NamedStreamScope(std::uint64_t hashed_name);
  NamedStreamScope(const NamedStreamScope&) = delete;
  NamedStreamScope& operator=(const NamedStreamScope&) = delete;

 private:
  std::optional<KeyedStream> stream_;
  std::optional<KeyedStreamScope> scope_;
};

// A random draw divided among ranks. Each slice has its own stream, so values do not depend on the
// number of ranks. No effect outside a scope.
class DividedDraw {
 public:
  DividedDraw();
  template <typename Draw>
  auto of_slice(std::int64_t slice, const Draw& draw) const {
    std::optional<KeyedStream> stream = stream_of(slice);
    std::optional<KeyedStreamScope> scope;
    if (stream) scope.emplace(*stream);
    return draw();
  }

 private:
  std::optional<KeyedStream> stream_of(std::int64_t slice) const;
  std::int64_t number_ = 0;
};

// Returns the CPU generator of this thread's innermost scope, or nullopt outside a scope.
std::optional<at::Generator> keyed_generator();

}  // namespace sluice
