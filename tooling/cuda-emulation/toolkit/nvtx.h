// In the place of NVTX under emulation: ranges go to the file that MTL_EMULATION_RANGES names, a line each,
// indented as they are nested (emulation/ranges.cc).
#pragma once

extern "C" int nvtxRangePushA(const char* name);
extern "C" int nvtxRangePop();
