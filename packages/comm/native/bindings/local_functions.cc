// createHostBoard, openHostBoard, joinHost, createLocalGroup
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "bindings/local_groups.h"
#include "bindings/tensors.h"
#include "platforms/platform.h"

namespace mtl::comm::bindings {
namespace {

Napi::Value finish_board(const Napi::CallbackInfo& info, Job* job, const Status& status) {
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  local::HostBoard* board = job->board.get();
  job->state.on_abort([board](const Failure& reason) { board->write_abort(reason); });
  const local::SegmentAddress& address = board->address();
  return Napi::String::New(info.Env(), format_text("%" PRId32 ":%" PRId32 ":%" PRIu64 ":%" PRIu64, address.pid,
                                                   address.fd, address.nonce, address.bytes));
}

// (job, ranks of this host) => the board's address, for the other ranks
Napi::Value create_board(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  std::vector<int> ranks;
  if (job == nullptr || !read_integers(info, 1, &ranks)) return {};
  return finish_board(info, job, local::HostBoard::create(&job->state, std::move(ranks), &job->board));
}

// (job, {ranks of this host, address})
Napi::Value open_board(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  std::vector<int> ranks;
  std::string text;
  if (job == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.integers("ranks", &ranks) || !fields.text("address", &text)) return {};
  local::SegmentAddress address;
  const char* format = "%" SCNd32 ":%" SCNd32 ":%" SCNu64 ":%" SCNu64;
  if (std::sscanf(text.c_str(), format, &address.pid, &address.fd, &address.nonce, &address.bytes) != 4) {
    throw_status(info.Env(), error_status("MTL_SEGMENT", "\"%s\" is not the address of a host's board", text.c_str()));
    return {};
  }
  return finish_board(info, job, local::HostBoard::open(&job->state, std::move(ranks), address, &job->board));
}

// (job, {timeoutMs, graceMs}): waits for the ranks of this host and starts the watchdog
void join_host(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  double timeout_ms, grace_ms;
  if (job == nullptr) return;
  Fields fields(info, 1);
  if (!fields.number("timeoutMs", &timeout_ms) || !fields.number("graceMs", &grace_ms)) return;
  if (job->board == nullptr) return throw_status(info.Env(), error_status("MTL_ARGUMENT", "the job has no board"));
  Status status = job->board->join(static_cast<int64_t>(timeout_ms * kMillisecond));
  if (status.ok()) {
    status = local::Watchdog::start(&job->state, job->board.get(), static_cast<int64_t>(grace_ms * kMillisecond),
                                    &job->watchdog);
  }
  if (!status.ok()) throw_status(info.Env(), status);
}

// FNV-1a hash, for board keys that all members compute identically
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3u;
  return hash == 0 ? 1 : hash;
}

bool has_core_for_each(int num_ranks) { return platform::num_processors() >= num_ranks; }

// Creates or opens the shared memory of a group. The first member creates the memory without waiting. Groups
// that overlap may therefore be created in any order, if all their common members use the same order.
Status connect(Job* job, const GroupIdentity& identity, const local::LocalOptions& options, uint64_t key,
               std::unique_ptr<local::LocalCommunicator>* communicator) {
  local::HostBoard& board = *job->board;
  if (identity.rank == 0) {
    MTL_RETURN_IF_ERROR(local::LocalCommunicator::create(identity, options, communicator));
    return board.publish(key, (*communicator)->address());
  }
  const auto found = std::find(board.ranks().begin(), board.ranks().end(), identity.ranks.front());
  const int first = static_cast<int>(found - board.ranks().begin());
  local::SegmentAddress address;
  MTL_RETURN_IF_ERROR(board.find(first, key, identity.name.c_str(), identity.timeout_ns, &address));
  const Status opened = local::LocalCommunicator::open(identity, options, address, communicator);
  // the first member keeps the memory open until its process ends, so that members can still open it later
  return opened.ok() ? opened : board.reason_for(opened, first, identity.name.c_str());
}

// (job, {name, ranks, timeoutMs, bufferBytes, isStaged}) => {group, engine}. All ranks must be on this host.
Napi::Value create_local_group(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  GroupIdentity identity;
  double timeout_ms;
  int64_t buffer_bytes;
  bool is_staged;
  if (job == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.text("name", &identity.name) || !fields.integers("ranks", &identity.ranks) ||
      !fields.number("timeoutMs", &timeout_ms) || !fields.integer("bufferBytes", &buffer_bytes) ||
      !fields.flag("isStaged", &is_staged)) {
    return {};
  }
  identity.timeout_ns = static_cast<int64_t>(timeout_ms * kMillisecond);
  std::unique_ptr<local::LocalCommunicator> local;
  Status status = connect_local(job, &identity, static_cast<uint64_t>(buffer_bytes), &local);
  std::unique_ptr<Communicator> communicator = std::move(local);
  if (status.ok()) status = stage_if(is_staged, &communicator);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  // if this group closes before all members have opened its memory, its entry stays on the board, so that
  // these members see that the first member has left
  return opened_group(info, job, std::move(identity), std::move(communicator));
}

void register_local_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("createHostBoard", Napi::Function::New(env, create_board));
  exports.Set("openHostBoard", Napi::Function::New(env, open_board));
  exports.Set("joinHost", Napi::Function::New(env, join_host));
  exports.Set("createLocalGroup", Napi::Function::New(env, create_local_group));
}

const Registration local_registration(register_local_functions);

}  // namespace

Status connect_local(Job* job, GroupIdentity* identity, uint64_t buffer_bytes,
                     std::unique_ptr<local::LocalCommunicator>* communicator) {
  std::string text = identity->name;
  bool is_on_host = job->board != nullptr;
  for (const int rank : identity->ranks) {
    text += " " + std::to_string(rank);
    if (is_on_host) {
      const std::vector<int>& host = job->board->ranks();
      is_on_host = std::find(host.begin(), host.end(), rank) != host.end();
    }
  }
  const auto own = std::find(identity->ranks.begin(), identity->ranks.end(), job->state.rank());
  identity->rank = static_cast<int>(own - identity->ranks.begin());
  if (!is_on_host || own == identity->ranks.end()) {
    return error_status("MTL_GROUP", "group %s is not one of ranks of this host, rank %d among them", text.c_str(),
                        job->state.rank());
  }
  const uint64_t key = hash_of(text + " " + std::to_string(job->num_created[text]++));
  local::LocalOptions options;
  options.buffer_bytes = buffer_bytes;
  options.has_core_for_each = has_core_for_each(job->board->size());
  return connect(job, *identity, options, key, communicator);
}

}  // namespace mtl::comm::bindings
