// The functions createStoreServer, portOfStoreServer, failureOfStoreServer, abortStoreServer,
// closeStoreServer, openStoreClient, setInStore, getFromStore, awaitInStore, findInStore, addInStore,
// tellStore, closeStoreClient, endWithParent.
#include <cstring>

#include "bindings/jobs.h"
#include "core/clock.h"
#include "platforms/platform.h"
#include "bindings/stores.h"
#include "store/store_server.h"

namespace mtl::comm::bindings {
namespace {

// All stores of the process. Never destroyed, because threads of objects that are still open run until the
// process exits.
struct Stores {
  std::mutex mutex;
  int64_t next_handle = 1;
  std::map<int64_t, std::shared_ptr<store::StoreServer>> servers;
  std::map<int64_t, std::weak_ptr<store::StoreClient>> clients;  // owned by their jobs
};

Stores& stores() {
  static Stores* const all = new Stores;
  return *all;
}

std::shared_ptr<store::StoreServer> read_server(const Napi::CallbackInfo& info) {
  int64_t handle;
  if (!read_integer(info, 0, &handle)) return nullptr;
  const std::lock_guard<std::mutex> lock(stores().mutex);
  const auto found = stores().servers.find(handle);
  if (found != stores().servers.end()) return found->second;
  throw_status(info.Env(), error_status("MTL_CLOSED", "store server %lld is closed", static_cast<long long>(handle)));
  return nullptr;
}

std::shared_ptr<store::StoreClient> read_client(const Napi::CallbackInfo& info) {
  int64_t handle;
  return read_integer(info, 0, &handle) ? find_store_client(info.Env(), handle) : nullptr;
}

// ({address, ports, secret, worldSize, attempt, hostRank, heartbeatLimitMs, member}) => server
Napi::Value create_server(const Napi::CallbackInfo& info) {
  store::ServerOptions options;
  int64_t world_size, attempt, host_rank;
  double limit_ms;
  Fields fields(info, 0);
  if (!fields.text("address", &options.address) || !fields.integers("ports", &options.ports) ||
      !fields.text("secret", &options.secret) || !fields.integer("worldSize", &world_size) ||
      !fields.integer("attempt", &attempt) || !fields.integer("hostRank", &host_rank) ||
      !fields.number("heartbeatLimitMs", &limit_ms) || !fields.text("member", &options.member)) {
    return {};
  }
  options.world_size = static_cast<int>(world_size);
  options.attempt = static_cast<int>(attempt);
  options.host_rank = static_cast<int>(host_rank);
  options.heartbeat_limit_ns = static_cast<int64_t>(limit_ms * kMillisecond);
  std::unique_ptr<store::StoreServer> server;
  const Status status = store::StoreServer::start(std::move(options), &server);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  const std::lock_guard<std::mutex> lock(stores().mutex);
  const int64_t handle = stores().next_handle++;
  stores().servers[handle] = std::move(server);
  return Napi::Number::New(info.Env(), static_cast<double>(handle));
}

Napi::Value port_of_server(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreServer> server = read_server(info);
  return server == nullptr ? Napi::Value() : Napi::Number::New(info.Env(), server->port());
}

Napi::Value failure_of_server(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreServer> server = read_server(info);
  if (server == nullptr) return {};
  const Status status = server->failure();
  if (status.ok()) return info.Env().Undefined();
  Napi::Object failure = Napi::Object::New(info.Env());
  failure.Set("message", status.failure().message);
  set_failure(failure, status.failure());
  return failure;
}

// (server, {rank, code, message})
void abort_server(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreServer> server = read_server(info);
  int64_t rank;
  Failure failure;
  if (server == nullptr) return;
  Fields fields(info, 1);
  if (!fields.integer("rank", &rank) || !fields.text("code", &failure.code) ||
      !fields.text("message", &failure.message)) {
    return;
  }
  failure.rank = static_cast<int>(rank);
  server->abort(std::move(failure));
}

// (server, timeoutMs): waits until all ranks have left the server, then closes the server
void close_server(const Napi::CallbackInfo& info) {
  double timeout_ms;
  std::shared_ptr<store::StoreServer> server = read_server(info);
  if (server == nullptr || !read_number(info, 1, &timeout_ms)) return;
  server->wait_until_left(static_cast<int64_t>(timeout_ms * kMillisecond));
  const std::lock_guard<std::mutex> lock(stores().mutex);
  stores().servers.erase(info[0].As<Napi::Number>().Int64Value());
}

// (job, {address, ports, secret, worldSize, attempt, timeoutMs, member}) => client
Napi::Value open_client(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  store::ClientOptions options;
  int64_t world_size, attempt;
  double timeout_ms;
  if (job == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.text("address", &options.address) || !fields.integers("ports", &options.ports) ||
      !fields.text("secret", &options.secret) || !fields.integer("worldSize", &world_size) ||
      !fields.integer("attempt", &attempt) || !fields.number("timeoutMs", &timeout_ms) ||
      !fields.text("member", &options.member)) {
    return {};
  }
  options.world_size = static_cast<int>(world_size);
  options.attempt = static_cast<int>(attempt);
  options.timeout_ns = static_cast<int64_t>(timeout_ms * kMillisecond);
  std::shared_ptr<store::StoreClient> client;
  const Status status = store::StoreClient::connect(&job->state, options, &client);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  job->kept.push_back(client);
  const std::lock_guard<std::mutex> lock(stores().mutex);
  const int64_t handle = stores().next_handle++;
  stores().clients[handle] = client;
  return Napi::Number::New(info.Env(), static_cast<double>(handle));
}

Napi::Value bytes_of(const Napi::Env& env, const std::string& value) {
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, value.size());
  std::memcpy(bytes.Data(), value.data(), value.size());
  return bytes;
}

// (client, {key, value})
void set(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreClient> client = read_client(info);
  std::string key, value;
  if (client == nullptr) return;
  Fields fields(info, 1);
  if (!fields.text("key", &key) || !fields.bytes("value", &value)) return;
  const Status status = client->set(key, value);
  if (!status.ok()) throw_status(info.Env(), status);
}

// (client, {key, timeoutMs}) => value
Napi::Value get(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreClient> client = read_client(info);
  std::string key, value;
  double timeout_ms;
  if (client == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.text("key", &key) || !fields.number("timeoutMs", &timeout_ms)) return {};
  const Status status = client->get(key, static_cast<int64_t>(timeout_ms * kMillisecond), &value);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return bytes_of(info.Env(), value);
}

// Waits for a key on a thread of Node's thread pool, so that the event loop is not blocked.
class WaitForKey : public Napi::AsyncWorker {
 public:
  WaitForKey(Napi::Env env, std::shared_ptr<store::StoreClient> client, std::string key, int64_t timeout_ns)
      : Napi::AsyncWorker(env),
        promise_(Napi::Promise::Deferred::New(env)),
        client_(std::move(client)),
        key_(std::move(key)),
        timeout_ns_(timeout_ns) {}
  Napi::Promise promise() const { return promise_.Promise(); }
  void Execute() override { status_ = client_->get(key_, timeout_ns_, &value_); }
  void OnOK() override {
    if (status_.ok()) return promise_.Resolve(bytes_of(Env(), value_));
    Napi::Error error = Napi::Error::New(Env(), status_.failure().message);
    set_failure(error.Value(), status_.failure());
    promise_.Reject(error.Value());
  }

