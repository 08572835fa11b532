// Includes all public headers. Without LibTorch, include headers of the first group instead.
// Headers in parts/ may change between versions.
#pragma once

// Planning, without LibTorch.
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

// Running. Start with pipeline.h.
#include "sluice/causal_lm.h"
#include "sluice/checkpoint.h"
#include "sluice/layer.h"
#include "sluice/model.h"
#include "sluice/pipeline.h"
#include "sluice/trainer.h"
