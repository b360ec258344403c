// Replaces NVTX under emulation. The ranges are written to the file in MTL_EMULATION_RANGES, one per line,
// indented by nesting depth (see emulation/ranges.cc).
#pragma once

extern "C" int nvtxRangePushA(const char* name);
extern "C" int nvtxRangePop();
