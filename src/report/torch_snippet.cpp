#include "report/torch_snippet.h"

#include "base/format.h"
#include "base/json.h"
#include "base/text.h"

namespace sluice {
namespace {

// A module that no stage lists at any depth stays everywhere, such as a rotary embedding.
constexpr const char* kPart = R"(

def part_of(model, stage):
    """A copy of the model without the modules of other stages. forward() must skip a module that is None
    and iterate over the remaining layers by `.values()`."""
    others = {name for part in MODULES for name in part} - set(MODULES[stage])
    part = copy.deepcopy(model)
    for name in sorted(others):
        holder, _, last = name.rpartition(".")
        parent = part.get_submodule(holder)
        if not isinstance(parent, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            setattr(parent, last, None)
            continue
        if isinstance(parent, torch.nn.ModuleList):
            above, _, own = holder.rpartition(".")
            parent = torch.nn.ModuleDict({str(i): layer for i, layer in enumerate(parent)})
            setattr(part.get_submodule(above), own, parent)
        del parent[last]
    return part

)";

constexpr const char* kStages = R"(
def make_schedule(model, device, group, loss_fn):
    rank = torch.distributed.get_rank(group)
    own = [stage for stage, of in enumerate(STAGE_TO_RANK) if of == rank]
    stages = [PipelineStage(part_of(model, stage).to(device), stage, len(MODULES), device, group=group) for stage in own]
)";

}  // namespace

std::string torch_snippet(const TorchSnippet& snippet) {
  const bool has_file = !snippet.csv_file.empty();
  const bool is_single = snippet.schedule == "1F1B" || snippet.schedule == "GPipe";
  std::string text = "import copy\n\nimport torch\n";
  text += "from torch.distributed.pipelining import PipelineStage\n";
  text += formatted("from torch.distributed.pipelining.schedules import {}\n\n",
                    has_file ? "_PipelineScheduleRuntime" : "get_schedule_class");
  text += "MODULES = [\n";
  for (const std::vector<std::string>& stage : snippet.modules) {
    std::vector<std::string> names;
    for (const std::string& name : stage) names.push_back(Json(name).dump());
    text += formatted("    [{}],\n", join(names, ", "));
  }
  text += formatted("]\nSTAGE_TO_RANK = {}\n", Json(snippet.stage_to_rank).dump());
  text += snippet.num_microbatches > 0
              ? formatted("NUM_MICROBATCHES = {}\n", snippet.num_microbatches)
              : formatted("NUM_MICROBATCHES = {}  # at least the ranks; yours\n",
                          snippet.stage_to_rank.size());
  text += kPart;
  text += kStages;
  if (has_file) {
    text += "    schedule = _PipelineScheduleRuntime(stages, NUM_MICROBATCHES, loss_fn=loss_fn)\n";
    text += formatted("    schedule._load_csv({})\n", Json(snippet.csv_file).dump());
  } else {
    text += formatted(
        "    schedule = get_schedule_class({})({}, NUM_MICROBATCHES, "
        "loss_fn=loss_fn)\n",
        Json(snippet.schedule).dump(), is_single ? "stages[0]" : "stages");
  }
  return text + "    return schedule\n";
}

}  // namespace sluice
