#include "store/store_server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/clock.h"
#include "platforms/platform.h"
#include "store/proof.h"
#include "store/sha256.h"

namespace mtl::comm::store {
namespace {

constexpr size_t kMaxUnsentBytes = size_t{64} << 20;  // the limit of data that a member has not read
constexpr size_t kMaxQuestions = 64;                  // the limit of requests of one member that wait for a key
constexpr size_t kServerReadBytes = 65536;

Message answer_to(uint64_t id, std::string value = {}, int64_t number = 0) {
  Message answer;
  answer.kind = MessageKind::kAnswer;
  answer.id = id;
  answer.value = std::move(value);
  answer.number = number;
  return answer;
}

Message abort_message(const Failure& failure) {
  Message message;
  message.kind = MessageKind::kAbort;
  message.number = failure.rank;
  message.key = failure.code.substr(0, kMaxKeyBytes);
  message.value = failure.message.substr(0, kMaxValueBytes);
  return message;
}

}  // namespace

struct StoreServer::Connection {
  Descriptor socket;
  std::string peer;
  MessageReader reader{kMaxStrangerFrameBytes};
  std::optional<Seal> seal;  // the seal of sent messages, after the peer has proved that it knows the secret
  std::string nonce;
  std::string unsent;
  int rank = -1;
  bool is_member = false;  // true after the peer has proved that it knows the secret
  bool has_left = false;
  bool is_distrusted = false;  // received data is discarded
  bool is_closing = false;  // true if the connection is closed as soon as all unsent data has been sent
  int64_t opened_ns = 0;
  int64_t heard_ns = 0;
  int64_t told_ns = 0;  // when this server last sent data to the member
  size_t num_questions = 0;
};

StoreServer::StoreServer(ServerOptions options)
    : options_(std::move(options)), members_(static_cast<size_t>(options_.world_size), Member::kNever) {}

Status StoreServer::start(ServerOptions options, std::unique_ptr<StoreServer>* server) {
  std::unique_ptr<StoreServer> created(new StoreServer(std::move(options)));
  MTL_RETURN_IF_ERROR(
      listen_on(created->options_.address, created->options_.ports, &created->listener_, &created->port_));
  created->wake_ = Descriptor(platform::create_event());
  if (!created->wake_.is_open()) return error_status("MTL_STORE", "there is no event: %s", std::strerror(errno));
  created->thread_ = std::thread(&StoreServer::serve, created.get());
  *server = std::move(created);
  return ok_status();
}

StoreServer::~StoreServer() {
  is_stopping_.store(true);
  if (!thread_.joinable()) return;
  wake();
  thread_.join();
}

void StoreServer::wake() { platform::raise_event(wake_.get()); }

void StoreServer::abort(Failure failure) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (requested_.ok()) requested_ = Status(std::move(failure));
  }
  wake();
}

Status StoreServer::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

bool StoreServer::wait_until_left(int64_t timeout_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [this] {
    return std::find(members_.begin(), members_.end(), Member::kThere) == members_.end();
  });
}

void StoreServer::set_member(int rank, Member state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  members_[static_cast<size_t>(rank)] = state;
  changed_.notify_all();
}

void StoreServer::serve() {
  last_check_ns_ = now_ns();
  // the interval is short enough to notice the end of every time limit
  const int64_t shortest_ns = std::min(options_.heartbeat_limit_ns, options_.join_limit_ns);
  const int poll_ms = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(500, shortest_ns / kMillisecond / 8)));
  while (!is_stopping_.load()) {
    std::vector<pollfd> descriptors{{wake_.get(), POLLIN, 0}};
    // a listener that failed because no descriptors were left is polled again after a pause
    descriptors.push_back({has_listener_failed_ ? -1 : listener_.get(), POLLIN, 0});
    for (const auto& connection : connections_) {
      const short events = static_cast<short>(POLLIN | (connection->unsent.empty() ? 0 : POLLOUT));
      descriptors.push_back({connection->socket.get(), events, 0});
    }
    poll(descriptors.data(), descriptors.size(), poll_ms);
    check_times();
    const size_t num_polled = descriptors.size() - 2;
    for (size_t index = 0; index < num_polled; ++index) {
      Connection* connection = connections_[index].get();
      const short events = descriptors[index + 2].revents;
      if (connection->socket.is_open() && (events & POLLOUT) != 0) flush(connection);
      if (connection->socket.is_open() && (events & ~POLLOUT) != 0) read_from(connection);
    }
    // Members' messages are handled before the requests of other threads, because they explain more than a
    // report that a member has ended.
    if (descriptors[0].revents != 0) obey();
    has_listener_failed_ = false;
    if (descriptors[1].revents != 0) accept_all();
    sweep();
  }
}

