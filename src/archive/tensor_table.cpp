#include "archive/tensor_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "archive/graph_json.h"
#include "archive/json_fields.h"
#include "archive/serialized_words.h"
#include "base/format.h"
#include "base/strict_json.h"
#include "base/text.h"

namespace sluice::detail {
namespace {

struct TableEntry {
  GraphTensor tensor;
  bool is_pickled = false;
  std::string where;
};

std::vector<std::int64_t> constant_sizes(const JsonField& field) {
  std::vector<std::int64_t> sizes;
  for (const Json& each : field.list()) {
    const Json::Member& member = JsonField(each, field.where()).only_member();
    if (member.key != "as_int") field.refuse("one of its sizes or strides is not a number");
    const std::int64_t size = JsonField(member.value, field.where(), member.key).integer();
    if (size < 0) field.refuse(formatted("one of its sizes or strides is {}", size));
    sizes.push_back(size);
  }
  return sizes;
}

// Throws on overflow.
std::int64_t needed_bytes(const GraphTensor& tensor, const std::string& where) {
  std::int64_t last = tensor.storage_offset;
  bool fits = true;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    std::int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  std::int64_t bytes = 0;
  fits = fits && !__builtin_add_overflow(last, 1, &last) &&
         !__builtin_mul_overflow(last, std::int64_t{dtype_bytes(tensor.dtype)}, &bytes);
  // A tensor created from this entry stores all elements, even with strides 0.
  std::int64_t all = dtype_bytes(tensor.dtype);
  for (const std::int64_t size : tensor.sizes)
    fits = fits && !__builtin_mul_overflow(all, size, &all);
  if (!fits)
    refuse_archive(where, formatted("the sizes {} overflow 64 bits", shape_text(tensor.sizes)));
  return bytes;
}

void place_record(const ZipFile& zip, const std::string& record, TableEntry& entry) {
  GraphTensor& tensor = entry.tensor;
  const std::int64_t needed = needed_bytes(tensor, entry.where);
  const ZipEntry* found = zip.find(record);
  if (!found) refuse_archive(entry.where, formatted("the record '{}' is missing", record));
  if (found->bytes == 0 && needed > 0) return;  // exported without weights
  tensor.record = record;
  tensor.offset = static_cast<std::int64_t>(found->offset);
  tensor.bytes = static_cast<std::int64_t>(found->bytes);
  if (needed > tensor.bytes) {
    refuse_archive(entry.where,
                   formatted("its elements need {} bytes of the record '{}', which has {}", needed,
                             record, tensor.bytes));
  }
}

using Table = std::map<std::string, TableEntry, std::less<>>;

void read_table(const ZipFile& zip, const std::string& folder, const std::string& file,
                Table& table) {
  const ZipEntry* config = zip.find(folder + file);
  if (!config) return;
  const std::string where = zip.name() + ", entry '" + config->name + "'";
  const Json json = parse_strict_json(zip.read(*config, kMaxGraphJsonBytes), where,
                                      KeyOrder::kSorted, kMaxGraphJsonValues);
  for (const auto& [name, payload] : JsonField(json, where).at("config").members()) {
    TableEntry entry{.where = formatted("{}, tensor '{}'", where, name)};
    const JsonField fields(payload, entry.where);
    entry.tensor.name = name;
    entry.tensor.is_parameter = fields.at("is_param").boolean();
    const Json* meta = fields.find("tensor_meta");
    entry.is_pickled = fields.at("use_pickle").boolean() || !meta;
    if (!entry.is_pickled) {
      const JsonField tensor(*meta, entry.where);
      entry.tensor.dtype = serialized_dtype(tensor.at("dtype").integer());
      if (entry.tensor.dtype.empty())
        fields.refuse(formatted("the dtype {} is not supported", tensor.at("dtype").integer()));
      if (serialized_layout(tensor.at("layout").integer()) != "strided")
        fields.refuse("its layout is not strided");
      entry.tensor.sizes = constant_sizes(tensor.at("sizes"));
      entry.tensor.strides = constant_sizes(tensor.at("strides"));
      if (entry.tensor.sizes.size() != entry.tensor.strides.size())
        fields.refuse(formatted("it has {} sizes and {} strides", entry.tensor.sizes.size(),
                                entry.tensor.strides.size()));
      const JsonField offset = tensor.at("storage_offset");
      entry.tensor.storage_offset =
          JsonField(offset.only_member().value, entry.where, "storage_offset").integer();
      if (entry.tensor.storage_offset < 0) fields.refuse("it starts before its record");
      entry.tensor.trainable = tensor.at("requires_grad").boolean() && entry.tensor.is_parameter;
      place_record(zip, folder + fields.at("path_name").text(), entry);
    }
    const std::string place = entry.where;
    if (!table.emplace(name, std::move(entry)).second)
      refuse_archive(place, "another table has this name too");
  }
}

GraphTensor take(Table& table, const GraphInput& input, const GraphValue& value,
                 const std::string& zip_name) {
  const auto found = table.find(input.name);
  if (found == table.end()) {
    refuse_archive(zip_name,
                   "the tables of the archive do not have the tensor '" + input.name + "'");
  }
  TableEntry& entry = found->second;
  if (entry.is_pickled) {
    refuse_archive(entry.where, "it is kept as a pickle, which is never opened",
                   "export the model with plain tensors as parameters");
  }
  const GraphTensor& tensor = entry.tensor;
  bool fits = tensor.dtype == value.dtype && tensor.sizes.size() == value.sizes.size();
  for (std::size_t i = 0; fits && i < tensor.sizes.size(); ++i)
    fits = value.sizes[i] == SizeExpression(tensor.sizes[i]);
  if (!fits) {
    refuse_archive(entry.where, formatted("it is {} of {}, unlike in the graph",
                                          shape_text(tensor.sizes), tensor.dtype));
  }
  if (tensor.record.empty() && needed_bytes(tensor, entry.where) > 0 &&
      (input.kind == GraphInput::Kind::kConstant ||
       (input.kind == GraphInput::Kind::kBuffer && !input.persistent))) {
    refuse_archive(entry.where, "it has no bytes, and no file of weights has such tensors",
                   "export the model with sluice's exporter, which keeps buffers");
  }
  return tensor;
}

}  // namespace

std::vector<GraphTensor> read_tensor_tables(const ZipFile& zip, const std::string& root,
                                            const std::string& model, const GraphModule& graph,
                                            const GraphModule* evaluation) {
  Table table;
  read_table(zip, root + "data/weights/", model + "_weights_config.json", table);
  read_table(zip, root + "data/constants/", model + "_constants_config.json", table);
  std::vector<GraphTensor> tensors;
  std::set<std::string, std::less<>> taken;
  const auto take_all = [&](const GraphModule& of) {
    std::set<std::string_view> own;
    for (const GraphInput& input : of.inputs) {
      if (input.kind == GraphInput::Kind::kBatch || input.kind == GraphInput::Kind::kNumber)
        continue;
      if (!own.insert(input.name).second)
        refuse_archive(zip.name(), "a graph has the tensor '" + input.name + "' twice");
      GraphTensor tensor =
          take(table, input, of.values[static_cast<std::size_t>(input.value)], zip.name());
      if (!taken.contains(input.name)) tensors.push_back(std::move(tensor));
      taken.insert(input.name);
    }
  };
  take_all(graph);
  if (evaluation) take_all(*evaluation);
  for (auto& [name, entry] : table) {
    if (!entry.is_pickled && !taken.contains(name)) tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

}  // namespace sluice::detail
