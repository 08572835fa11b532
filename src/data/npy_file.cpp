#include "data/npy_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/printable.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in a file");

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kMaxNpyDimensions = 32;
constexpr const char* kNpyRemedy =
    "write it with numpy.save, as C-ordered float32, float64, bool or integers";

struct NpyHeader {
  std::string type;  // "<f4"
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // of the numbers
};

[[noreturn]] void refuse_npy(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kInput, {.what = what, .where = path, .remedy = kNpyRemedy});
}

// The text behind "'key':" in the header.
std::string_view npy_value(const std::string& path, std::string_view header, std::string_view key) {
  const std::string quoted = formatted("'{}':", key);
  const std::size_t place = header.find(quoted);
  if (place == std::string_view::npos)
    refuse_npy(path, formatted("the header of the .npy file has no '{}'", key));
  header.remove_prefix(place + quoted.size());
  header.remove_prefix(std::min(header.size(), header.find_first_not_of(' ')));
  return header;
}

std::vector<std::uint64_t> npy_shape(const std::string& path, std::string_view text) {
  const std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos)
    refuse_npy(path, "the header of the .npy file has no shape");
  std::string_view rest = text.substr(1, end - 1);
  std::vector<std::uint64_t> shape;
  while (true) {
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(", ")));
    if (rest.empty()) return shape;
    std::uint64_t size = 0;
    const auto [behind, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc() || size > kMaxNpyBytes || shape.size() == kMaxNpyDimensions)
      refuse_npy(path,
                 "the header of the .npy file has the shape " + printable(text.substr(0, end + 1)));
    shape.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(behind - rest.data()));
  }
}

NpyHeader read_npy_header(const File& file) {
  const std::string& path = file.path();
  char start[12] = {};
  const std::size_t read = file.read_some(start, sizeof start, 0);
  const int version = start[6];
  if (read < sizeof start || std::string_view(start, kNpyMagic.size()) != kNpyMagic ||
      version < 1 || version > 3)
    refuse_npy(path, "it is not a .npy file of format 1, 2 or 3");
  const auto byte = [&](int i) { return std::uint64_t{static_cast<unsigned char>(start[i])}; };
  std::uint64_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  NpyHeader header;
  header.begin = (version > 1 ? 12 : 10) + length;
  if (length > (1U << 16) || header.begin > file.size())
    refuse_npy(path, formatted("the .npy file ends within its header of {} bytes", length));
  std::string text(length, '\0');
  file.read(text.data(), text.size(), header.begin - length);
  std::string_view type = npy_value(path, text, "descr");
  if (!type.starts_with('\'')) refuse_npy(path, "the .npy file has a structured array");
  type.remove_prefix(1);
  header.type = type.substr(0, type.find('\''));
  if (!npy_value(path, text, "fortran_order").starts_with("False"))
    refuse_npy(path, "the array in the .npy file is in Fortran's order");
  header.shape = npy_shape(path, npy_value(path, text, "shape"));
  return header;
}

template <typename Number>
Number npy_number(const char* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

using GiveNumber = void (*)(const char* from, FieldReader& field);

template <typename Integer>
void give_integer(const char* from, FieldReader& field) {
  field.integer(static_cast<std::int64_t>(npy_number<Integer>(from)));
}
template <typename Real>
void give_real(const char* from, FieldReader& field) {
  const double number = npy_number<Real>(from);
  if (!std::isfinite(number)) field.refuse("a number that is not finite");
  field.real(number);
}
void give_bool(const char* from, FieldReader& field) { field.boolean(*from != 0); }

struct NpyType {
  std::string_view name;
  std::uint64_t bytes;
  bool is_real;
  GiveNumber give;
};
constexpr NpyType kNpyTypes[] = {
    {"<f4", 4, true, give_real<float>},
    {"<f8", 8, true, give_real<double>},
    {"|b1", 1, false, give_bool},
    {"|u1", 1, false, give_integer<std::uint8_t>},
    {"|i1", 1, false, give_integer<std::int8_t>},
    {"<i2", 2, false, give_integer<std::int16_t>},
    {"<i4", 4, false, give_integer<std::int32_t>},
    {"<i8", 8, false, give_integer<std::int64_t>},
};

class NpyReader {
 public:
  explicit NpyReader(const std::string& path)
      : file_(File::open(path)), header_(read_npy_header(file_)) {
    for (const NpyType& type : kNpyTypes)
      if (type.name == header_.type) type_ = &type;
    if (!type_)
      refuse_npy(path, "the .npy file has numbers of the type '" + printable(header_.type) + "'");
    std::uint64_t bytes = type_->bytes;
    for (const std::uint64_t size : header_.shape) {
      if (size == 0 && header_.shape.front() > 0)
        refuse_npy(path, "the array in the .npy file is empty in a dimension behind the first");
      if (size > 0 && bytes > kMaxNpyBytes / size)
        refuse_npy(path,
                   formatted("the array in the .npy file has more than {} bytes", kMaxNpyBytes));
      bytes *= size;
    }
    if (file_.size() - header_.begin != bytes) {
      refuse_npy(path, formatted("the .npy file has {} bytes of numbers, its header says {}",
                                 file_.size() - header_.begin, bytes));
    }
  }

  void give(FieldReader& field) {
    if (field.takes_reals() != type_->is_real)
      field.refuse("an array of the type '" + header_.type + "'");
    numbers_.resize(file_.size() - header_.begin);
    file_.read(numbers_.data(), numbers_.size(), header_.begin);
    give(field, 0);
  }

 private:
  void give(FieldReader& field, std::size_t dimension) {
    if (dimension == header_.shape.size()) {
      type_->give(numbers_.data() + next_, field);
      next_ += type_->bytes;
      return;
    }
    field.start_array();
    for (std::uint64_t i = 0; i < header_.shape[dimension]; ++i) give(field, dimension + 1);
    field.end_array();
  }

  File file_;
  NpyHeader header_;
  const NpyType* type_ = nullptr;
  std::string numbers_;
  std::size_t next_ = 0;  // of numbers_
};

}  // namespace

void read_npy(const std::string& path, FieldReader& field) {
  NpyReader reader(path);
  try {
    reader.give(field);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw error.at(path);
  }
}

}  // namespace sluice::data