// Executes the requests of other threads.
void StoreServer::obey() {
  platform::clear_event(wake_.get());
  Status requested;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    requested = requested_;
  }
  if (!requested.ok()) fail(requested.failure(), nullptr);
}

void StoreServer::accept_all() {
  for (int count = 0; count < 64; ++count) {  // at most 64 at a time, so that members' messages are read in between
    std::string peer;
    errno = 0;
    Descriptor socket = accept_from(listener_.get(), &peer);
    if (!socket.is_open()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        has_listener_failed_ = true;
        log_.refuse("a new peer", std::strerror(errno));
      }
      return;
    }
    Connection* oldest = nullptr;
    int num_strangers = 0;
    for (const auto& connection : connections_) {
      if (connection->is_member || !connection->socket.is_open()) continue;
      ++num_strangers;
      if (oldest == nullptr) oldest = connection.get();
    }
    if (num_strangers >= options_.max_strangers) refuse_stranger(oldest, "too many connections that prove nothing");
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(socket);
    connection->peer = std::move(peer);
    connection->nonce = random_nonce();
    connection->opened_ns = connection->heard_ns = now_ns();
    Message hello;
    hello.kind = MessageKind::kHello;
    hello.number = kProtocolVersion;
    hello.value = connection->nonce;
    connections_.push_back(std::move(connection));
    if (hello.value.empty()) {
      refuse_stranger(connections_.back().get(), "the kernel has no random numbers");
    } else {
      send(connections_.back().get(), hello);
    }
  }
}

void StoreServer::read_from(Connection* connection) {
  char bytes[kServerReadBytes];
  const long count = receive_some(connection->socket.get(), bytes, sizeof(bytes));
  if (count < 0) return lose(connection, "has ended without leaving the job");
  if (count == 0) return;
  if (connection->is_closing || connection->is_distrusted) return;
  connection->reader.append(bytes, static_cast<size_t>(count));
  Message message;
  while (connection->socket.is_open() && !connection->is_closing && !connection->is_distrusted) {
    const MessageReader::Result result = connection->reader.next(&message);
    if (result == MessageReader::Result::kNeedsMore) return;
    if (result == MessageReader::Result::kMalformed) {
      if (!connection->is_member) return refuse_stranger(connection, connection->reader.problem());
      return lose(connection, (std::string("sent the store ") + connection->reader.problem()).c_str());
    }
    if (result == MessageReader::Result::kForged) return distrust(connection);
    // only a complete message proves that the member is alive, because any host on the network path could
    // send single bytes
    connection->heard_ns = now_ns();
    handle(connection, message);
  }
}

void StoreServer::handle(Connection* connection, const Message& message) {
  if (!connection->is_member) {
    if (message.kind == MessageKind::kJoin) return join(connection, message);
    return refuse_stranger(connection, "a message before a proof of the secret");
  }
  switch (message.kind) {
    case MessageKind::kSet: return set(connection, message);
    case MessageKind::kGet: return get(connection, message);
    case MessageKind::kAdd: return add(connection, message);
    case MessageKind::kCancel: return cancel(connection, message.id);
    case MessageKind::kHeartbeat: return;
    case MessageKind::kAbort: {
      Failure failure;
      failure.code = message.key;
      failure.message = message.value;
      failure.rank = static_cast<int>(message.number);
      fail(std::move(failure), connection);
      return send(connection, answer_to(message.id));  // sent after the others were told, because the sender may end when it receives the answer
    }
    case MessageKind::kGoodbye:
      connection->has_left = true;
      connection->is_closing = true;
      set_member(connection->rank, Member::kLeft);
      return flush(connection);
    default: return lose(connection, "sent the store what only the store sends");
  }
}

