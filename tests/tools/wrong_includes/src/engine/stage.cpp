#include "model/llama.h"
