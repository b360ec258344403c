#include "emulation/pending_work.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "emulation/device_memory.h"
#include "emulation/stream.h"

namespace mtl::emulation {
namespace {

// A single recording of an event. A wait for this recording does not change if the event is recorded again
// later.
struct Mark {
  cudaStream_t stream;
  bool is_done = false, was_asked = false;
  std::chrono::steady_clock::time_point reached_at = {};
  double declared_ms = 0.0;

  void reach() {
    is_done = true;
    reached_at = std::chrono::steady_clock::now();
    if (stream != nullptr) declared_ms = stream->declared_ms;
  }
};

struct Item {
  std::function<cudaError_t()> work;
  std::shared_ptr<Mark> records, awaits;
};

struct Queue {
  cudaStream_t stream;
  std::deque<Item> items;
};

struct Pending {
  std::vector<std::unique_ptr<Queue>> queues;  // few: three per device
  Pace pace = Pace::kAtOnce;
  std::mt19937 random;
  cudaError_t failure = cudaSuccess;
};

// The lock that is held while work is executed, so that one kernel runs at a time. The lock is recursive,
// because executing work may require a wait, during which the same thread executes the work of further
// streams.
std::recursive_mutex& mutex() {
  static auto* one = new std::recursive_mutex();
  return *one;
}
using Lock = std::lock_guard<std::recursive_mutex>;

Pace pace_of_environment() {
  const char* const asked = std::getenv("MTL_EMULATION_STREAMS");
  if (asked == nullptr || *asked == '\0') return Pace::kAtOnce;
  if (std::strcmp(asked, "late") == 0) return Pace::kLate;
  if (std::strcmp(asked, "drawn") == 0) return Pace::kDrawn;
  std::fprintf(stderr, "emulation: MTL_EMULATION_STREAMS=%s, expected late or drawn\n", asked);
  std::abort();
}

Pending& pending() {
  static auto* all = [] {
    auto* made = new Pending();
    made->pace = pace_of_environment();
    keep_from_host(made->pace == Pace::kLate);
    return made;
  }();
  return *all;
}

Queue& queue_of(cudaStream_t stream) {
  for (const auto& queue : pending().queues) {
    if (queue->stream == stream) return *queue;
  }
  pending().queues.push_back(std::make_unique<Queue>());
  pending().queues.back()->stream = stream;
  return *pending().queues.back();
}

void advance(Queue& queue);

// Executes the work before the mark in the mark's stream, and the work in other streams for which it waits.
void reach(const Mark& mark) {
  while (!mark.is_done) advance(queue_of(mark.stream));
}

// Executes the first item of the queue.
void advance(Queue& queue) {
  const Item item = std::move(queue.items.front());
  queue.items.pop_front();
  if (item.awaits != nullptr) reach(*item.awaits);
  if (item.records != nullptr) item.records->reach();
  // after a failed kernel, nothing is executed, as on a GPU
  if (item.work == nullptr || pending().failure != cudaSuccess) return;
  const DeviceMemoryInReach in_reach;
  const cudaError_t error = item.work();
  if (error != cudaSuccess) pending().failure = error;
}

void advance_some() {
  Pending& all = pending();
  while (all.random() % 2 == 0) {
    Queue& queue = *all.queues[all.random() % all.queues.size()];
    if (!queue.items.empty()) advance(queue);
  }
}

cudaError_t add(cudaStream_t stream, Item item) {
  Queue& queue = queue_of(stream);
  queue.items.push_back(std::move(item));
  if (pending().pace == Pace::kDrawn) advance_some();
  return pending().failure;
}

}  // namespace
}  // namespace mtl::emulation

struct CUevent_st {
  bool has_time;
  std::shared_ptr<mtl::emulation::Mark> last;  // null: never recorded, which counts as complete
};

namespace mtl::emulation {

Pace pace() { return pending().pace; }

void set_pace(Pace pace, uint32_t seed) {
  const Lock lock(mutex());
  finish(nullptr);
  pending().pace = pace;
  pending().random.seed(seed);
  pending().failure = cudaSuccess;
  keep_from_host(pace == Pace::kLate);
}

cudaError_t put_off(cudaStream_t stream, std::function<cudaError_t()> work) {
  const Lock lock(mutex());
  return pending().pace == Pace::kAtOnce ? work() : add(stream, {std::move(work), nullptr, nullptr});
}

cudaError_t finish(cudaStream_t stream) {
  const Lock lock(mutex());
  const DeviceMemoryInReach in_reach;  // once for all work executed here
  for (size_t index = 0; index < pending().queues.size(); ++index) {
    Queue& queue = *pending().queues[index];
    while ((stream == nullptr || queue.stream == stream) && !queue.items.empty()) advance(queue);
  }
  return pending().failure;
}

cudaEvent_t create_event(bool has_time) { return new CUevent_st{has_time, nullptr}; }
void destroy_event(cudaEvent_t event) { delete event; }

void record(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(mutex());
  event->last = std::make_shared<Mark>(Mark{stream});
  if (pending().pace == Pace::kAtOnce) {
    event->last->reach();
  } else {
    add(stream, {nullptr, event->last, nullptr});
  }
}

void wait_for(cudaStream_t stream, cudaEvent_t event) {
  const Lock lock(mutex());
  if (event->last != nullptr && !event->last->is_done) add(stream, {nullptr, nullptr, event->last});
}

cudaError_t finish_event(cudaEvent_t event) {
  const Lock lock(mutex());
  const DeviceMemoryInReach in_reach;
  if (event->last != nullptr) reach(*event->last);
  return pending().failure;
}

cudaError_t elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Lock lock(mutex());
  for (const cudaEvent_t event : {start, end}) {
    if (!event->has_time || event->last == nullptr) return cudaErrorInvalidResourceHandle;
    if (!event->last->is_done) return cudaErrorNotReady;
  }
  const Mark &first = *start->last, &last = *end->last;
  const bool has_declared = first.stream == last.stream && first.declared_ms < last.declared_ms;
  const std::chrono::duration<double, std::milli> here = last.reached_at - first.reached_at;
  *milliseconds = static_cast<float>(has_declared ? last.declared_ms - first.declared_ms : here.count());
  return cudaSuccess;
}

// Reports only at the first query that an event is not complete, so that a polling caller does not wait
// forever.
cudaError_t query_event(cudaEvent_t event) {
  const Lock lock(mutex());
  if (event->last == nullptr || event->last->is_done) return pending().failure;
  if (!event->last->was_asked) {
    event->last->was_asked = true;
    return cudaErrorNotReady;
  }
  return finish_event(event);
}

}  // namespace mtl::emulation
