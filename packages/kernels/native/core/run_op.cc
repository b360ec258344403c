#include "core/run_op.h"

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "core/op_registry.h"
#include "core/recorded_calls.h"
#include "core/shared_memory.h"
#include "core/validation.h"

namespace mtl {
namespace {

// FLOPs are counted per thread, because worker threads that share the process are separate ranks.
thread_local double flops_counter = 0.0;

// This thread's statistics, by op index. The size is set at the first run, after all registrations.
std::vector<OpStatistics>& statistics() {
  static thread_local std::vector<OpStatistics> all(static_cast<size_t>(num_ops()));
  return all;
}

// The range that shows an op's kernel in a profiler's timeline.
struct Range {
  const Backend& backend;
  Range(const Backend& its_backend, const char* name) : backend(its_backend) {
    if (backend.push_range != nullptr) backend.push_range(name);
  }
  ~Range() {
    if (backend.pop_range != nullptr) backend.pop_range();
  }
};

double bytes_of(const TensorView* views, int num_views) {
  double bytes = 0.0;
  for (int index = 0; index < num_views; ++index) {
    if (views[index].present()) bytes += static_cast<double>(views[index].size()) * static_cast<double>(size_of(views[index].dtype));
  }
  return bytes;
}

// Rejects outputs that share memory, because kernels write outputs in any order and on any number of threads.
Status check_outputs(const OpCall& call, int num_outputs) {
  for (int output = 0; output < num_outputs; ++output) {
    if (!call.has(output)) continue;
    if (overlaps_itself(call.tensor(output))) {
      return error_status("MTL_SHAPE", "%s: elements of the strided view %s overlap in memory, expected an output whose "
                          "strides keep them apart", call.op, tensor_name(call, output));
    }
    for (int other = 0; other < output; ++other) {
      if (!call.has(other) || !overlap(call.tensor(output), call.tensor(other))) continue;
      const std::string name = tensor_name(call, other);
      return error_status("MTL_SHAPE", "%s: the outputs %s and %s overlap in memory, expected separate tensors or views "
                          "without common elements", call.op, name.c_str(), tensor_name(call, output));
    }
  }
  return ok_status();
}

bool is_optional(const char* name) { return name[std::strlen(name) - 1] == '?'; }

}  // namespace

Status run_op(int op_index, const TensorHandle* handles, int num_handles, const double* attributes, int num_values) {
  const OpEntry* entry = op_at(op_index);
  if (entry == nullptr) return error_status("MTL_ARGUMENT", "there is no operation number %d", op_index);
  const OpSchema& schema = entry->schema;
  if (num_handles != num_tensors(schema) || num_values != num_attributes(schema)) {
    return error_status("MTL_ARGUMENT", "%s: %d tensors and %d attributes given, expected %d and %d", schema.name,
                        num_handles, num_values, num_tensors(schema), num_attributes(schema));
  }
  TensorView views[kMaxTensors];
  const Backend* backend = nullptr;
  for (int index = 0; index < num_handles; ++index) {
    if (handles[index] == 0) {
      if (is_optional(schema.tensors[index])) continue;
      return error_status("MTL_ARGUMENT", "%s: %s is missing", schema.name, schema.tensors[index]);
    }
    TensorRecord record;
    MTL_RETURN_IF_ERROR(resolve_view(handles[index], &record));
    if (record.view.is_strided && (schema.strided >> index & 1) == 0) {
      return error_status("MTL_SHAPE", "%s: %s is a strided view, expected a contiguous tensor",
                          schema.name, schema.tensors[index]);
    }
    const Backend* its_backend = backend_of(record.device);
    if (backend == nullptr) backend = its_backend;
    if (backend != its_backend) {
      return error_status("MTL_DEVICE", "%s: %s is on device %s, the tensors before it on %s", schema.name,
                          schema.tensors[index], its_backend->name, backend->name);
    }
    views[index] = record.view;
  }
  if (backend == nullptr) return error_status("MTL_ARGUMENT", "%s: no tensors given", schema.name);
  OpCall call;
  call.op = schema.name;
  call.tensors = views;
  call.num_tensors = num_handles;
  call.attributes = attributes;
  call.num_attributes = num_values;
  MTL_RETURN_IF_ERROR(schema.validate(call));
  MTL_RETURN_IF_ERROR(check_outputs(call, schema.num_outputs));
  const KernelFunction kernel = backend->find_kernel(schema.name);
  if (kernel == nullptr) {
    return error_status("MTL_UNSUPPORTED", "%s has no kernel on device %s", schema.name, backend->name);
  }
  const double flops = schema.flops == nullptr ? 0.0 : schema.flops(call);
  flops_counter += flops;
  const Range range(*backend, schema.name);
  const auto start = std::chrono::steady_clock::now();
  Status status;
  if (RecordedCalls* const recorded = recorded_calls(*backend)) recorded->add(call, kernel);
  else status = kernel(call);
  OpStatistics& counted = statistics()[static_cast<size_t>(op_index)];
  counted.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  counted.calls += 1.0;
  counted.flops += flops;
  counted.bytes_written += bytes_of(views, schema.num_outputs);
  counted.bytes_read += bytes_of(views + schema.num_outputs, num_handles - schema.num_outputs);
  return status;
}

bool supports_op(int op_index, DeviceKind device) {
  const OpEntry* entry = op_at(op_index);
  const Backend* backend = backend_of(device);
  return entry != nullptr && backend != nullptr && backend->find_kernel(entry->schema.name) != nullptr;
}

double counted_flops() { return flops_counter; }
void reset_counted_flops() { flops_counter = 0.0; }
void count_flops(double flops) { flops_counter += flops; }

OpStatistics op_statistics(int op_index) {
  return op_index < 0 || op_index >= num_ops() ? OpStatistics{} : statistics()[static_cast<size_t>(op_index)];
}

}  // namespace mtl