void StoreServer::join(Connection* connection, const Message& message) {
  if (message.value.size() != kNonceBytes + kDigestBytes) return refuse_stranger(connection, "a proof of another size");
  const Handshake handshake{connection->nonce, message.value.substr(0, kNonceBytes), message.number, message.id};
  if (!is_same_secret(derive(options_.secret, Purpose::kProof, handshake), message.value.substr(kNonceBytes))) {
    refuse(connection, Refusal::kSecret, "the proof is of another secret");
    return refuse_stranger(connection, "it does not know the secret of the job");
  }
  connection->seal.emplace(derive(options_.secret, Purpose::kServerKey, handshake));
  connection->reader.set_seal(Seal(derive(options_.secret, Purpose::kClientKey, handshake)));
  const uint64_t expected = attempt_and_size(options_.attempt, options_.world_size);
  if (message.id >> 32 != expected >> 32) {
    return refuse(connection, Refusal::kAttempt,
                  format_text("the store serves attempt %d of the job, not %u", options_.attempt,
                              static_cast<unsigned>(message.id >> 32)));
  }
  if (message.id != expected || message.number < 0 || message.number >= options_.world_size) {
    return refuse(connection, Refusal::kMember,
                  format_text("%s %lld of %u in a job of %d", options_.member.c_str(),
                              static_cast<long long>(message.number), static_cast<unsigned>(message.id),
                              options_.world_size));
  }
  const int rank = static_cast<int>(message.number);
  if (members_[static_cast<size_t>(rank)] != Member::kNever) {
    return refuse(connection, Refusal::kMember,
                  format_text("%s %d has joined already: two processes have its number", options_.member.c_str(), rank));
  }
  connection->is_member = true;
  connection->rank = rank;
  connection->reader.set_max_frame_bytes(kMaxFrameBytes);
  set_member(rank, Member::kThere);
  Message welcome;
  welcome.kind = MessageKind::kWelcome;
  welcome.number = options_.heartbeat_limit_ns / kMillisecond;
  welcome.id = static_cast<uint64_t>(options_.host_rank + 1);
  send(connection, welcome);
  if (!failure_.ok()) send(connection, abort_message(failure_.failure()));
}

void StoreServer::set(Connection* connection, const Message& message) {
  if (values_.count(message.key) != 0) {
    return refuse(connection, Refusal::kLimit, "the key " + message.key + " was set before", message.id);
  }
  if (store(connection, message.id, message.key, message.value)) send(connection, answer_to(message.id));
}

// Stores a value and answers the requests that wait for it.
bool StoreServer::store(Connection* connection, uint64_t id, const std::string& key, const std::string& value) {
  const auto found = values_.find(key);
  const size_t freed = found == values_.end() ? 0 : key.size() + found->second.size();
  const bool is_full = found == values_.end() && values_.size() >= options_.max_keys;
  if (is_full || num_bytes_ - freed + key.size() + value.size() > options_.max_bytes) {
    refuse(connection, Refusal::kLimit,
           format_text("the store is full: %zu keys of %zu, %zu bytes of %zu", values_.size(), options_.max_keys, num_bytes_,
                       options_.max_bytes),
           id);
    return false;
  }
  num_bytes_ += key.size() + value.size() - freed;
  values_[key] = value;
  const auto waiting = questions_.find(key);
  if (waiting == questions_.end()) return true;
  const std::vector<Question> questions = std::move(waiting->second);
  questions_.erase(waiting);
  for (const Question& question : questions) {
    --question.from->num_questions;
    send(question.from, answer_to(question.id, value));
  }
  return true;
}

