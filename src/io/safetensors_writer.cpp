#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "base/file.h"
#include "base/safetensors_header.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"

namespace sluice {
namespace {

constexpr std::int64_t kStagingElements = std::int64_t{1} << 20;

SafetensorsHeader plan_header(const SafetensorsWriter::Plan& tensors,
                              const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  for (const auto& [name, meta] : tensors) {
    header.entries.push_back({name, io::safetensors_dtype(meta.dtype), meta.sizes});
    if (header.entries.back().dtype.empty() || name == "__metadata__") {
      throw Error(ErrorKind::kInternal,
                  {.what = "safetensors cannot hold '" + name + "' " + to_text(meta)});
    }
  }
  lay_out(header);
  return header;
}

std::array<unsigned char, 8> little_endian(std::uint64_t value) {
  std::array<unsigned char, 8> bytes{};
  for (unsigned char& byte : bytes) {
    byte = static_cast<unsigned char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

}  // namespace

struct SafetensorsWriter::Impl {
  struct Slot {
    std::uint64_t offset = 0;
    TensorMeta meta;
    bool written = false;
  };

  Impl(std::string final_path, Placement placement)
      : path(std::move(final_path)),
        written(placement == Placement::kInPlace
                    ? path
                    : parent_directory(path) + "/." + base_name(path) + ".tmp-" + unique_suffix()),
        file(File::create(written)) {}
  ~Impl() {
    if (!published) ::unlink(written.c_str());
  }

  std::string path, written;
  std::optional<File> file;
  std::unordered_map<std::string, Slot> slots;
  bool published = false;
};

SafetensorsWriter::SafetensorsWriter(std::string path, const Plan& tensors, Placement placement,
                                     const std::map<std::string, std::string>& metadata) {
  const SafetensorsHeader header = plan_header(tensors, metadata);
  impl_ = std::make_unique<Impl>(std::move(path), placement);
  const std::string json = to_json(header);
  for (const SafetensorsEntry& entry : header.entries) {
    const bool added =
        impl_->slots
            .emplace(entry.name, Impl::Slot{8 + json.size() + entry.begin,
                                            {entry.shape, *io::torch_dtype(entry.dtype)}})
            .second;
    if (!added)
      throw Error(ErrorKind::kInternal,
                  {.what = "tensor '" + entry.name + "' planned twice", .where = impl_->path});
  }
  const std::array<unsigned char, 8> prefix = little_endian(json.size());
  impl_->file->write(prefix.data(), prefix.size(), 0);
  impl_->file->write(json.data(), json.size(), prefix.size());
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::string_view name, const at::Tensor& tensor) {
  const auto found = impl_->slots.find(std::string(name));
  if (found == impl_->slots.end() || found->second.written ||
      tensor.sizes() != at::IntArrayRef(found->second.meta.sizes)) {
    throw Error(ErrorKind::kInternal, {.what = "tensor '" + std::string(name) +
                                               "' is not what was planned, or written twice",
                                       .where = impl_->path});
  }
  Impl::Slot& slot = found->second;
  const at::NoGradGuard no_grad;
  if (tensor.device().is_cpu() && tensor.is_contiguous() &&
      tensor.scalar_type() == slot.meta.dtype) {
    impl_->file->write(tensor.const_data_ptr(), tensor.nbytes(), slot.offset);
  } else {
    const at::Tensor flat = tensor.detach().reshape(-1);
    const auto element = static_cast<std::uint64_t>(c10::elementSize(slot.meta.dtype));
    for (std::int64_t done = 0; done < flat.numel(); done += kStagingElements) {
      const std::int64_t count = std::min(kStagingElements, flat.numel() - done);
      const at::Tensor piece =
          flat.narrow(0, done, count).to(at::kCPU, slot.meta.dtype).contiguous();
      impl_->file->write(piece.const_data_ptr(), piece.nbytes(),
                         slot.offset + static_cast<std::uint64_t>(done) * element);
    }
  }
  slot.written = true;
}

void SafetensorsWriter::finish() {
  for (const auto& [name, slot] : impl_->slots) {
    if (!slot.written)
      throw Error(
          ErrorKind::kInternal,
          {.what = "tensor '" + name + "' was planned but not written", .where = impl_->path});
  }
  impl_->file->sync();
  impl_->file->close();
  if (impl_->written != impl_->path) {
    rename_path(impl_->written, impl_->path);
    sync_directory(parent_directory(impl_->path));
  }
  impl_->published = true;
}

std::uint64_t SafetensorsWriter::offset(std::string_view name) const {
  return impl_->slots.at(std::string(name)).offset;
}

}  // namespace sluice
