#include "archive/graph_json.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "archive/graph_metadata.h"
#include "archive/graph_values.h"
#include "archive/json_fields.h"
#include "archive/pytree_names.h"
#include "base/format.h"
#include "base/strict_json.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// Higher-order operators that run one graph once. Their arguments end with the graph and its
// operands.
constexpr std::string_view kSetGrad = "higher_order.wrap_with_set_grad_enabled";
constexpr std::array<std::string_view, 4> kInPlace = {
    kSetGrad, "higher_order.tag_activation_checkpoint", "higher_order.invoke_subgraph",
    "higher_order.wrap"};

class GraphReader : private GraphValues {
 public:
  GraphReader(const Json& program, const std::string& where) : program_(program), where_(where) {}

  GraphProgram read() {
    const JsonField root(program_, where_);
    check_version(root);
    GraphProgram made;
    made.torch_version = root.at("torch_version").text();
    const JsonField graph_module = root.at("graph_module");
    const JsonField graph = graph_module.at("graph");
    GraphScope scope(graph);
    const JsonField signature = graph_module.at("signature");
    const JsonField call = root_call(graph_module);
    read_inputs(graph, signature, call, scope);
    for (const Json& node : graph.at("nodes").list()) read_node(node, scope, {});
    read_outputs(graph, signature, call, scope);
    read_ranges(root);
    read_rules(root);
    module_.values = std::move(values_);
    made.module = std::move(module_);
    return made;
  }

 private:
  struct Surroundings {
    GraphNode::GradMode grad_mode = GraphNode::GradMode::kAsCaller;
    int higher_order = -1;
  };

  void check_version(const JsonField& root) const {
    const std::int64_t major = root.at("schema_version").at("major").integer();
    if (major != kKnownSchema) {
      refuse_archive(where_,
                     formatted("the archive has version {} of torch.export's schema, not {}", major,
                               kKnownSchema),
                     "export the model again with torch 2.7 to 2.13");
    }
  }

  JsonField root_call(const JsonField& graph_module) const {
    for (const Json& entry : graph_module.at("module_call_graph").list()) {
      const JsonField field(entry, where_);
      if (!field.at("fqn").text().empty()) continue;
      if (const Json* signature = field.find("signature")) return {*signature, where_};
      break;
    }
    static const Json kNone = Json::object();
    return {kNone, where_};
  }

  void read_metadata(const JsonField& node, GraphNode& made) const {
    const JsonField metadata = node.at("metadata");
    if (const Json* stack = metadata.find("nn_module_stack"))
      made.modules = module_calls(field(*stack, "nn_module_stack").text());
    if (const Json* trace = metadata.find("stack_trace"))
      made.source = source_of(field(*trace, "stack_trace").text());
  }

  void read_node(const Json& json, GraphScope& scope, const Surroundings& surroundings) {
    const JsonField node(json, where_);
    GraphNode made{.target = node.at("target").text(),
                   .grad_mode = surroundings.grad_mode,
                   .higher_order = surroundings.higher_order};
    constexpr std::string_view kPrefix = "torch.ops.";
    if (made.target.starts_with(kPrefix)) made.target.erase(0, kPrefix.size());
    place_ = formatted("{}, node {} '{}'", where_, ++num_nodes_, made.target);
    if (made.target.starts_with("higher_order."))
      return read_in_place(field(json), made.target, scope, surroundings);
    for (const Json& input : field(json).at("inputs").list()) {
      const JsonField named = field(input);
      made.arguments.emplace_back(named.at("name").text(), argument(named.at("arg").json(), scope));
    }
    for (const Json& output : field(json).at("outputs").list())
      made.results.push_back(result(output, scope));
    read_metadata(field(json), made);
    module_.nodes.push_back(std::move(made));
  }

