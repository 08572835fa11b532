#include "run/out_of_memory.h"