void StoreServer::get(Connection* connection, const Message& message) {
  const auto found = values_.find(message.key);
  if (found != values_.end()) return send(connection, answer_to(message.id, found->second));
  if (message.number == 0) {
    Message absent;
    absent.kind = MessageKind::kAbsent;
    absent.id = message.id;
    return send(connection, absent);
  }
  if (connection->num_questions >= kMaxQuestions) {
    return refuse(connection, Refusal::kLimit, format_text("more than %zu keys waited for at once", kMaxQuestions), message.id);
  }
  ++connection->num_questions;
  questions_[message.key].push_back({connection, message.id});
}

void StoreServer::add(Connection* connection, const Message& message) {
  const auto found = values_.find(message.key);
  int64_t sum = 0;
  if (found != values_.end()) {
    if (found->second.size() != sizeof(sum)) {
      return refuse(connection, Refusal::kLimit, "the key " + message.key + " is not a counter", message.id);
    }
    std::memcpy(&sum, found->second.data(), sizeof(sum));
  }
  if (__builtin_add_overflow(sum, message.number, &sum)) {
    return refuse(connection, Refusal::kLimit, "the counter " + message.key + " ran over", message.id);
  }
  std::string value(sizeof(sum), '\0');
  std::memcpy(&value[0], &sum, sizeof(sum));
  if (store(connection, message.id, message.key, value)) send(connection, answer_to(message.id, {}, sum));
}

void StoreServer::cancel(Connection* connection, uint64_t id) {
  for (auto entry = questions_.begin(); entry != questions_.end(); ++entry) {
    std::vector<Question>& waiting = entry->second;
    const auto found = std::find_if(waiting.begin(), waiting.end(), [&](const Question& question) {
      return question.from == connection && question.id == id;
    });
    if (found == waiting.end()) continue;
    waiting.erase(found);
    --connection->num_questions;
    if (waiting.empty()) questions_.erase(entry);
    return;
  }
}

void StoreServer::send(Connection* connection, const Message& message) {
  if (!connection->socket.is_open()) return;
  connection->unsent += encode(message, connection->seal ? &*connection->seal : nullptr);
  connection->told_ns = now_ns();
  flush(connection);
}

void StoreServer::flush(Connection* connection) {
  while (connection->socket.is_open() && !connection->unsent.empty()) {
    const long sent = send_some(connection->socket.get(), connection->unsent.data(), connection->unsent.size());
    if (sent < 0) {
      // a message that was sent before the connection closed may be an abort, which explains more than the
      // end of the connection; the reads return both
      connection->unsent.clear();
      break;
    }
    if (sent == 0) break;
    connection->unsent.erase(0, static_cast<size_t>(sent));
  }
  if (connection->unsent.size() > kMaxUnsentBytes) return lose(connection, "does not read what the store sends");
  if (connection->unsent.empty() && connection->is_closing) end(connection);
}

// Sends a rejection; closes the connection if it does not belong to a member.
void StoreServer::refuse(Connection* connection, Refusal refusal, const std::string& why, uint64_t id) {
  Message message;
  message.kind = MessageKind::kRefusal;
  message.id = id;
  message.number = static_cast<int64_t>(refusal);
  message.value = why;
  connection->is_closing = !connection->is_member;
  send(connection, message);
}

// Rejects an unauthenticated connection and logs the rejection. Such a connection never makes the job fail.
void StoreServer::refuse_stranger(Connection* connection, const std::string& why) {
  log_.refuse(connection->peer, why);
  num_refused_.store(log_.num_refused());
  end(connection);
}

// Makes the job fail. The first failure is kept, and is reported to all members except its sender.
void StoreServer::fail(Failure failure, const Connection* origin) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = Status(failure);
    changed_.notify_all();
  }
  const Message message = abort_message(failure);
  for (size_t index = 0; index < connections_.size(); ++index) {
    Connection* connection = connections_[index].get();
    if (connection != origin && connection->is_member) send(connection, message);
  }
}

