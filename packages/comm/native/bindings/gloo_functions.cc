// glooProblem, openGlooMesh, connectGlooGroup, closeGlooMesh
#include <algorithm>
#include <mutex>

#include "bindings/local_groups.h"
#include "bindings/tensors.h"
#include "engines/gloo/hierarchical_communicator.h"

namespace mtl::comm::bindings {
namespace {

// A mesh that is listening but not yet connected. In the meantime, JavaScript exchanges the addresses through
// the store.
struct Pending {
  std::vector<int> host_of;
  std::unique_ptr<gloo::GlooMesh> mesh;
};

struct Table {
  std::mutex mutex;  // worker threads of one process share the module
  std::map<int64_t, Pending> pending;
  int64_t next_handle = 1;
};

Table& table() {
  static Table* const all = new Table;
  return *all;
}

Pending take(int64_t handle) {
  const std::lock_guard<std::mutex> lock(table().mutex);
  Pending taken;
  const auto found = table().pending.find(handle);
  if (found == table().pending.end()) return taken;
  taken = std::move(found->second);
  table().pending.erase(found);
  return taken;
}

// (library) => the reason why the engine cannot be used, or undefined
Napi::Value problem(const Napi::CallbackInfo& info) {
  std::string library;
  if (!read_text(info, 0, &library)) return {};
  const MtlGlooApi* api;
  const Status status = gloo::load_gloo(library, &api);
  if (status.ok()) return info.Env().Undefined();
  return Napi::String::New(info.Env(), status.failure().message);
}

// (job, {name, ranks, hosts, timeoutMs, address, library}) => {mesh, addresses}. `hosts` has the host index
// of every rank.
Napi::Value open_mesh(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  GroupIdentity identity;
  Pending pending;
  gloo::GlooMesh::Options options;
  double timeout_ms;
  if (job == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.text("name", &identity.name) || !fields.integers("ranks", &identity.ranks) ||
      !fields.integers("hosts", &pending.host_of) || !fields.number("timeoutMs", &timeout_ms) ||
      !fields.text("address", &options.address) || !fields.text("library", &options.library)) {
    return {};
  }
  identity.timeout_ns = static_cast<int64_t>(timeout_ms * kMillisecond);
  const auto own = std::find(identity.ranks.begin(), identity.ranks.end(), job->state.rank());
  identity.rank = static_cast<int>(own - identity.ranks.begin());
  Status status;
  if (own == identity.ranks.end() || pending.host_of.size() != identity.ranks.size()) {
    status = error_status("MTL_ARGUMENT", "group %s: rank %d is no member, or a member has no host",
                          identity.name.c_str(), job->state.rank());
  } else {
    status = gloo::GlooMesh::create(std::move(identity), &job->state, options, &pending.mesh);
  }
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  const std::string& addresses = pending.mesh->addresses();
  Napi::Object opened = Napi::Object::New(info.Env());
  opened.Set("addresses", Napi::Buffer<char>::Copy(info.Env(), addresses.data(), addresses.size()));
  const std::lock_guard<std::mutex> lock(table().mutex);
  const int64_t handle = table().next_handle++;
  table().pending[handle] = std::move(pending);
  opened.Set("mesh", static_cast<double>(handle));
  return opened;
}

// Connects the mesh and creates the engine; the engine also uses shared memory if several members are on this
// host.
Status connect(Job* job, Pending pending, std::vector<std::string> addresses, std::unique_ptr<Communicator>* communicator) {
  const GroupIdentity& group = pending.mesh->group();
  gloo::Topology topology(pending.host_of, group.rank);
  const bool is_flat = topology.num_hosts() == 1 || topology.num_hosts() == group.size();
  std::unique_ptr<local::LocalCommunicator> local;
  if (!is_flat && topology.own_members().size() > 1) {
    GroupIdentity host = group;
    host.name += " (this host)";
    host.ranks.clear();
    for (const int member : topology.own_members()) host.ranks.push_back(group.ranks[static_cast<size_t>(member)]);
    MTL_RETURN_IF_ERROR(connect_local(job, &host, 0, &local));
  }
  std::vector<int> members;
  for (int member = 0; member < group.size(); ++member) members.push_back(member);
  if (!is_flat) members = topology.peers();
  members.erase(std::remove(members.begin(), members.end(), group.rank), members.end());
  MTL_RETURN_IF_ERROR(pending.mesh->connect(std::move(addresses), members));
  if (is_flat) {
    communicator->reset(new gloo::GlooCommunicator(std::move(pending.mesh)));
  } else {
    communicator->reset(
        new gloo::HierarchicalCommunicator(std::move(topology), std::move(pending.mesh), std::move(local)));
  }
  return ok_status();
}

// (job, {mesh, addresses of all members by position, isStaged}) => {group, engine}
Napi::Value connect_group(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  int64_t handle;
  std::vector<std::string> addresses;
  bool is_staged;
  if (job == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.integer("mesh", &handle) || !fields.list_of_bytes("addresses", &addresses) ||
      !fields.flag("isStaged", &is_staged)) {
    return {};
  }
  Pending pending = take(handle);
  if (pending.mesh == nullptr || addresses.size() != pending.host_of.size()) {
    throw_status(info.Env(), error_status("MTL_ARGUMENT", "no open mesh %lld, or not an address for every member",
                                          static_cast<long long>(handle)));
    return {};
  }
  GroupIdentity identity = pending.mesh->group();
  std::unique_ptr<Communicator> communicator;
  Status status = connect(job, std::move(pending), std::move(addresses), &communicator);
  if (status.ok()) status = stage_if(is_staged, &communicator);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return opened_group(info, job, std::move(identity), std::move(communicator));
}

void close_mesh(const Napi::CallbackInfo& info) {
  int64_t handle;
  if (read_integer(info, 0, &handle)) take(handle);
}

void register_gloo_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("glooProblem", Napi::Function::New(env, problem));
  exports.Set("openGlooMesh", Napi::Function::New(env, open_mesh));
  exports.Set("connectGlooGroup", Napi::Function::New(env, connect_group));
  exports.Set("closeGlooMesh", Napi::Function::New(env, close_mesh));
}

const Registration gloo_registration(register_gloo_functions);

}  // namespace
}  // namespace mtl::comm::bindings
