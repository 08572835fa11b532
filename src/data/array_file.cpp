#include "data/array_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "base/safetensors_header.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "data/jsonl_row.h"
#include "data/row_file.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in a file");

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kMaxNpyDimensions = 32;
constexpr const char* kNpyRemedy =
    "write it with numpy.save, as C-ordered floats of 16 to 64 bits, bool or integers";
constexpr const char* kTensorRemedy = "write it with safetensors.torch.save_file";
constexpr std::string_view kNpyEnding = ".npy", kTensorsEnding = ".safetensors";

struct ArrayPlace {
  std::string type;  // as in the file: "<f4" (.npy), "F32" (safetensors)
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

[[noreturn]] void refuse_npy(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kInput, {.what = what, .where = path, .remedy = kNpyRemedy});
}

// Returns the header text that follows "'key':".
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
    if (error != std::errc() || size > kMaxArrayBytes || shape.size() == kMaxNpyDimensions)
      refuse_npy(path,
                 "the header of the .npy file has the shape " + printable(text.substr(0, end + 1)));
    shape.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(behind - rest.data()));
  }
}

ArrayPlace npy_array(const File& file) {
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
  ArrayPlace header;
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
  header.end = file.size();
  return header;
}

ArrayPlace tensor_array(const File& file, const std::string& tensor) {
  const std::string& path = file.path();
  std::uint64_t length = 0;
  if (file.size() < sizeof length) {
    throw Error(
        ErrorKind::kInput,
        {.what = "the safetensors file has no header", .where = path, .remedy = kTensorRemedy});
  }
  file.read(&length, sizeof length, 0);
  const std::uint64_t begin = sizeof length + length;
  if (length > kMaxSafetensorsHeaderBytes || begin > file.size()) {
    throw Error(
        ErrorKind::kInput,
        {.what = formatted("the safetensors file ends within its header of {} bytes", length),
         .where = path,
         .remedy = kTensorRemedy});
  }
  std::string text(length, '\0');
  file.read(text.data(), text.size(), sizeof length);
  const SafetensorsHeader header = parse_safetensors_header(text, file.size() - begin, path);
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.name == tensor) {
      ArrayPlace array{.type = entry.dtype, .begin = begin + entry.begin, .end = begin + entry.end};
      for (const std::int64_t size : entry.shape)
        array.shape.push_back(static_cast<std::uint64_t>(size));
      return array;
    }
    names.push_back(entry.name);
  }
  throw Error(ErrorKind::kInput,
              {.what = formatted("the safetensors file has no tensor '{}'", printable(tensor)),
               .where = path,
               .remedy = names.empty() ? "it has none" : suggest_name(tensor, names)});
}

