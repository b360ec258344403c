// Exports supportsGraphs, createGraphMemory, destroyGraphMemory, enterGraphMemory, leaveGraphMemory,
// beginCapture, endCapture, launchGraph, destroyGraph and refuseInGraph, which call core/graphs.h and
// core/graph_recording.h. The first argument of each function is the device's DeviceKind, as a number.
#include "bindings/convert.h"
#include "core/graph_recording.h"

namespace mtl::bindings {
namespace {

const GraphFunctions* find_graphs(double device) {
  const Backend* const backend =
      device >= 0 && device < kNumDeviceKinds ? backend_of(static_cast<DeviceKind>(static_cast<int>(device))) : nullptr;
  return backend == nullptr ? nullptr : backend->graphs;
}

const GraphFunctions* read_graphs(const Napi::CallbackInfo& info) {
  double device;
  if (!read_number(info, 0, &device)) return nullptr;
  const GraphFunctions* const graphs = find_graphs(device);
  if (graphs == nullptr) {
    throw_status(info.Env(), error_status("MTL_UNSUPPORTED", "device %g has no graphs, or is not open", device));
  }
  return graphs;
}

Napi::Value supports_graphs(const Napi::CallbackInfo& info) {
  double device;
  if (!read_number(info, 0, &device)) return {};
  return Napi::Boolean::New(info.Env(), find_graphs(device) != nullptr);
}

void report(const Napi::CallbackInfo& info, Status status) {
  if (!status.ok()) throw_status(info.Env(), status);
}

Napi::Value create_memory(const Napi::CallbackInfo& info) {
  const GraphFunctions* const graphs = read_graphs(info);
  if (graphs == nullptr) return {};
  void* memory = nullptr;
  const Status status = graphs->create_memory(&memory);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return Napi::External<void>::New(info.Env(), memory);
}

void destroy_memory(const Napi::CallbackInfo& info) {
  void* memory;
  const GraphFunctions* const graphs = read_graphs(info);
  if (graphs != nullptr && read_pointer(info, 1, &memory)) report(info, graphs->destroy_memory(memory));
}

void enter_memory(const Napi::CallbackInfo& info) {
  void* memory;
  const GraphFunctions* const graphs = read_graphs(info);
  if (graphs != nullptr && read_pointer(info, 1, &memory)) report(info, graphs->enter_memory(memory));
}

void leave_memory(const Napi::CallbackInfo& info) {
  if (const GraphFunctions* const graphs = read_graphs(info)) graphs->leave_memory();
}

void begin_capture(const Napi::CallbackInfo& info) {
  if (const GraphFunctions* const graphs = read_graphs(info)) report(info, begin_recording(*graphs));
}

// Arguments: (device, whether to keep the graph)
Napi::Value end_capture(const Napi::CallbackInfo& info) {
  const GraphFunctions* const graphs = read_graphs(info);
  if (graphs == nullptr) return {};
  const bool is_wanted = info.Length() > 1 && info[1].ToBoolean().Value();
  RecordedGraph* graph = nullptr;
  const Status status = end_recording(*graphs, is_wanted ? &graph : nullptr);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return is_wanted ? Napi::External<void>::New(info.Env(), static_cast<void*>(graph)) : info.Env().Undefined();
}

void launch(const Napi::CallbackInfo& info) {
  void* graph;
  const GraphFunctions* const graphs = read_graphs(info);
  if (graphs != nullptr && read_pointer(info, 1, &graph)) {
    report(info, launch_recorded(*graphs, *static_cast<RecordedGraph*>(graph)));
  }
}

void destroy(const Napi::CallbackInfo& info) {
  void* graph;
  const GraphFunctions* const graphs = read_graphs(info);
  if (graphs != nullptr && read_pointer(info, 1, &graph)) {
    destroy_recorded(*graphs, static_cast<RecordedGraph*>(graph));
  }
}

// Arguments: (device, name of the call that a graph cannot contain). Throws if a graph is being recorded.
void refuse_in_graph(const Napi::CallbackInfo& info) {
  double device;
  if (!read_number(info, 0, &device)) return;
  const GraphFunctions* const graphs = find_graphs(device);
  if (graphs == nullptr) return;  // no graphs, nothing to refuse
  report(info, refuse_while_recording(*graphs, info[1].ToString().Utf8Value().c_str()));
}

}  // namespace

void register_graph_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("supportsGraphs", Napi::Function::New(env, supports_graphs));
  exports.Set("createGraphMemory", Napi::Function::New(env, create_memory));
  exports.Set("destroyGraphMemory", Napi::Function::New(env, destroy_memory));
  exports.Set("enterGraphMemory", Napi::Function::New(env, enter_memory));
  exports.Set("leaveGraphMemory", Napi::Function::New(env, leave_memory));
  exports.Set("beginCapture", Napi::Function::New(env, begin_capture));
  exports.Set("endCapture", Napi::Function::New(env, end_capture));
  exports.Set("launchGraph", Napi::Function::New(env, launch));
  exports.Set("destroyGraph", Napi::Function::New(env, destroy));
  exports.Set("refuseInGraph", Napi::Function::New(env, refuse_in_graph));
}

}  // namespace mtl::bindings
