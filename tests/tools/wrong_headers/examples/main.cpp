#include "sluice/named.h"
