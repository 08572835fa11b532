// Keyed random streams, and the stream from which a thread draws. A stream belongs to one thread.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// The random numbers of one key. Makes a generator per device at its first draw.
class KeyedStream {
 public:
  KeyedStream(std::uint64_t seed, std::int64_t step, std::string_view layer,
              std::int64_t microbatch);

  const at::Generator& generator(c10::Device device);
  // Returns the stream of another name for the same seed, step and microbatch, at its start.
  KeyedStream of(std::uint64_t hashed_name) const;
  // Returns a new number for a draw that is divided into slices. of_slice() returns a slice's
  // stream.
  std::int64_t next_divided() { return num_divided_++; }
  KeyedStream of_slice(std::int64_t draw, std::int64_t slice) const;
  // Returns an independent stream that continues from here.
  KeyedStream copy() const;

 private:
  KeyedStream() = default;

  std::uint64_t step_key_ = 0;
  std::int64_t microbatch_ = 0;
  std::uint64_t key_ = 0;
  std::int64_t num_divided_ = 0;
  std::vector<std::pair<c10::Device, at::Generator>> generators_;
};

// While it lives, this thread draws from `stream`, whose position advances.
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

// While it lives, this thread draws from another name's stream, with the seed, step and microbatch
// of the enclosing scope, whose stream does not advance. No effect outside a scope.
class NamedStreamScope {
 public:
  explicit NamedStreamScope(std::uint64_t hashed_name);
  NamedStreamScope(const NamedStreamScope&) = delete;
  NamedStreamScope& operator=(const NamedStreamScope&) = delete;

 private:
  std::optional<KeyedStream> stream_;
  std::optional<KeyedStreamScope> scope_;
};

// A draw divided among ranks. Each slice has its own stream, so numbers do not depend on the ranks.
// The scope's stream does not advance. No effect outside a scope.
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

// The CPU generator of this thread's innermost scope; nullopt outside a scope.
std::optional<at::Generator> keyed_generator();

}  // namespace sluice
