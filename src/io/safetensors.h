// Reads and writes single tensors of safetensors files. Threads may share a reader.
//
// 1. Reading a tensor reads only its bytes.
// 2. Bytes are read with pread, not mapped, so a file that is truncated during reads causes an
//    Error, not a SIGBUS. Tensors are read into torch's aligned memory, because matrix kernels give
//    other bits on other alignments.
// 3. A file under its final name is complete and on disk. With kInPlace, the file's directory is
//    published as a whole instead.
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
  // Throws Error(kInput).
  explicit SafetensorsReader(std::string path);
  SafetensorsReader(std::string path, Links links);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) noexcept;

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const SafetensorsHeader& header() const { return header_; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  // Position in the file from which offsets of entries count.
  std::uint64_t data_start() const;
  std::string header_bytes() const;
  std::vector<std::string> names() const;

  const SafetensorsEntry* find(std::string_view name) const;
  // Throws Error(kInput) if the tensor is missing or torch does not have its dtype.
  TensorMeta meta(std::string_view name) const;

  // Reads a tensor into `destination`, which has its shape, on any device and with any strides.
  // Converts plain floats. Throws Error(kInput) if the tensor is missing or does not fit, if the
  // file was truncated, or if a finite number is too large for float16.
  void read_into(std::string_view name, at::Tensor& destination) const;
  void read_into(std::string_view name, const Slice& slice, at::Tensor& destination) const;
  at::Tensor read(std::string_view name) const;

 private:
  struct Impl;
  const SafetensorsEntry& entry(std::string_view name) const;
  std::string where(std::string_view name) const;

  std::string path_;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;
  std::unique_ptr<Impl> impl_;
};

class SafetensorsWriter {
 public:
  using Plan = std::vector<std::pair<std::string, TensorMeta>>;

  enum class Placement : std::uint8_t {
    kAtomic,   // write a temporary file, which finish() renames
    kInPlace,  // write to `path`, which must not exist
  };

  // Throws Error(kCheckpoint) for failed writes, and Error(kInternal) for repeated names or
  // unsupported dtypes.
  SafetensorsWriter(std::string path, const Plan& tensors, Placement placement = Placement::kAtomic,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  // Removes the file unless it is finished.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Writes each tensor once, in any order and from any device. Converts floats to the planned
  // dtype. Throws Error(kCheckpoint).
  void write(std::string_view name, const at::Tensor& tensor);
  std::uint64_t offset(std::string_view name) const;
  // Completes the file. Throws Error(kCheckpoint), or Error(kInternal) if a tensor is missing.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