  GraphNode::Result result(const Json& json, GraphScope& scope) {
    const Json::Member& member = field(json).only_member();
    const std::string& key = member.key;
    const Json& value = member.value;
    const auto of_tensor = [&](const Json& item) {
      return define(field(item).at("name").text(), GraphValue::Kind::kTensor, scope, true);
    };
    const auto of_optional = [&](const Json& item) {
      const Json::Member& tensor = field(item).only_member();
      if (tensor.key == "as_none") return -1;
      return of_tensor(tensor.value);
    };
    const auto of_number = [&](GraphValue::Kind kind) {
      return define(field(value).at("as_name").text(), kind, scope, true);
    };
    GraphNode::Result made;
    if (key == "as_none") {
      made.values = {-1};
    } else if (key == "as_tensor") {
      made.values = {of_tensor(value)};
    } else if (key == "as_optional_tensor") {
      made.values = {of_optional(value)};
    } else if (key == "as_sym_int") {
      made.values = {of_number(GraphValue::Kind::kInt)};
    } else if (key == "as_sym_float") {
      made.values = {of_number(GraphValue::Kind::kFloat)};
    } else if (key == "as_sym_bool") {
      made.values = {of_number(GraphValue::Kind::kBool)};
    } else if (key == "as_tensors" || key == "as_optional_tensors") {
      made.is_list = true;
      for (const Json& item : field(value).list())
        made.values.push_back(key == "as_tensors" ? of_tensor(item) : of_optional(item));
    } else {
      refuse_archive(place_, formatted("a result of the kind '{}' is not supported", key),
                     "export a model without such operators");
    }
    return made;
  }

