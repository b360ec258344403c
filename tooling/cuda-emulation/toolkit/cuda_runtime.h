// Replaces CUDA's header where host code is compiled for the emulation.
#pragma once

#include "emulation/runtime.h"
