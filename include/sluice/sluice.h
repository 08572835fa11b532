// All public headers, one for each concept. A program that only plans, without LibTorch, includes
// those of the plan by themselves. The headers in parts/ are documented, and may change.
#pragma once

// The plan: no LibTorch.
#include "sluice/data.h"
#include "sluice/error.h"
#include "sluice/lora.h"
#include "sluice/model_spec.h"
#include "sluice/options.h"
#include "sluice/partition.h"
#include "sluice/plan.h"
#include "sluice/program.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"
#include "sluice/tokenizer.h"
#include "sluice/verify.h"

// The run.
#include "sluice/causal_lm.h"
#include "sluice/checkpoint.h"
#include "sluice/layer.h"
#include "sluice/model.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"
