// All public headers, one for each concept. A program that only plans, without LibTorch, includes
// those of the plan by themselves. The headers in parts/ are documented, and may change.
#pragma once

// The plan: no LibTorch.
#include "sluice/data.h"        // TokenData: files to sequences and batches
#include "sluice/error.h"       // Error, and the log
#include "sluice/lora.h"        // Adapter: low-rank adapters of linear layers
#include "sluice/model_spec.h"  // ModelSpec: a model's layers, values, parameters and costs
#include "sluice/options.h"     // options of optimizer, learning rate, replicas, checkpoints
#include "sluice/partition.h"   // Partition: which stage has which layers
#include "sluice/plan.h"        // plan_pipeline(): from a model to a proven program
#include "sluice/program.h"     // Program, lower(): the instructions of every rank
#include "sluice/schedule.h"    // Schedule: the order of every rank's actions
#include "sluice/simulate.h"    // simulate(): predicted time and memory; draw_grid()
#include "sluice/tokenizer.h"   // Tokenizer: text to ids and back
#include "sluice/verify.h"      // verify(): the proof of a program

// The run.
#include "sluice/causal_lm.h"   // causal_lm(): the Hugging Face families as models
#include "sluice/checkpoint.h"  // Checkpoint: what was saved, read at any layout
#include "sluice/layer.h"       // LayerSpec, layer(): your own layers; keyed random numbers
#include "sluice/model.h"       // Model, from_sequential(), mean_loss(): what is trained
#include "sluice/pipeline.h"    // run(), Pipeline: training steps, losses, saving. Start here.
#include "sluice/trainer.h"     // Trainer: a pipeline with sluice's own update
