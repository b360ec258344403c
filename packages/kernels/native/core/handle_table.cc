#include "core/handle_table.h"

#include <atomic>
#include <vector>

#include "core/round_up.h"

namespace mtl {
namespace {

struct Storage {
  const Backend* backend;
  void* data;
  uint64_t num_views;
};

struct Slot {
  TensorRecord record;
  Storage* storage = nullptr;  // null: the slot is free
  uint32_t generation = 1;
};

constexpr uint64_t kIndexBits = 24;
constexpr uint64_t kMaxSlots = uint64_t{1} << kIndexBits;
constexpr uint32_t kMaxGeneration = (uint32_t{1} << 28) - 1;

Mutex mutex;
std::vector<Slot> slots;
std::vector<uint32_t> free_slots;
uint64_t live = 0;
std::atomic<bool> poison{false};

Slot* slot_of(TensorHandle handle) {
  const uint64_t index = handle & (kMaxSlots - 1);
  if (index >= slots.size()) return nullptr;
  Slot& slot = slots[index];
  return slot.storage != nullptr && slot.generation == handle >> kIndexBits ? &slot : nullptr;
}

Status stale(TensorHandle handle) {
  return error_status("MTL_DISPOSED_TENSOR", "tensor handle %llu is not alive: it was disposed of, or never a tensor",
                      static_cast<unsigned long long>(handle));
}

Status insert(const TensorRecord& record, Storage* storage, TensorHandle* handle) {
  uint32_t index;
  if (!free_slots.empty()) {
    index = free_slots.back();
    free_slots.pop_back();
  } else {
    if (slots.size() >= kMaxSlots) return error_status("MTL_OUT_OF_MEMORY", "more than 2^24 live tensors: a leak");
    index = static_cast<uint32_t>(slots.size());
    slots.emplace_back();
  }
  slots[index].record = record;
  slots[index].storage = storage;
  storage->num_views += 1;
  live += 1;
  *handle = uint64_t{slots[index].generation} << kIndexBits | index;
  return ok_status();
}

Status set_shape(TensorView* view, const int64_t* shape, int rank) {
  if (rank < 0 || rank > kMaxRank) {
    return error_status("MTL_SHAPE", "a tensor of %d dimensions, expected 0 to %d", rank, kMaxRank);
  }
  view->rank = rank;
  double elements = 1;  // a dimension of 0 counts as 1: no product of other dimensions may overflow either
  for (int dim = 0; dim < rank; ++dim) {
    if (shape[dim] < 0) return error_status("MTL_SHAPE", "dimension %d is %lld", dim, static_cast<long long>(shape[dim]));
    elements *= static_cast<double>(shape[dim] == 0 ? 1 : shape[dim]);
    view->shape[dim] = shape[dim];
  }
  if (elements > 1e15) return error_status("MTL_SHAPE", "a tensor of %.3g elements is too large", elements);
  return ok_status();
}

Status expect_contiguous(const TensorView& view) {
  if (!view.is_strided) return ok_status();
  return error_status("MTL_SHAPE", "a strided view was given where a contiguous tensor was expected: only "
                      "the operations that Tensor.strided lists take strided views");
}

// Returns the distance in memory from a tensor's first element to the end of its last element, in elements.
int64_t reachable_elements(const TensorView& view) {
  if (!view.is_strided) return view.size();
  if (view.size() == 0) return 0;
  int64_t last = 0;
  for (int dim = 0; dim < view.rank; ++dim) last += (view.dim(dim) - 1) * view.strides[dim];
  return last + 1;
}

}  // namespace

Status create_tensor(DeviceKind device, DType dtype, const int64_t* shape, int rank, TensorHandle* handle) {
  const Backend* backend = backend_of(device);
  if (backend == nullptr) {
    return error_status("MTL_DEVICE", "device %s is not open in this process", device == DeviceKind::kCuda ? "cuda" : "?");
  }
  TensorRecord record;
  record.device = device;
  record.view.dtype = dtype;
  MTL_RETURN_IF_ERROR(set_shape(&record.view, shape, rank));
  const size_t bytes = to_size(record.view.size() * static_cast<int64_t>(size_of(dtype)));
  MTL_RETURN_IF_ERROR(backend->allocate(bytes, &record.view.data));
  if (poison) {
    const Status filled = backend->fill(record.view.data, 0xff, bytes);  // a NaN in every floating-point dtype
    if (!filled.ok()) {
      backend->release(record.view.data);
      return filled;
    }
  }
  Storage* const storage = new Storage{backend, record.view.data, 0};
  const MutexLock lock(mutex);
  const Status status = insert(record, storage, handle);
  if (!status.ok()) {
    backend->release(record.view.data);
    delete storage;
  }
  return status;
}

Status create_view(TensorHandle base, int64_t offset, const int64_t* shape, int rank, TensorHandle* handle) {
  const MutexLock lock(mutex);
  const Slot* slot = slot_of(base);
  if (slot == nullptr) return stale(base);
  TensorRecord record = slot->record;
  MTL_RETURN_IF_ERROR(expect_contiguous(record.view));
  const int64_t available = record.view.size();
  MTL_RETURN_IF_ERROR(set_shape(&record.view, shape, rank));
  if (offset < 0 || record.view.size() > available || offset > available - record.view.size()) {
    return error_status("MTL_SHAPE", "a view of %lld elements from %lld on does not fit a tensor of %lld",
                        static_cast<long long>(record.view.size()), static_cast<long long>(offset),
                        static_cast<long long>(available));
  }
  record.view.data = static_cast<char*>(record.view.data) + static_cast<size_t>(offset) * size_of(record.view.dtype);
  return insert(record, slot->storage, handle);
}

Status create_strided_view(TensorHandle base, int64_t offset, const int64_t* shape, const int64_t* strides, int rank,
                           TensorHandle* handle) {
  const MutexLock lock(mutex);
  const Slot* slot = slot_of(base);
  if (slot == nullptr) return stale(base);
  TensorRecord record = slot->record;
  TensorView& view = record.view;
  const int64_t available = reachable_elements(view);
  MTL_RETURN_IF_ERROR(set_shape(&view, shape, rank));
  double last = static_cast<double>(offset);  // index of the last element of the view
  for (int dim = 0; dim < rank; ++dim) {
    if (shape[dim] > 1 && strides[dim] < 1) {
      return error_status("MTL_SHAPE", "stride %lld of dimension %d of a view, expected 1 or more",
                          static_cast<long long>(strides[dim]), dim);
    }
    view.strides[dim] = strides[dim];
    last += static_cast<double>(shape[dim] - 1) * static_cast<double>(strides[dim]);
  }
  view.is_strided = true;
  if (offset < 0 || (view.size() > 0 ? last >= static_cast<double>(available) : offset > available)) {
    return error_status("MTL_SHAPE", "a view from element %lld to %.0f does not fit a tensor of %lld elements",
                        static_cast<long long>(offset), last, static_cast<long long>(available));
  }
  view.data = static_cast<char*>(view.data) + static_cast<size_t>(offset) * size_of(view.dtype);
  return insert(record, slot->storage, handle);
}

Status release_tensor(TensorHandle handle) {
  const MutexLock lock(mutex);
  Slot* slot = slot_of(handle);
  if (slot == nullptr) return stale(handle);
  Storage* storage = slot->storage;
  slot->storage = nullptr;
  slot->generation = slot->generation == kMaxGeneration ? 1 : slot->generation + 1;
  free_slots.push_back(static_cast<uint32_t>(handle & (kMaxSlots - 1)));
  live -= 1;
  if (--storage->num_views == 0) {
    storage->backend->release(storage->data);
    delete storage;
  }
  return ok_status();
}

Status resolve_tensor(TensorHandle handle, TensorRecord* record) {
  MTL_RETURN_IF_ERROR(resolve_view(handle, record));
  return expect_contiguous(record->view);
}

Status resolve_view(TensorHandle handle, TensorRecord* record) {
  const MutexLock lock(mutex);
  const Slot* slot = slot_of(handle);
  if (slot == nullptr) return stale(handle);
  *record = slot->record;
  return ok_status();
}

uint64_t num_live_tensors() {
  const MutexLock lock(mutex);
  return live;
}

void set_poison(bool enabled) { poison = enabled; }

}  // namespace mtl
