// Replaces CUDA's header in host code that is compiled for the emulation.
#pragma once

#include "emulation/runtime.h"