template <typename Number>
Number number_at(const char* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

using GiveNumber = void (*)(const char* from, FieldReader& field);

template <typename Integer>
void give_integer(const char* from, FieldReader& field) {
  field.integer(static_cast<std::int64_t>(number_at<Integer>(from)));
}
void give_finite(double number, FieldReader& field) {
  if (!std::isfinite(number)) field.refuse("a number that is not finite");
  field.real(number);
}
template <typename Real>
void give_real(const char* from, FieldReader& field) {
  give_finite(number_at<Real>(from), field);
}
void give_bfloat16(const char* from, FieldReader& field) {
  give_finite(std::bit_cast<float>(std::uint32_t{number_at<std::uint16_t>(from)} << 16), field);
}
void give_float16(const char* from, FieldReader& field) {
  const std::uint16_t bits = number_at<std::uint16_t>(from);
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const double size = exponent == 0x1f ? std::numeric_limits<double>::infinity()
                      : exponent == 0  ? std::ldexp(fraction, -24)
                                       : std::ldexp(fraction + 0x400, exponent - 25);
  give_finite(bits >> 15 != 0 ? -size : size, field);
}
void give_bool(const char* from, FieldReader& field) { field.boolean(*from != 0); }

struct ArrayType {
  std::string_view npy, tensor;  // the type's names; "" if the format lacks it
  std::uint64_t bytes;
  bool is_real;
  GiveNumber give;
};
constexpr ArrayType kArrayTypes[] = {
    {"<f4", "F32", 4, true, give_real<float>},
    {"<f8", "F64", 8, true, give_real<double>},
    {"<f2", "F16", 2, true, give_float16},
    {"", "BF16", 2, true, give_bfloat16},
    {"|b1", "BOOL", 1, false, give_bool},
    {"|u1", "U8", 1, false, give_integer<std::uint8_t>},
    {"|i1", "I8", 1, false, give_integer<std::int8_t>},
    {"<i2", "I16", 2, false, give_integer<std::int16_t>},
    {"<i4", "I32", 4, false, give_integer<std::int32_t>},
    {"<i8", "I64", 8, false, give_integer<std::int64_t>},
};

class ArrayReader {
 public:
  ArrayReader(const std::string& path, const std::string& tensor)
      : file_(File::open(path)),
        tensor_(tensor),
        array_(tensor.empty() ? npy_array(file_) : tensor_array(file_, tensor)) {
    for (const ArrayType& type : kArrayTypes)
      if ((tensor.empty() ? type.npy : type.tensor) == array_.type) type_ = &type;
    if (!type_) refuse("has numbers of the type '" + printable(array_.type) + "'");
    std::uint64_t bytes = type_->bytes;
    for (const std::uint64_t size : array_.shape) {
      if (size == 0 && array_.shape.front() > 0) refuse("is empty in a dimension after the first");
      if (size > 0 && bytes > kMaxArrayBytes / size)
        refuse(formatted("has more than {} bytes", kMaxArrayBytes));
      bytes *= size;
    }
    if (array_.end - array_.begin != bytes) {
      refuse(formatted("has {} bytes of numbers, but its header requires {}",
                       array_.end - array_.begin, bytes));
    }
  }

  void give(FieldReader& field) {
    if (field.takes_reals() != type_->is_real)
      field.refuse("an array of the type '" + array_.type + "'");
    numbers_.resize(array_.end - array_.begin);
    file_.read(numbers_.data(), numbers_.size(), array_.begin);
    give(field, 0);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    if (tensor_.empty()) refuse_npy(file_.path(), "the array in the .npy file " + what);
    throw Error(ErrorKind::kInput,
                {.what = formatted("the tensor '{}' {}", printable(tensor_), what),
                 .where = file_.path(),
                 .remedy = "store it as floats, bool or integers, with as many "
                           "numbers as the field takes"});
  }

  void give(FieldReader& field, std::size_t dimension) {
    if (dimension == array_.shape.size()) {
      type_->give(numbers_.data() + next_, field);
      next_ += type_->bytes;
      return;
    }
    field.start_array();
    for (std::uint64_t i = 0; i < array_.shape[dimension]; ++i) give(field, dimension + 1);
    field.end_array();
  }

  File file_;
  std::string tensor_;
  ArrayPlace array_;
  const ArrayType* type_ = nullptr;
  std::string numbers_;
  std::size_t next_ = 0;
};

std::string path_in(const std::string& folder, const ArrayName& name) {
  return std::filesystem::path(folder) / name.file;
}

}  // namespace

std::string folder_of_rows(const std::string& jsonl) {
  const std::string folder = std::filesystem::path(jsonl).parent_path();
  return folder.empty() ? "." : folder;
}

bool names_array(std::string_view text) {
  return text.ends_with(kNpyEnding) || text.ends_with(kTensorsEnding) ||
         text.find(".safetensors:") != std::string_view::npos;
}

ArrayName array_name(std::string_view text) {
  const std::size_t at = text.rfind(".safetensors:");
  if (text.ends_with(kNpyEnding) || at == std::string_view::npos) return {std::string(text)};
  const std::size_t end = at + kTensorsEnding.size();
  return {std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

void read_array(const std::string& folder, std::string_view text, const std::string& name,
                FieldReader& field) {
  const ArrayName array = array_name(text);
  const std::string path = path_in(folder, array);
  const bool is_npy = array.file.ends_with(kNpyEnding);
  ArrayReader reader(path, is_npy ? "" : array.tensor.empty() ? name : array.tensor);
  try {
    reader.give(field);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw error.at(path);
  }
}

std::vector<std::string> array_files_of(const std::string& jsonl,
                                        const std::vector<FieldOption>& fields) {
  const std::string folder = folder_of_rows(jsonl);
  std::vector<std::string> files;
  std::set<std::string> seen;
  const RowFile rows(jsonl);
  const std::shared_ptr<const File> file = rows.open();
  for (std::uint64_t index = 0; index < rows.size(); ++index) {
    const std::string json = rows.json(*file, index);
    // Most rows name no array file, so skip parsing them as JSON.
    if (json.find(kNpyEnding) == std::string::npos &&
        json.find(kTensorsEnding) == std::string::npos)
      continue;
    const std::optional<Json> row = parse_json(json);
    if (!row || !row->is_object()) continue;
    for (const FieldOption& field : fields) {
      const Json& value = row->at(field.name);
      if (!value.is_string() || !names_array(value.text())) continue;
      std::string path = path_in(folder, array_name(value.text()));
      if (!seen.insert(path).second) continue;
      try {
        File::open(path);
      } catch (const Error& error) {
        throw error.at(rows.place(*file, index) + ", " + error.where());
      }
      files.push_back(std::move(path));
    }
  }
  return files;
}

}  // namespace sluice::data