 private:
  Napi::Promise::Deferred promise_;
  const std::shared_ptr<store::StoreClient> client_;
  const std::string key_;
  const int64_t timeout_ns_;
  std::string value_;
  Status status_;
};

// (client, {key, timeoutMs}) => promise of the value. The promise settles before the client is closed, and
// thus before the job may be closed.
Napi::Value await_key(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreClient> client = read_client(info);
  std::string key;
  double timeout_ms;
  if (client == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.text("key", &key) || !fields.number("timeoutMs", &timeout_ms)) return {};
  WaitForKey* worker =
      new WaitForKey(info.Env(), client, std::move(key), static_cast<int64_t>(timeout_ms * kMillisecond));
  const Napi::Promise promise = worker->promise();
  worker->Queue();  // the worker deletes itself when it finishes
  return promise;
}

Napi::Value find(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreClient> client = read_client(info);
  std::string key, value;
  bool is_there = false;
  if (client == nullptr || !read_text(info, 1, &key)) return {};
  const Status status = client->find(key, &is_there, &value);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return is_there ? bytes_of(info.Env(), value) : info.Env().Undefined();
}

// (client, {key, delta}) => sum
Napi::Value add(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreClient> client = read_client(info);
  std::string key;
  int64_t delta, sum = 0;
  if (client == nullptr) return {};
  Fields fields(info, 1);
  if (!fields.text("key", &key) || !fields.integer("delta", &delta)) return {};
  const Status status = client->add(key, delta, &sum);
  if (!status.ok()) return throw_status(info.Env(), status), Napi::Value();
  return Napi::Number::New(info.Env(), static_cast<double>(sum));
}

// (client, timeoutMs): after an abort, waits until the store has informed the other ranks
void tell(const Napi::CallbackInfo& info) {
  double timeout_ms;
  const std::shared_ptr<store::StoreClient> client = read_client(info);
  if (client == nullptr || !read_number(info, 1, &timeout_ms)) return;
  client->wait_until_told(static_cast<int64_t>(timeout_ms * kMillisecond));
}

void close_client(const Napi::CallbackInfo& info) {
  const std::shared_ptr<store::StoreClient> client = read_client(info);
  if (client != nullptr) client->close();
}

// (parent): makes the system end this process when its parent process `parent` ends; if the parent has
// already ended, the system ends this process immediately
void end_with_parent(const Napi::CallbackInfo& info) {
  int64_t parent;
  if (!read_integer(info, 0, &parent)) return;
  const Status status = platform::end_with_parent(parent);
  if (!status.ok()) throw_status(info.Env(), status);
}

void register_store_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("createStoreServer", Napi::Function::New(env, create_server));
  exports.Set("portOfStoreServer", Napi::Function::New(env, port_of_server));
  exports.Set("failureOfStoreServer", Napi::Function::New(env, failure_of_server));
  exports.Set("abortStoreServer", Napi::Function::New(env, abort_server));
  exports.Set("closeStoreServer", Napi::Function::New(env, close_server));
  exports.Set("openStoreClient", Napi::Function::New(env, open_client));
  exports.Set("setInStore", Napi::Function::New(env, set));
  exports.Set("getFromStore", Napi::Function::New(env, get));
  exports.Set("awaitInStore", Napi::Function::New(env, await_key));
  exports.Set("findInStore", Napi::Function::New(env, find));
  exports.Set("addInStore", Napi::Function::New(env, add));
  exports.Set("tellStore", Napi::Function::New(env, tell));
  exports.Set("closeStoreClient", Napi::Function::New(env, close_client));
  exports.Set("endWithParent", Napi::Function::New(env, end_with_parent));
}

const Registration store_registration(register_store_functions);

}  // namespace
std::shared_ptr<store::StoreClient> find_store_client(const Napi::Env& env, int64_t handle) {
  const std::lock_guard<std::mutex> lock(stores().mutex);
  const auto found = stores().clients.find(handle);
  if (found != stores().clients.end()) {
    if (std::shared_ptr<store::StoreClient> client = found->second.lock()) return client;
  }
  throw_status(env, error_status("MTL_CLOSED", "store client %lld is closed", static_cast<long long>(handle)));
  return nullptr;
}

}  // namespace mtl::comm::bindings
