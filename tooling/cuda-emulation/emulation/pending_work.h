// Decides when streams execute their work. A GPU executes work some time after the host has continued. Each
// stream executes its work in order, and different streams run concurrently except where events order them.
// By default, the emulation executes work immediately, which hides two kinds of errors: a host that reads,
// writes or releases memory too early, and streams that do not wait for each other. An environment variable
// changes when work is executed:
//
//   MTL_EMULATION_STREAMS=late    as late as possible: when a thread waits for it, and only the awaited work;
//                                 the host cannot access device memory except for executed work
//                         drawn   at random times, streams in any order that events allow (a fixed seed)
//
// In both modes, the first query of an event reports that the event is not complete, and a kernel's error is
// returned by the next call that enqueues or waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "emulation/runtime.h"

namespace mtl::emulation {

enum class Pace { kAtOnce, kLate, kDrawn };
// pace() returns the mode in MTL_EMULATION_STREAMS, unless a test has set a different mode with set_pace(),
// which first executes all pending work.
Pace pace();
void set_pace(Pace pace, uint32_t seed = 0);

// --- streams

cudaError_t put_off(cudaStream_t stream, std::function<cudaError_t()> work);
// Executes all pending work of `stream`, or of all streams if it is null.
cudaError_t finish(cudaStream_t stream);

// --- events

cudaEvent_t create_event(bool has_time);
void destroy_event(cudaEvent_t event);
void record(cudaEvent_t event, cudaStream_t stream);
void wait_for(cudaStream_t stream, cudaEvent_t event);
cudaError_t finish_event(cudaEvent_t event);
cudaError_t query_event(cudaEvent_t event);
// Sets `milliseconds` to the time between two events of a stream. If the work between the events declares the
// time that it takes on a device, uses this time. Otherwise uses the time between the events in the
// emulation.
cudaError_t elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

}  // namespace mtl::emulation
