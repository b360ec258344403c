// The functions useTensors, startOperation, waitForOperation, isOperationDone, statisticsOfGroup.
#include <iterator>
#include <string>

#include "bindings/jobs.h"
#include "bindings/tensors.h"
#include "engines/staged/staged_communicator.h"

namespace mtl::comm::bindings {
namespace {

// A value of MtlTensorMemory's DeviceKind. The lower values, cpu and reference, use host memory.
constexpr int kCuda = 2;
// The names of all device kinds, in the order of their values.
constexpr const char* kDevices[] = {"cpu", "reference", "cuda", "meta", "meta-cuda"};

// The tensor functions of the kernels addon, which are valid for the lifetime of the process.
const MtlTensorApi* tensor_api = nullptr;

void use_tensors(const Napi::CallbackInfo& info) {
  if (info.Length() < 1 || !info[0].IsExternal()) {
    return throw_status(info.Env(), error_status("MTL_ARGUMENT", "argument 0 is not the tensorApi of @mtl/kernels"));
  }
  const MtlTensorApi* api = info[0].As<Napi::External<MtlTensorApi>>().Data();
  if (api->version != MTL_TENSOR_API_VERSION) {
    return throw_status(info.Env(), error_status("MTL_ADDON", "@mtl/kernels offers version %u of its tensor interface, @mtl/comm needs %d",
                                                 api->version, MTL_TENSOR_API_VERSION));
  }
  tensor_api = api;
}

struct HeldTensor {
  MtlTensorMemory memory{};
  uint64_t hold = 0;
};

// Retains the memory of a tensor. Handle 0 means that there is no tensor.
Status hold_tensor(int64_t handle, HeldTensor* tensor) {
  if (handle == 0) return ok_status();
  if (tensor_api == nullptr || tensor_api->retain(static_cast<uint64_t>(handle), &tensor->memory, &tensor->hold) != 0) {
    return error_status("MTL_DISPOSED_TENSOR", "tensor handle %lld is not alive", static_cast<long long>(handle));
  }
  return ok_status();
}

// Returns MTL_DEVICE if the tensor is neither in host memory nor in GPU memory; success if there is no
// tensor.
Status refuse_without_values(const Group& group, const HeldTensor& tensor) {
  const int32_t device = tensor.memory.device;
  if (device >= 0 && device <= kCuda) return ok_status();
  const bool is_known = device >= 0 && device < static_cast<int32_t>(std::size(kDevices));
  return error_status("MTL_DEVICE", "engine %s of group %s moves values, a tensor on device %s has none", group.engine(),
                      group.identity().name.c_str(), is_known ? kDevices[device] : std::to_string(device).c_str());
}

// Checks that the group supports tensors on their device, and stores the device in `memory`.
Status check_memory(const Group& group, const HeldTensor& input, const HeldTensor& output, Memory* memory) {
  const auto memory_of = [](const HeldTensor& tensor) {
    return tensor.memory.device == kCuda ? Memory::kDevice : Memory::kHost;
  };
  const bool has_tensor = input.memory.data != nullptr || output.memory.data != nullptr;
  MTL_RETURN_IF_ERROR(refuse_without_values(group, input));
  MTL_RETURN_IF_ERROR(refuse_without_values(group, output));
  *memory = memory_of(input.memory.data != nullptr ? input : output);
  if (input.memory.data != nullptr && output.memory.data != nullptr && memory_of(input) != memory_of(output)) {
    return error_status("MTL_DEVICE", "one of two tensors lives on a GPU, the other one on the host");
  }
  if (!has_tensor || group.moves(*memory)) return ok_status();
  return error_status("MTL_DEVICE", "engine %s of group %s does not move %s memory", group.engine(),
                      group.identity().name.c_str(), *memory == Memory::kDevice ? "a GPU's" : "the host's");
}

// Returns MTL_CAPTURE while this thread records a graph, because communication is then impossible: work that
// an engine enqueues would become part of the graph, and waiting for an engine would deadlock, since engines
// wait for the end of the recording.
Status refuse_in_graph(const char* what) {
  const MtlDeviceApi* const device = tensor_api == nullptr ? nullptr : tensor_api->device_api(kCuda);
  if (device == nullptr || device->refuse_in_graph(what) == 0) return ok_status();
  return error_status("MTL_CAPTURE", "%s", device->last_error());
}

void let_go(uint64_t hold) {
  if (hold != 0) tensor_api->release(hold);
}

// Adds the unequal parts of an all-to-all to the request. `sent` and `received` are element counts by
// position in the group; their sums must equal the sizes of input and output.
Status read_parts(const Group& group, const std::vector<uint64_t>& sent, const std::vector<uint64_t>& received,
                  OperationRequest* request) {
  const size_t size = static_cast<size_t>(group.identity().size());
  const auto adds_up = [&](const std::vector<uint64_t>& lengths, size_t bytes) {
    const uint64_t count = bytes / size_of(request->dtype);
    uint64_t sum = 0;
    for (const uint64_t length : lengths) {
      if (length > count - sum) return false;
      sum += length;
    }
    return lengths.size() == size && sum == count;
  };
  if (request->kind != OperationKind::kAllToAll || !adds_up(sent, request->input_bytes) ||
      !adds_up(received, request->output_bytes)) {
    return error_status("MTL_ARGUMENT", "the parts of an operation of group %s are not those of its tensors",
                        group.identity().name.c_str());
  }
  request->parts = std::make_shared<const Parts>(Parts::of(sent, received));
  return ok_status();
}

// (group, {operation, reduction, peer, input, output, sent?, received?}) => ticket. TypeScript has already
// checked shapes and ranks.
Napi::Value start(const Napi::CallbackInfo& info) {
  OpenGroup* group = read_group(info, 0);
  int64_t kind, reduction, peer, input_handle, output_handle;
  if (group == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.integer("operation", &kind) || !fields.integer("reduction", &reduction) || !fields.integer("peer", &peer) ||
      !fields.integer("input", &input_handle) || !fields.integer("output", &output_handle)) {
    return {};
  }
  std::vector<uint64_t> sent, received;
  const bool has_parts = fields.has("sent");
  if (has_parts && (!fields.counts("sent", &sent) || !fields.counts("received", &received))) return {};
  HeldTensor input, output;
  Status status = refuse_in_graph("communication between ranks");
  if (status.ok()) status = hold_tensor(input_handle, &input);
  if (status.ok() && output_handle != input_handle) status = hold_tensor(output_handle, &output);
  const bool is_known = kind >= 0 && kind < kNumOperationKinds && reduction >= 0 && reduction <= 2;
  if (status.ok() && !is_known) status = error_status("MTL_ARGUMENT", "operation %lld", static_cast<long long>(kind));
  if (output_handle == input_handle) output.memory = input.memory;
  Memory memory = Memory::kHost;
  if (status.ok()) status = check_memory(*group->group, input, output, &memory);
  OperationRequest request;
  request.kind = static_cast<OperationKind>(kind);
  request.dtype = static_cast<DType>(input_handle != 0 ? input.memory.dtype : output.memory.dtype);
  request.reduction = static_cast<Reduction>(reduction);
  request.memory = memory;
  request.peer = static_cast<int>(peer);
  request.input = input.memory.data;
  request.input_bytes = input.memory.bytes;
  request.output = output.memory.data;
  request.output_bytes = output.memory.bytes;
  if (status.ok() && has_parts) status = read_parts(*group->group, sent, received, &request);
  if (!status.ok()) {
    let_go(input.hold);
    let_go(output.hold);
    throw_status(info.Env(), status);
    return {};
  }
  request.release = [first = input.hold, second = output.hold] {
    let_go(first);
    let_go(second);
  };
  const int64_t ticket = group->next_ticket++;
  group->works.emplace(ticket, group->group->start(std::move(request)));
  return Napi::Number::New(info.Env(), static_cast<double>(ticket));
}

Group::Work* read_work(const Napi::CallbackInfo& info, int64_t* ticket, OpenGroup** group) {
  *group = read_group(info, 0);
  if (*group == nullptr || !read_integer(info, 1, ticket)) return nullptr;
  const auto found = (*group)->works.find(*ticket);
  if (found != (*group)->works.end()) return &found->second;
  throw_status(info.Env(), error_status("MTL_ARGUMENT", "no operation %lld under way", static_cast<long long>(*ticket)));
  return nullptr;
}

void wait(const Napi::CallbackInfo& info) {
  int64_t ticket;
  OpenGroup* group;
  Group::Work* work = read_work(info, &ticket, &group);
  if (work == nullptr) return;
  Status status = refuse_in_graph("waiting for other ranks");
  if (!status.ok()) return throw_status(info.Env(), status);
  status = work->wait();
  group->works.erase(ticket);
  if (!status.ok()) throw_status(info.Env(), status);
}

Napi::Value is_done(const Napi::CallbackInfo& info) {
  int64_t ticket;
  OpenGroup* group;
  Group::Work* work = read_work(info, &ticket, &group);
  if (work == nullptr) return {};
  const Status status = refuse_in_graph("looking for what other ranks have done");
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return Napi::Boolean::New(info.Env(), work->is_done());
}

// Returns [calls, sentBytes, waitedNs] for every kind of operation, in order.
Napi::Value statistics(const Napi::CallbackInfo& info) {
  OpenGroup* group = read_group(info, 0);
  if (group == nullptr) return {};
  Napi::Array numbers = Napi::Array::New(info.Env());
  uint32_t index = 0;
  for (int kind = 0; kind < kNumOperationKinds; ++kind) {
    const OperationCount count = group->group->count_of(static_cast<OperationKind>(kind));
    numbers.Set(index++, static_cast<double>(count.calls));
    numbers.Set(index++, static_cast<double>(count.sent_bytes));
    numbers.Set(index++, static_cast<double>(count.waited_ns));
  }
  return numbers;
}

void register_group_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("useTensors", Napi::Function::New(env, use_tensors));
  exports.Set("startOperation", Napi::Function::New(env, start));
  exports.Set("waitForOperation", Napi::Function::New(env, wait));
  exports.Set("isOperationDone", Napi::Function::New(env, is_done));
  exports.Set("statisticsOfGroup", Napi::Function::New(env, statistics));
}

const Registration group_registration(register_group_functions);

}  // namespace

const MtlTensorApi* tensor_interface() { return tensor_api; }

Status find_device(const MtlDeviceApi** device) {
  *device = tensor_api == nullptr ? nullptr : tensor_api->device_api(kCuda);
  if (*device != nullptr) return ok_status();
  return error_status("MTL_DEVICE", "device cuda is not open in this process");
}

Status stage_if(bool is_staged, std::unique_ptr<Communicator>* communicator) {
  if (!is_staged) return ok_status();
  const MtlDeviceApi* device;
  MTL_RETURN_IF_ERROR(find_device(&device));
  communicator->reset(new staged::StagedCommunicator(std::move(*communicator), device));
  return ok_status();
}

}  // namespace mtl::comm::bindings
