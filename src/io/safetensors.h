// Tensors in safetensors files, one at a time.
//
// Owns: the open file, copying single tensors out of it and into it, atomic publishing.
// Does not own: the header's rules (safetensors_header.h), shards (hf_directory.h).
//
// Invariants:
//  1. Reading a tensor reads that tensor's bytes and nothing else; a file is never read whole.
//  2. Bytes come through pread, not through a mapping: a file that is truncated meanwhile is an
//     Error, not a SIGBUS, and the destination is torch's own aligned memory (matrix kernels give
//     other bits on other alignments).
//  3. A file under its final name is complete and on disk: it is written under a temporary name,
//     synced, renamed, and its directory synced. After any error nothing is left. (kInPlace: by
//     the directory that it is written into, which is published as a whole.)
// Thread-safety: a reader may be shared; a writer belongs to one thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/safetensors_header.h"
#include "sluice/layer.h"

namespace sluice {

enum class Links;

class SafetensorsReader {
 public:
  // Reads and checks the header. Throws Error(kInput): missing, not a regular file, malformed.
  explicit SafetensorsReader(std::string path);
  // The same; a symbolic link can be refused.
  SafetensorsReader(std::string path, Links links);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) noexcept;

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const SafetensorsHeader& header() const { return header_; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  // The start of the data, from which offsets of entries count.
  std::uint64_t data_start() const;
  // The bytes before the data as they are in the file.
  std::string header_bytes() const;
  std::vector<std::string> names() const;

  // nullptr when the file has no such tensor.
  const SafetensorsEntry* find(std::string_view name) const;
  // Throws Error(kInput) with the nearest name; for a dtype that torch cannot represent.
  TensorMeta meta(std::string_view name) const;

  // Fills `destination` (same shape; any device and strides) without autograd. float64, float32,
  // float16 and bfloat16 convert into each other; other dtypes must agree.
  // Throws Error(kInput): no such tensor, other shape, other dtype, file truncated meanwhile, a
  // number that is finite in the file and too large for float16.
  void read_into(std::string_view name, at::Tensor& destination) const;
  // Fills it with this slice of the tensor, reading no other bytes; destination has its shape.
  // Throws Error(kInternal), too: a slice that is not one of the tensor.
  void read_into(std::string_view name, const Slice& slice, at::Tensor& destination) const;
  // The tensor as it is stored, in new memory on the CPU.
  at::Tensor read(std::string_view name) const;

 private:
  struct Impl;
  const SafetensorsEntry& entry(std::string_view name) const;
  std::string where(std::string_view name) const;

  std::string path_;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;  // indices into entries, sorted by name
  std::unique_ptr<Impl> impl_;
};

class SafetensorsWriter {
 public:
  using Plan = std::vector<std::pair<std::string, TensorMeta>>;

  enum class Placement : std::uint8_t {
    kAtomic,   // under a temporary name beside `path`; finish() renames
    kInPlace,  // at once as `path`, which must not exist; finish() only syncs
  };

  // Fixes the layout and writes the header.
  // Throws Error(kCheckpoint) when the file cannot be created or written; Error(kInternal) for
  // duplicate names or a dtype that the format does not have.
  SafetensorsWriter(std::string path, const Plan& tensors, Placement placement = Placement::kAtomic,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  // Without finish(): removes the file.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Each tensor of the plan once, in any order; any device; floating dtypes are converted to the
  // plan's. Copies at most one buffer of the tensor at a time. Throws Error(kCheckpoint) on I/O.
  void write(std::string_view name, const at::Tensor& tensor);
  // The start of a tensor's data, from the start of the file. Precondition: it is in the plan.
  std::uint64_t offset(std::string_view name) const;
  // Publishes. Throws Error(kCheckpoint) on I/O; Error(kInternal) if a tensor is missing.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
