// Replaces NVTX under emulation: ranges are written to the file that MTL_EMULATION_RANGES names, one per
// line, indented by nesting depth (emulation/ranges.cc).
#pragma once

extern "C" int nvtxRangePushA(const char* name);
extern "C" int nvtxRangePop();
