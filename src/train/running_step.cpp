#include "train/running_step.h"

#include <string>

#include "sluice/error.h"

namespace sluice {
namespace {

thread_local const char* running = nullptr;

}  // namespace

RunningStep::RunningStep(const char* call) {
  require_no_step(call);
  running = call;
}
RunningStep::~RunningStep() { running = nullptr; }

void require_thread(std::thread::id owner, const char* call) {
  if (std::this_thread::get_id() == owner) return;
  throw Error(ErrorKind::kUsage,
              {.what = std::string(call) + " was called on a thread that is not the pipeline's",
               .where = "the body of another run, or a thread of your own",
               .remedy = "make all calls on the thread that the rank's body runs on"});
}

void require_no_step(const char* call) {
  if (!running) return;
  throw Error(ErrorKind::kUsage, {.what = std::string(call) + " was called within a step",
                                  .where = std::string(running) + " has not returned",
                                  .remedy = "call it between steps: an observer may only watch"});
}

}  // namespace sluice
