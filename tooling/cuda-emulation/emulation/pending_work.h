// When streams do what they are given. A GPU does it some time after the host has gone on, each stream in
// its own order, streams concurrently but for the events that order them. The emulation does it at once,
// which forgives a host that reads, writes or gives back memory too early and streams that do not wait for
// each other, unless told otherwise:
//
//   MTL_EMULATION_STREAMS=late    as late as possible: when a thread waits for it, and no more than what is waited for;
//                                 memory of the device is out of the host's reach but for work that is done
//                         drawn   whenever a draw says so, streams in any order that events allow (a fixed seed)
//
// In both, an event that is asked has not happened the first time, and an error of a kernel is what the next
// call says that enqueues or waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "emulation/runtime.h"

namespace mtl::emulation {

enum class Pace { kAtOnce, kLate, kDrawn };
// What the variable says unless a test says otherwise; everything that is pending is done first.
Pace pace();
void set_pace(Pace pace, uint32_t seed = 0);

// --- streams

cudaError_t put_off(cudaStream_t stream, std::function<cudaError_t()> work);
// Until all of a stream is done; null: of all streams.
cudaError_t finish(cudaStream_t stream);

// --- events

cudaEvent_t create_event();
void destroy_event(cudaEvent_t event);
void record(cudaEvent_t event, cudaStream_t stream);
void wait_for(cudaStream_t stream, cudaEvent_t event);
cudaError_t finish_event(cudaEvent_t event);
cudaError_t query_event(cudaEvent_t event);

}  // namespace mtl::emulation