// Handles the end of a connection: the job fails unless the connection's member has left the job before.
void StoreServer::lose(Connection* connection, const char* how) {
  const bool is_failure = connection->is_member && !connection->has_left;
  if (!connection->is_member && !connection->is_closing) {
    return refuse_stranger(connection, "it ended without a proof of the secret");
  }
  end(connection);
  if (!is_failure) return;
  set_member(connection->rank, Member::kLost);
  Failure failure;
  failure.code = "MTL_RANK_DIED";
  failure.rank = connection->rank;
  failure.message = format_text("%s %d (%s) %s", options_.member.c_str(), connection->rank, connection->peer.c_str(), how);
  fail(std::move(failure), connection);
}

// Handles a message that claims to be from a member but is not. All members, including this member, are told.
// The member's socket stays open until the member has closed its end or is silent for too long, because data
// that arrives at a closed socket could discard the abort on its way to the member.
void StoreServer::distrust(Connection* connection) {
  set_member(connection->rank, Member::kLost);
  connection->has_left = true;
  connection->is_distrusted = true;
  Failure failure;
  failure.code = "MTL_STORE_AUTHENTICATION";
  failure.rank = connection->rank;
  failure.message = format_text("the store received %s that should be from %s %d (%s): %s", connection->reader.problem(),
                                options_.member.c_str(), connection->rank, connection->peer.c_str(), kTamperingRemedy);
  fail(std::move(failure), nullptr);
}

// Closes a connection; sweep() deletes its object later.
void StoreServer::end(Connection* connection) {
  if (connection->num_questions > 0) {
    for (auto entry = questions_.begin(); entry != questions_.end();) {
      std::vector<Question>& waiting = entry->second;
      waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                                   [&](const Question& question) { return question.from == connection; }),
                    waiting.end());
      entry = waiting.empty() ? questions_.erase(entry) : std::next(entry);
    }
    connection->num_questions = 0;
  }
  connection->socket.reset();
}

void StoreServer::sweep() {
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(),
                                    [](const auto& connection) { return !connection->socket.is_open(); }),
                     connections_.end());
}

// Sends heartbeats. Closes the connection to a silent member, and to a peer that takes too long to prove that
// it knows the secret.
void StoreServer::check_times() {
  const int64_t now = now_ns();
  // this process was suspended (SIGSTOP, or the whole machine slept) and has not yet read the members'
  // messages, so no member counts as silent
  const bool has_slept = now - last_check_ns_ > options_.heartbeat_limit_ns / 2;
  last_check_ns_ = now;
  for (size_t index = 0; index < connections_.size(); ++index) {
    Connection* connection = connections_[index].get();
    if (!connection->socket.is_open()) continue;
    if (has_slept) connection->heard_ns = connection->opened_ns = now;
    if (!connection->is_member) {
      if (now - connection->opened_ns > options_.join_limit_ns) {
        refuse_stranger(connection, "no proof of the secret in time");
      }
      continue;
    }
    if (now - connection->told_ns > options_.heartbeat_limit_ns / 4) send(connection, Message{});
    if (!connection->socket.is_open() || now - connection->heard_ns <= options_.heartbeat_limit_ns) continue;
    end(connection);
    if (connection->has_left) continue;
    set_member(connection->rank, Member::kLost);
    Failure failure;
    failure.code = "MTL_HEARTBEAT";
    failure.rank = connection->rank;
    failure.waited_ms = static_cast<double>(now - connection->heard_ns) / kMillisecond;
    failure.message = format_text("%s %d (%s) has been silent for %.1f s (limit %.1f s): it is stopped, or its host is lost",
                                  options_.member.c_str(), connection->rank, connection->peer.c_str(),
                                  failure.waited_ms / 1000,
                                  static_cast<double>(options_.heartbeat_limit_ns) / 1e9);
    fail(std::move(failure), connection);
  }
}

}  // namespace mtl::comm::store