  void read_in_place(const JsonField& node, const std::string& target, GraphScope& scope,
                     const Surroundings& surroundings) {
    if (std::ranges::find(kInPlace, target) == kInPlace.end()) {
      std::string known;
      for (const std::string_view each : kInPlace)
        known += (known.empty() ? "" : ", ") + std::string(each);
      refuse_archive(place_, "this higher-order operator is not supported, only " + known,
                     "export a model without it");
    }
    const std::string place = place_;
    Surroundings inside = surroundings;
    if (inside.higher_order < 0) inside.higher_order = num_higher_order_++;
    const Json* graph = nullptr;
    std::string graph_name;
    std::vector<GraphArgument> operands;
    bool is_first = true;
    for (const Json& input : node.at("inputs").list()) {
      const JsonField named(input, place_);
      const JsonField arg = named.at("arg");
      const Json::Member& member = arg.only_member();
      if (member.key == "as_graph") {
        if (graph) refuse("the higher-order operator has two graphs");
        const JsonField with_name = field(member.value, member.key);
        graph_name = with_name.at("name").text();
        graph = &with_name.at("graph").json();
      } else if (!graph) {
        if (target == kSetGrad && is_first)
          inside.grad_mode =
              boolean_of(member) ? GraphNode::GradMode::kOn : GraphNode::GradMode::kOff;
      } else if (named.at("name").text().empty() && member.key != "as_string") {
        operands.push_back(argument(arg.json(), scope));
      }
      is_first = false;
    }
    if (!graph) refuse("the higher-order operator has no graph");

    const JsonField inner(*graph, place);
    GraphScope inner_scope(inner);
    inner_scope.prefix = scope.prefix + graph_name + ".";
    const Json::List& inputs = inner.at("inputs").list();
    if (inputs.size() != operands.size()) {
      refuse(formatted("the higher-order operator has {} operands, but its graph has {} inputs",
                       operands.size(), inputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string* name = name_of(inputs[i]);
      if (name) bind(*name, operands[i], inner_scope);
    }
    for (const Json& each : inner.at("nodes").list()) read_node(each, inner_scope, inside);
    place_ = place;

    std::vector<GraphArgument> results;
    for (const Json& output : inner.at("outputs").list()) {
      GraphArgument value = argument(output, inner_scope);
      if (value.kind == GraphArgument::Kind::kList) {
        for (GraphArgument& each : value.list) results.push_back(std::move(each));
      } else {
        results.push_back(std::move(value));
      }
    }
    std::vector<const std::string*> names;
    for (const Json& output : node.at("outputs").list()) {
      const Json::Member& member = JsonField(output, place_).only_member();
      if (member.key == "as_tensors") {
        for (const Json& each : field(member.value, member.key).list())
          names.push_back(&field(each).at("name").text());
      } else {
        names.push_back(name_of(output));
      }
    }
    if (names.size() != results.size()) {
      refuse(formatted("the higher-order operator has {} results, but its graph has {}",
                       names.size(), results.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i]) bind(*names[i], std::move(results[i]), scope);
    }
  }

  bool boolean_of(const Json::Member& member) const {
    if (member.key != "as_bool")
      refuse("the value that turns gradients on or off is not a truth value");
    return field(member.value, member.key).boolean();
  }

  void read_inputs(const JsonField& graph, const JsonField& signature, const JsonField& call,
                   GraphScope& scope) {
    place_ = where_ + ", inputs";
    const Json::List& inputs = graph.at("inputs").list();
    const Json::List& specs = signature.at("input_specs").list();
    if (inputs.size() != specs.size())
      refuse(formatted("the graph has {} inputs, but its signature has {}", inputs.size(),
                       specs.size()));
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto& [kind, spec] = field(specs[i]).only_member();
      GraphInput input;
      const std::string* of_graph = name_of(inputs[i]);
      const std::string* of_spec = nullptr;
      const JsonField fields = field(spec, kind);
      if (kind == "constant_input") {
        input.kind = GraphInput::Kind::kNumber;
        input.name = fields.at("name").text();
        input.constant = argument(fields.at("value").json(), scope);
      } else if (kind == "user_input") {
        const Json& arg = fields.at("arg").json();
        of_spec = name_of(arg);
        if (!of_spec) {
          input.kind = GraphInput::Kind::kNumber;
          input.constant = argument(arg, scope);
        } else {
          input.name = *of_spec;
        }
      } else {
        if (kind == "parameter") {
          input.kind = GraphInput::Kind::kParameter;
          input.name = fields.at("parameter_name").text();
        } else if (kind == "buffer") {
          input.kind = GraphInput::Kind::kBuffer;
          input.name = fields.at("buffer_name").text();
          input.persistent = fields.at("persistent").boolean();
        } else if (kind == "tensor_constant") {
          input.kind = GraphInput::Kind::kConstant;
          input.name = fields.at("tensor_constant_name").text();
        } else {
          refuse_archive(place_, formatted("an input of the kind '{}' is not supported", kind),
                         "export a model of tensors alone");
        }
        of_spec = &fields.at("arg").at("name").text();
      }
      if ((of_spec != nullptr) != (of_graph != nullptr) || (of_spec && *of_spec != *of_graph))
        refuse(formatted("input {} has another name in the graph than in its signature", i));
      if (of_graph) input.value = define(*of_graph, kind_of(inputs[i]), scope, false);
      module_.inputs.push_back(std::move(input));
    }
    name_batch(call);
  }

  // torch's input names are in lower case, so use the names in forward()'s signature.
  void name_batch(const JsonField& call) {
    std::optional<std::vector<std::string>> leaves;
    std::vector<std::string> arguments;
    if (const Json* names = call.find("forward_arg_names"); names && names->is_array()) {
      for (const Json& name : names->list()) arguments.push_back(field(name).text());
    }
    if (const Json* spec = call.find("in_spec"); spec && spec->is_string())
      leaves = input_leaf_names(spec->text(), arguments);
    std::vector<GraphInput*> batch;
    for (GraphInput& input : module_.inputs) {
      if (input.kind == GraphInput::Kind::kBatch || input.kind == GraphInput::Kind::kNumber)
        batch.push_back(&input);
    }
    if (leaves && leaves->size() == batch.size()) {
      for (std::size_t i = 0; i < batch.size(); ++i) batch[i]->name = (*leaves)[i];
    }
    std::set<std::string_view> taken;
    for (const GraphInput* input : batch) {
      if (!taken.insert(input->name).second)
        refuse(formatted("two inputs have the name '{}'", input->name));
    }
  }

  void read_outputs(const JsonField& graph, const JsonField& signature, const JsonField& call,
                    GraphScope& scope) {
    place_ = where_ + ", outputs";
    const Json::List& outputs = graph.at("outputs").list();
    const Json::List& specs = signature.at("output_specs").list();
    if (outputs.size() != specs.size()) {
      refuse(formatted("the graph has {} outputs, but its signature has {}", outputs.size(),
                       specs.size()));
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto& [kind, spec] = field(specs[i]).only_member();
      GraphOutput output{.value = argument(outputs[i], scope)};
      const JsonField fields = field(spec, kind);
      if (kind == "buffer_mutation") {
        output.kind = GraphOutput::Kind::kBufferWrite;
        output.name = fields.at("buffer_name").text();
      } else if (kind != "user_output" && kind != "loss_output") {
        refuse_archive(place_, formatted("an output of the kind '{}' is not supported", kind),
                       "export the model for training, without run_decompositions");
      }
      module_.outputs.push_back(std::move(output));
    }
    name_results(call);
  }

  void name_results(const JsonField& call) {
    std::vector<GraphOutput*> results;
    for (GraphOutput& output : module_.outputs) {
      if (output.kind == GraphOutput::Kind::kResult) results.push_back(&output);
    }
    std::optional<std::vector<std::string>> names;
    if (const Json* spec = call.find("out_spec"); spec && spec->is_string())
      names = output_leaf_names(spec->text());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const bool has_name = names && names->size() == results.size() && !(*names)[i].empty() &&
                            (*names)[i].find_first_not_of("0123456789") != std::string::npos;
      const std::string number = results.size() == 1 ? "output" : formatted("output_{}", i);
      results[i]->name = has_name ? (*names)[i] : number;
    }
  }

