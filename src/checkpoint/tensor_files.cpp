#include "checkpoint/tensor_files.h"

#include <ATen/ATen.h>

#include "base/content_hash.h"
#include "io/published_directory.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "sluice/parts/saver.h"

namespace sluice {
namespace {

at::Tensor on_cpu(const at::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

std::string hash_of(const at::Tensor& contiguous) {
  return content_hash({static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()});
}

// Counts numbers with all exponent bits set, which are infinite or NaN, on this thread only.
template <typename Bits>
std::int64_t num_with_bits(const at::Tensor& contiguous, Bits exponent) {
  const auto* const numbers = static_cast<const Bits*>(contiguous.const_data_ptr());
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < contiguous.numel(); ++i)
    count += (numbers[i] & exponent) == exponent ? 1 : 0;
  return count;
}

}  // namespace

std::int64_t num_not_finite(const at::Tensor& tensor) {
  const at::Tensor data = on_cpu(tensor);
  switch (data.scalar_type()) {
    case at::kDouble:
      return num_with_bits<std::uint64_t>(data, 0x7ff0'0000'0000'0000);
    case at::kFloat:
      return num_with_bits<std::uint32_t>(data, 0x7f80'0000);
    case at::kBFloat16:
      return num_with_bits<std::uint16_t>(data, 0x7f80);
    case at::kHalf:
      return num_with_bits<std::uint16_t>(data, 0x7c00);
    default:
      return 0;
  }
}

std::string tensor_hash(const at::Tensor& tensor) { return hash_of(on_cpu(tensor)); }

std::vector<NamedTensors> split_into_files(const NamedTensors& tensors, std::uint64_t max_bytes) {
  std::vector<NamedTensors> files;
  std::uint64_t bytes = 0;
  for (const auto& named : tensors) {
    const std::uint64_t more = named.second.nbytes();
    if (files.empty() || bytes + more > max_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(named);
    bytes += more;
  }
  return files;
}

std::vector<SavedTensor> write_tensor_file(const std::string& directory, const std::string& file,
                                           const NamedTensors& tensors) {
  SafetensorsWriter::Plan plan;
  for (const auto& [name, tensor] : tensors) plan.emplace_back(name, meta_of(tensor));
  if (const std::size_t slash = file.find('/'); slash != std::string::npos)
    io::ensure_folder(directory + "/" + file.substr(0, slash));
  SafetensorsWriter writer(directory + "/" + file, plan, SafetensorsWriter::Placement::kInPlace);
  std::vector<SavedTensor> saved;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor data = on_cpu(tensor);
    writer.write(name, data);
    saved.push_back({.name = name,
                     .file = file,
                     .offset = writer.offset(name),
                     .bytes = data.nbytes(),
                     .shape = data.sizes().vec(),
                     .dtype = io::safetensors_dtype(data.scalar_type()),
                     .hash = hash_of(data)});
  }
  writer.finish();
  return saved;
}

}  // namespace sluice
