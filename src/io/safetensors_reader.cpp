#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/file.h"
#include "base/nearest_name.h"
#include "base/safetensors_header_json.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "layer/slice.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr std::uint64_t kStagingBytes = std::uint64_t{4} << 20;

void require_fits_float16(const at::Tensor& values, const std::string& where) {
  if (values.scalar_type() == at::kHalf) return;
  const at::Tensor lost = at::isinf(values.to(at::kHalf)).logical_and_(at::isfinite(values));
  if (!lost.any().item<bool>()) return;
  const double first = values.masked_select(lost)[0].item<double>();
  throw Error(ErrorKind::kInput,
              {.what = "float16 cannot hold " + shortest(first) + ": it ends at 65504",
               .where = where,
               .remedy = "load it as bfloat16 or float32 (`dtype`)"});
}

}  // namespace

struct SafetensorsReader::Impl {
  File file;
  std::uint64_t data_start = 0;
};

SafetensorsReader::SafetensorsReader(std::string path)
    : SafetensorsReader(std::move(path), Links::kFollow) {}

SafetensorsReader::SafetensorsReader(std::string path, Links links) : path_(std::move(path)) {
  impl_ = std::make_unique<Impl>(Impl{File::open(path_, ErrorKind::kInput, links)});
  io::ReadHeader read = io::read_header(impl_->file);
  impl_->data_start = read.data_start;
  header_ = std::move(read.header);
  by_name_.resize(header_.entries.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return header_.entries[a].name < header_.entries[b].name;
  });
}

SafetensorsReader::~SafetensorsReader() = default;
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;
SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&&) noexcept = default;

std::uint64_t SafetensorsReader::data_start() const { return impl_->data_start; }

std::string SafetensorsReader::header_bytes() const {
  std::string bytes(impl_->data_start, '\0');
  impl_->file.read(bytes.data(), bytes.size(), 0);
  return bytes;
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> names;
  names.reserve(header_.entries.size());
  for (const SafetensorsEntry& entry : header_.entries) names.push_back(entry.name);
  return names;
}

const SafetensorsEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [this](std::uint32_t i, std::string_view wanted) {
                                        return header_.entries[i].name < wanted;
                                      });
  if (found == by_name_.end() || header_.entries[*found].name != name) return nullptr;
  return &header_.entries[*found];
}

std::string SafetensorsReader::where(std::string_view name) const {
  return path_ + ", tensor '" + std::string(name) + "'";
}

const SafetensorsEntry& SafetensorsReader::entry(std::string_view name) const {
  if (const SafetensorsEntry* found = find(name)) return *found;
  const std::string near = nearest_name(name, names());
  throw Error(ErrorKind::kInput, {.what = "the file has no such tensor",
                                  .where = where(name),
                                  .remedy = near.empty() ? "names() lists the tensors of the file"
                                                         : "did you mean '" + near + "'?"});
}

TensorMeta SafetensorsReader::meta(std::string_view name) const {
  const SafetensorsEntry& found = entry(name);
  const auto dtype = io::torch_dtype(found.dtype);
  if (!dtype) {
    throw Error(ErrorKind::kInput, {.what = "dtype " + found.dtype + " cannot be read",
                                    .where = where(name),
                                    .remedy = "store the tensor as F32, F16 or BF16"});
  }
  return {found.shape, *dtype};
}

void SafetensorsReader::read_into(std::string_view name, at::Tensor& destination) const {
  read_into(name, Slice(), destination);
}

void SafetensorsReader::read_into(std::string_view name, const Slice& slice,
                                  at::Tensor& destination) const {
  const SafetensorsEntry& source = entry(name);
  const TensorMeta whole = meta(name);
  const TensorMeta stored = {shape_of(slice, whole.sizes, std::string(name)), whole.dtype};
  const at::ScalarType wanted = destination.scalar_type();
  if (destination.sizes() != at::IntArrayRef(stored.sizes)) {
    throw Error(ErrorKind::kInput,
                {.what = "expected " + to_text(meta_of(destination)) + ", found " + to_text(stored),
                 .where = where(name),
                 .remedy = "the file is of another model"});
  }
  if (wanted != stored.dtype && !(io::is_plain_float(wanted) && io::is_plain_float(stored.dtype))) {
    throw Error(ErrorKind::kInput,
                {.what = "expected " + to_text(meta_of(destination)) + ", found " + to_text(stored),
                 .where = where(name),
                 .remedy = "only F64, F32, F16 and BF16 are converted into each other"});
  }

  if (destination.is_meta()) {
    throw Error(ErrorKind::kUsage,
                {.what = "the destination is on the meta device, without memory",
                 .where = where(name),
                 .remedy = "give it some first, as by RankStages::to_empty(device)"});
  }
  const at::NoGradGuard no_grad;
  if (!destination.is_contiguous()) {
    at::Tensor dense = at::empty(destination.sizes(), destination.options().device(at::kCPU));
    read_into(name, slice, dense);
    destination.copy_(dense);
    return;
  }
  const std::uint64_t start = impl_->data_start + source.begin;
  const auto element = static_cast<std::uint64_t>(c10::elementSize(stored.dtype));
  const at::Tensor flat = destination.detach().view(-1);
  // Check BOOL bytes, because a file may have other values than 0 and 1.
  const bool checked_bool = stored.dtype == at::kBool;
  if (destination.device().is_cpu() && wanted == stored.dtype && !checked_bool) {
    for_each_run(slice, whole.sizes, [&](auto in_whole, auto in_box, auto count) {
      impl_->file.read(flat.narrow(0, in_box, count).data_ptr(),
                       static_cast<std::uint64_t>(count) * element,
                       start + static_cast<std::uint64_t>(in_whole) * element);
    });
    return;
  }
  const auto capacity = std::min(flat.numel(), static_cast<std::int64_t>(kStagingBytes / element));
  const at::Tensor staging = at::empty({capacity}, checked_bool ? at::kByte : stored.dtype);
  for_each_run(slice, whole.sizes, [&](auto in_whole, auto in_box, auto count) {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t piece = std::min(capacity, count - done);
      impl_->file.read(staging.data_ptr(), static_cast<std::uint64_t>(piece) * element,
                       start + static_cast<std::uint64_t>(in_whole + done) * element);
      const at::Tensor stored_piece = staging.narrow(0, 0, piece);
      if (wanted == at::kHalf) require_fits_float16(stored_piece, where(name));
      flat.narrow(0, in_box + done, piece).copy_(stored_piece);
      done += piece;
    }
  });
}

at::Tensor SafetensorsReader::read(std::string_view name) const {
  const TensorMeta stored = meta(name);
  at::Tensor tensor = at::empty(stored.sizes, stored.dtype);
  read_into(name, tensor);
  return tensor;
}

}  // namespace sluice
