// Random streams of keys, and which of them a thread draws from.
//
// Owns: the generators of a stream. Does not own: keys (key_hash.h), what user code draws through
// (KeyedRandomScope, layer.h). Thread-safety: a stream belongs to one thread.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// The random numbers of one key: a generator per device, made when first drawn from.
class KeyedStream {
 public:
  KeyedStream(std::uint64_t seed, std::int64_t step, std::string_view layer,
              std::int64_t microbatch);

  const at::Generator& generator(c10::Device device);
  // The stream of another name under the same seed, step and microbatch, from its start.
  KeyedStream of(std::uint64_t hashed_name) const;
  // The number of the next draw that is divided into slices, whose stream is of_slice().
  std::int64_t next_divided() { return num_divided_++; }
  KeyedStream of_slice(std::int64_t draw, std::int64_t slice) const;
  // A stream that continues from here by itself.
  KeyedStream copy() const;

 private:
  KeyedStream() = default;

  std::uint64_t step_key_ = 0;  // key of seed and step
  std::int64_t microbatch_ = 0;
  std::uint64_t key_ = 0;
  std::int64_t num_divided_ = 0;
  std::vector<std::pair<c10::Device, at::Generator>> generators_;
};

// Within it all that this thread draws comes from the stream, which goes on afterwards where it is.
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

// Within it all that this thread draws comes from the stream of a name of its own, under the seed,
// step and microbatch of the scope around it; that one's stream stays where it is. Outside of any
// scope: no scope either.
class NamedStreamScope {
 public:
  explicit NamedStreamScope(std::uint64_t hashed_name);
  NamedStreamScope(const NamedStreamScope&) = delete;
  NamedStreamScope& operator=(const NamedStreamScope&) = delete;

 private:
  std::optional<KeyedStream> stream_;
  std::optional<KeyedStreamScope> scope_;
};

// A draw that ranks share: what each slice draws comes from a stream of its own, so that it does
// not depend on who draws for the others. It counts for the innermost scope of this thread, whose
// own stream stays where it is; outside of any scope there are no such streams.
class DividedDraw {
 public:
  DividedDraw();
  // Draws for a slice, counted among those of all ranks.
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

// The generator of the innermost scope of this thread, of numbers on the CPU; nullopt: it is in
// none.
std::optional<at::Generator> keyed_generator();

}  // namespace sluice
