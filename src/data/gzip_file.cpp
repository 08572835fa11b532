#include "data/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::size_t kInputBytes = std::size_t{256} << 10;
constexpr int kGzipOfAnyWindow = 15 + 16;  // the values of inflateInit2()

class Inflater {
 public:
  explicit Inflater(const File& file) : file_(file), input_(kInputBytes) {
    if (inflateInit2(&stream_, kGzipOfAnyWindow) != Z_OK)
      throw Error(ErrorKind::kMemory, {.what = "there is no memory to unpack the file",
                                       .where = file.path(),
                                       .remedy = "unpack it: gzip -dk " + file.path()});
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  std::size_t read(char* buffer, std::size_t count) {
    std::size_t done = 0;
    while (done < count && begin_member()) {
      if (stream_.avail_in == 0 && !refill()) fail("it ends too early");
      const auto space = static_cast<uInt>(std::min(count - done, kInputBytes));
      stream_.next_out = reinterpret_cast<Bytef*>(buffer + done);
      stream_.avail_out = space;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      done += space - stream_.avail_out;
      is_in_member_ = result != Z_STREAM_END;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        fail(stream_.msg ? stream_.msg : "its data cannot be unpacked");
    }
    return done;
  }

 private:
  // Returns false at the end of the file. Zeros may pad it, as on tapes.
  bool begin_member() {
    if (is_in_member_) return true;
    while (true) {
      while (stream_.avail_in > 0 && has_member_ && *stream_.next_in == 0) skip_byte();
      if (stream_.avail_in > 0) break;
      if (!refill()) return false;
    }
    inflateReset(&stream_);
    is_in_member_ = has_member_ = true;
    return true;
  }
  void skip_byte() {
    ++stream_.next_in;
    --stream_.avail_in;
  }
  bool refill() {
    const std::size_t count = file_.read_some(input_.data(), input_.size(), offset_);
    offset_ += count;
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(count);
    return count > 0;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::kInput, {.what = "the file is compressed by gzip and damaged: " + why,
                                    .where = file_.path(),
                                    .remedy = "copy it again, or compress its rows anew"});
  }

  const File& file_;
  std::vector<Bytef> input_;
  std::uint64_t offset_ = 0;
  z_stream stream_ = {};
  bool is_in_member_ = false, has_member_ = false;
};

}  // namespace

bool is_gzip(std::string_view first_bytes) { return first_bytes.starts_with("\x1f\x8b\x08"); }

ReadNext read_unpacked(const File& file) {
  char magic[3];
  if (is_gzip({magic, file.read_some(magic, sizeof magic, 0)})) {
    const auto inflater = std::make_shared<Inflater>(file);
    return [inflater](char* buffer, std::size_t count) { return inflater->read(buffer, count); };
  }
  const auto offset = std::make_shared<std::uint64_t>(0);
  return [&file, offset](char* buffer, std::size_t count) {
    const std::size_t read = file.read_some(buffer, count, *offset);
    *offset += read;
    return read;
  };
}

}  // namespace sluice::data
