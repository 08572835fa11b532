#include "checkpoint/kept_tensors.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/content_hash.h"
#include "base/file.h"
#include "base/safetensors_header.h"
#include "checkpoint/verify_content.h"
#include "io/hf_files.h"
#include "io/hf_shards.h"
#include "io/safetensors.h"

namespace sluice {
namespace {

constexpr const char* kStem = "kept";

std::uint64_t bytes_of(const TensorSource& tensor) {
  return tensor.entry->end - tensor.entry->begin;
}

std::vector<std::span<const TensorSource>> split(const std::vector<TensorSource>& tensors,
                                                 std::uint64_t max_file_bytes) {
  std::vector<std::span<const TensorSource>> files;
  std::size_t first = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > first && bytes + bytes_of(tensors[i]) > max_file_bytes) {
      files.emplace_back(&tensors[first], i - first);
      first = i;
      bytes = 0;
    }
    bytes += bytes_of(tensors[i]);
  }
  if (first < tensors.size()) files.emplace_back(&tensors[first], tensors.size() - first);
  return files;
}

std::string copy(const TensorSource& tensor, File& to, std::uint64_t at,
                 std::vector<char>& buffer) {
  const File from = File::open(tensor.file->path(), ErrorKind::kCheckpoint);
  const std::uint64_t begin = tensor.file->data_start() + tensor.entry->begin;
  ContentHash hash;
  for (std::uint64_t done = 0; done < bytes_of(tensor);) {
    const std::size_t count = std::min<std::uint64_t>(buffer.size(), bytes_of(tensor) - done);
    from.read(buffer.data(), count, begin + done);
    hash.add(buffer.data(), count);
    to.write(buffer.data(), count, at + done);
    done += count;
  }
  return hash.digits();
}

std::vector<SavedTensor> write_file(const std::string& directory, const std::string& name,
                                    std::span<const TensorSource> tensors) {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}};
  for (const TensorSource& tensor : tensors)
    header.entries.push_back({tensor.entry->name, tensor.entry->dtype, tensor.entry->shape});
  lay_out(header);
  const std::string json = to_json(header);
  std::array<unsigned char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<unsigned char>(json.size() >> (8 * i) & 0xff);

  File file = File::create(directory + "/" + name);
  file.write(length.data(), length.size(), 0);
  file.write(json.data(), json.size(), length.size());
  std::vector<char> buffer(kBufferBytes);
  std::vector<SavedTensor> saved;
  for (const SafetensorsEntry& entry : header.entries) {
    const auto tensor = std::find_if(tensors.begin(), tensors.end(), [&](const TensorSource& one) {
      return one.entry->name == entry.name;
    });
    const std::uint64_t offset = length.size() + json.size() + entry.begin;
    saved.push_back({.name = entry.name,
                     .file = name,
                     .offset = offset,
                     .bytes = entry.end - entry.begin,
                     .shape = entry.shape,
                     .dtype = entry.dtype,
                     .hash = copy(*tensor, file, offset, buffer)});
  }
  file.sync();
  file.close();
  return saved;
}

}  // namespace

bool is_kept_file(const std::string& file) { return file.starts_with(std::string(kStem) + "-"); }

KeptTensors::KeptTensors(const std::string& source, const ModelSpec& model) : source_(source) {
  std::set<std::string> own;
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (const auto stored = source_.shards().find(parameter.name))
        own.insert(stored->entry->name);
    }
  }
  for (const std::string& name : source_.names()) {
    if (!own.contains(name)) tensors_.push_back(*source_.shards().find(name));
  }
}

std::uint64_t KeptTensors::bytes() const {
  std::uint64_t sum = 0;
  for (const TensorSource& tensor : tensors_) sum += bytes_of(tensor);
  return sum;
}

std::vector<SavedTensor> KeptTensors::copy_into(const std::string& directory,
                                                std::uint64_t max_file_bytes) const {
  const auto files = split(tensors_, max_file_bytes);
  std::vector<SavedTensor> saved;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::vector<SavedTensor> more =
        write_file(directory, io::numbered_shard_name(kStem, i, files.size()), files[i]);
    std::move(more.begin(), more.end(), std::back_inserter(saved));
  }
  return saved;
}

std::shared_ptr<const KeptTensors> tensors_to_keep(const ModelSpec* part,
                                                   const std::string& source_directory,
                                                   const std::set<std::string>& saved) {
  if (!part) return nullptr;
  const auto is_saved = [&](const ParameterSpec& parameter) {
    return saved.contains(parameter.name);
  };
  if (std::none_of(part->layers.begin(), part->layers.end(), [&](const LayerInfo& layer) {
        return std::any_of(layer.parameters.begin(), layer.parameters.end(), is_saved);
      }))
    return nullptr;
  auto kept = std::make_shared<const KeptTensors>(source_directory, *part);
  return kept->empty() ? nullptr : kept;
}

}  // namespace sluice
