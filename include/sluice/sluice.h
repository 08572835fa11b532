// All that users of sluice say, one header a concept. A program that only plans, without LibTorch,
// includes those of the plan by themselves.
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
#include "sluice/verify.h"

// The run.
#include "sluice/causal_lm.h"
#include "sluice/checkpoint.h"
#include "sluice/layer.h"
#include "sluice/model.h"
#include "sluice/ops.h"
#include "sluice/optimizer.h"
#include "sluice/parts/describe.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"

// The command.
#include "sluice/job.h"
#include "sluice/run_config.h"
