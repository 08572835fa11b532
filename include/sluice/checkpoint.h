// Checkpoints: a folder with weights that transformers reads, optimizer state, and a manifest.
//
// A checkpoint knows nothing of the layout that wrote it: every tensor is there once, whole, under
// its full name, and any number of ranks, stages and schedules reads the parts that it needs.
//
// Invariants:
//  1. Opening reads the manifest and the headers of files, and compares them; verify() reads
//     everything.
//  2. Files are read by pread: one that is truncated meanwhile is an Error. Symbolic links inside a
//     checkpoint are refused, and so is everything else that is not a regular file.
// Thread-safety: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

namespace sluice {

struct IndexRange;  // values.h

// One tensor, once: whole, whatever layout trained it.
struct SavedTensor {
  std::string name;                     // full name, as in the file
  std::string file;                     // "model-00001-of-00002.safetensors", "optimizer/..."
  std::uint64_t offset = 0, bytes = 0;  // position and size of the data in the file
  std::vector<std::int64_t> shape;      // {} is a scalar
  std::string dtype;                    // the word of safetensors: "F32", "BF16"
  std::string hash;                     // content_hash of the data, 32 hexadecimal digits
  friend bool operator==(const SavedTensor&, const SavedTensor&) = default;
};

// A file that holds no tensors: config.json, the index of the shards, a tokenizer.
struct SavedFile {
  std::string file;
  std::uint64_t bytes = 0;
  std::string hash;
  friend bool operator==(const SavedFile&, const SavedFile&) = default;
};

// Size and content hash of a file or model that a run started from.
struct Fingerprint {
  std::uint64_t bytes = 0;
  std::string hash;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct Manifest {
  std::string version;  // version of sluice that wrote it
  std::string run;      // the same for all checkpoints of a run, resumed or not; 16 hex digits
  std::int64_t generation = 0;  // higher for a run that starts beside others, or goes back
  std::int64_t step = 0;        // the last step whose update the weights hold
  std::int64_t sequence = 0;    // position in the data: number of sequences used before
  std::uint64_t seed = 0;
  std::map<std::string, Fingerprint> fingerprints;  // "configuration", "model", "data"
  std::map<std::string, std::string> settings;  // by key, if they decide numbers: "optimizer.lr"
  std::map<std::string, std::string> extra;     // the caller's entries; UTF-8
  std::map<std::string, std::string> ties;      // another use of a parameter -> its first
  std::vector<SavedTensor> weights;    // parameters and buffers; tied ones under their first use
  std::vector<SavedTensor> optimizer;  // "exp_avg/model.norm.weight"
  std::vector<SavedTensor> extra_tensors;
  std::vector<SavedFile> files;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

enum class SavedKind : std::uint8_t { kWeights, kOptimizer, kExtra };

class Checkpoint {
 public:
  // Throws Error(kCheckpoint) when it is missing, not committed, or differs from its manifest.
  explicit Checkpoint(std::string path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  const std::string& path() const;
  const Manifest& manifest() const;
  // Compares the content of every file with its hash, on num_threads threads. Throws
  // Error(kCheckpoint) naming file and tensor.
  void verify(int num_threads = 1) const;

  // The entry of this tensor; nullptr if there is none.
  const SavedTensor* find(SavedKind kind, std::string_view name) const;
  // Fills `destination` with this slice of the tensor (empty: all of it), reading no other bytes;
  // floating dtypes are converted. Throws Error(kCheckpoint): no such tensor (with the nearest
  // name), another shape or dtype, a file that was truncated.
  void read_into(SavedKind kind, std::string_view name, const std::vector<IndexRange>& slice,
                 at::Tensor& destination) const;
  // The tensor as it is stored, in new memory on the CPU, compared with its hash.
  at::Tensor read(SavedKind kind, std::string_view name) const;
  // Closes the files: path and manifest stay, tensors can no longer be read.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A folder `step-` and its step's number, and whether a run can resume from it.
struct ListedCheckpoint {
  std::int64_t step = 0;
  std::string path;
  bool committed = false;  // it has a whole manifest
  bool ok = false;         // and verifies
  std::string reason;      // why not
};

// The checkpoints directly in `folder`, by step; empty where there is no such folder. All are
// verified.
std::vector<ListedCheckpoint> list_checkpoints(const std::string& folder, int num_threads = 1);

}  // namespace sluice