  void read_ranges(const JsonField& root) {
    place_ = where_ + ", range_constraints";
    for (const auto& [symbol, range] : field(root.at("range_constraints").json()).members()) {
      const JsonField bounds = field(range, symbol);
      SizeRange made{.symbol = symbol};
      if (const Json* least = bounds.find("min_val"))
        made.least = field(*least, "min_val").integer();
      if (const Json* most = bounds.find("max_val")) made.most = field(*most, "max_val").integer();
      if (made.least > made.most)
        refuse(formatted("the size '{}' is at least {} and at most {}", symbol, made.least,
                         made.most));
      module_.ranges.push_back(std::move(made));
    }
  }

  void read_rules(const JsonField& root) {
    place_ = where_ + ", guards_code";
    const Json* guards = field(root.json()).find("guards_code");
    if (!guards) return;
    for (const Json& guard : field(*guards, "guards_code").list()) {
      const std::string& text = field(guard).text();
      try {
        module_.rules.push_back(SizeRule::parse(text));
      } catch (const Error& error) {
        throw error.at(formatted("{}, '{}'", place_, text));
      }
    }
    const auto by_text = [](const SizeRule& rule) -> const std::string& { return rule.text(); };
    std::ranges::stable_sort(module_.rules, {}, by_text);
    const auto same_text = [](const SizeRule& a, const SizeRule& b) {
      return a.text() == b.text();
    };
    module_.rules.erase(std::unique(module_.rules.begin(), module_.rules.end(), same_text),
                        module_.rules.end());
  }

  const Json& program_;
  const std::string& where_;
  GraphModule module_;
  std::size_t num_nodes_ = 0;
  int num_higher_order_ = 0;
};

}  // namespace

GraphProgram parse_graph_program(std::string_view text, const std::string& where) {
  const Json program = parse_strict_json(text, where, KeyOrder::kSorted, kMaxGraphJsonValues);
  return GraphReader(program, where).read();
}

}  // namespace sluice::detail
