#include "store/store_client.h"

#include <poll.h>
#include <sys/socket.h>
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

constexpr int64_t kSecond = 1000 * kMillisecond;
constexpr int64_t kAnswerLimitNs = 60 * kSecond;  // the time limit for a request that the store answers immediately
constexpr size_t kClientReadBytes = 65536;

// Reads one complete message from a connection that has no thread yet.
Status read_message(int socket, MessageReader* reader, int64_t deadline, Message* message) {
  for (;;) {
    const MessageReader::Result result = reader->next(message);
    if (result == MessageReader::Result::kMessage) return ok_status();
    if (result == MessageReader::Result::kMalformed) return error_status("MTL_STORE", "it sent %s", reader->problem());
    if (result == MessageReader::Result::kForged) return error_status("MTL_STORE_AUTHENTICATION", "%s", reader->problem());
    const int64_t left_ns = deadline - now_ns();
    pollfd event{socket, POLLIN, 0};
    if (left_ns <= 0 || poll(&event, 1, static_cast<int>(left_ns / kMillisecond + 1)) == 0) {
      return error_status("MTL_STORE", "it did not answer");
    }
    char bytes[kClientReadBytes];
    const long count = receive_some(socket, bytes, sizeof(bytes));
    if (count < 0) return error_status("MTL_STORE", "it closed the connection");
    reader->append(bytes, static_cast<size_t>(count));
  }
}

Status send_message(int socket, const Message& message, int64_t deadline) {
  std::string frame = encode(message);
  while (!frame.empty()) {
    const long sent = send_some(socket, frame.data(), frame.size());
    if (sent < 0 || now_ns() > deadline) return error_status("MTL_STORE", "it closed the connection");
    frame.erase(0, static_cast<size_t>(sent));
    pollfd event{socket, POLLOUT, 0};
    if (!frame.empty()) poll(&event, 1, 100);
  }
  return ok_status();
}

}  // namespace

StoreClient::StoreClient(JobState* job, const ClientOptions& options, Joined joined)
    : job_(job),
      member_(options.member),
      place_(format_text("%s, port %d", options.address.c_str(), joined.port)),
      socket_(std::move(joined.socket)),
      reader_(std::move(joined.reader)),
      host_rank_(static_cast<int>(joined.welcome.id) - 1),
      heartbeat_limit_ns_(joined.welcome.number * kMillisecond),
      seal_(std::move(*joined.seal)) {
  heard_ns_ = told_ns_ = last_check_ns_ = now_ns();
}

// Checks whether the listener at `joined->port` is the store of this job.
Status StoreClient::join(const ClientOptions& options, int rank, int64_t deadline, Joined* joined, Obstacle* obstacle) {
  const int port = joined->port;
  const auto at = [&](const Status& status) {
    const Failure& failure = status.failure();
    return error_status("MTL_STORE_UNREACHABLE", "%s, port %d: %s", options.address.c_str(), port, failure.message.c_str());
  };
  // if there are several ports, this port may belong to another job's store, and this job's store may be at
  // the next port
  const bool is_only_port = options.ports.size() == 1;
  *obstacle = Obstacle::kOther;
  MTL_RETURN_IF_ERROR(connect_to(options.address, port, std::max<int64_t>(deadline - now_ns(), 0), &joined->socket));
  const int socket = joined->socket.get();
  Message hello;
  Status status = read_message(socket, &joined->reader, deadline, &hello);
  if (!status.ok()) return at(status);
  if (hello.kind != MessageKind::kHello || hello.value.size() != kNonceBytes) {
    return at(error_status("MTL_STORE", "it is not a store"));
  }
  if (hello.number != kProtocolVersion) {
    *obstacle = is_only_port ? Obstacle::kFinal : Obstacle::kVersion;
    return at(error_status("MTL_STORE",
                           "a store of protocol version %lld, this is version %u; install the same version of @mtl/comm "
                           "for all processes of the job",
                           static_cast<long long>(hello.number), kProtocolVersion));
  }
  Handshake handshake{hello.value, random_nonce(), rank, attempt_and_size(options.attempt, options.world_size)};
  if (handshake.client_nonce.empty()) return at(error_status("MTL_STORE", "the kernel has no random numbers"));
  Message request;
  request.kind = MessageKind::kJoin;
  request.number = handshake.rank;
  request.id = handshake.attempt_and_size;
  request.value = handshake.client_nonce + derive(options.secret, Purpose::kProof, handshake);
  joined->seal.emplace(derive(options.secret, Purpose::kClientKey, handshake));
  joined->reader.set_seal(Seal(derive(options.secret, Purpose::kServerKey, handshake)));
  status = send_message(socket, request, deadline);
  if (status.ok()) status = read_message(socket, &joined->reader, deadline, &joined->welcome);
  if (!status.ok() && status.failure().code == "MTL_STORE_AUTHENTICATION") {
    *obstacle = is_only_port ? Obstacle::kFinal : Obstacle::kOther;
    return at(error_status("MTL_STORE",
                           "it has another secret than this process, or what they say is changed on the way; give "
                           "MTL_JOB_SECRET or MTL_JOB_SECRET_FILE the same value in all processes of the job"));
  }
  if (!status.ok()) return at(status);
  if (joined->welcome.kind == MessageKind::kWelcome) return ok_status();
  if (joined->welcome.kind != MessageKind::kRefusal) return at(error_status("MTL_STORE", "it is not a store"));
  if (static_cast<Refusal>(joined->welcome.number) == Refusal::kMember) *obstacle = Obstacle::kFinal;
  return at(error_status("MTL_STORE", "%s", joined->welcome.value.c_str()));
}

Status StoreClient::connect(JobState* job, const ClientOptions& options, std::shared_ptr<StoreClient>* client) {
  const int64_t started = now_ns();
  const int64_t deadline = started + options.timeout_ns;
  int64_t pause_ns = 20 * kMillisecond;
  Status problem = error_status("MTL_STORE_UNREACHABLE", "no port to look at");
  // the error about a different version is kept, because it explains more than a later error such as "no
  // listener" at the next ports or "no time left" in the last round
  Status other_version;
  for (;;) {
    for (const int port : options.ports) {
      Joined joined;
      joined.port = port;
      Obstacle obstacle;
      const int64_t limit = std::min(deadline, now_ns() + 5 * kSecond);
      problem = join(options, job->rank(), limit, &joined, &obstacle);
      if (problem.ok()) {
        std::shared_ptr<StoreClient> created(new StoreClient(job, options, std::move(joined)));
        created->wake_ = Descriptor(platform::create_event());
        if (!created->wake_.is_open()) return error_status("MTL_STORE", "there is no event: %s", std::strerror(errno));
        created->thread_ = std::thread(&StoreClient::run, created.get());
        job->on_abort([weak = std::weak_ptr<StoreClient>(created)](const Failure& failure) {
          if (const std::shared_ptr<StoreClient> alive = weak.lock()) alive->on_abort(failure);
        });
        *client = std::move(created);
        return ok_status();
      }
      if (obstacle == Obstacle::kFinal) return error_status("MTL_STORE_REFUSED", "%s", problem.failure().message.c_str());
      if (obstacle == Obstacle::kVersion) other_version = problem;
    }
    if (!other_version.ok()) problem = other_version;
    if (now_ns() + pause_ns >= deadline) break;
    usleep(static_cast<useconds_t>(pause_ns / 1000));
    pause_ns = std::min(pause_ns * 2, 500 * kMillisecond);
  }
  Failure failure;
  failure.code = "MTL_STORE_UNREACHABLE";
  failure.waited_ms = static_cast<double>(now_ns() - started) / kMillisecond;
  failure.message = format_text("%s %d did not find the store of the job within %.1f s; the last try: %s",
                                options.member.c_str(), job->rank(), failure.waited_ms / 1000,
                                problem.failure().message.c_str());
  return Status(std::move(failure));
}

StoreClient::~StoreClient() {
  if (thread_.joinable()) close();
}

void StoreClient::wake() { platform::raise_event(wake_.get()); }

// Sends a message. The caller must hold the mutex.
void StoreClient::post(const Message& message) {
  unsent_ += encode(message, &seal_);
  wake();
}

void StoreClient::on_abort(const Failure& failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
  if (is_receiving_abort_) is_told_ = true;
  if (is_told_ || is_lost_ || is_leaving_) return;
  Message message;
  message.kind = MessageKind::kAbort;
  message.id = abort_id_ = next_id_++;
  message.number = failure.rank;
  message.key = failure.code.substr(0, kMaxKeyBytes);
  message.value = failure.message.substr(0, kMaxValueBytes);
  post(message);
}

void StoreClient::wait_until_told(int64_t timeout_ns) {
  if (!job_->is_aborted()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [this] { return is_told_ || is_lost_ || is_leaving_; });
}

void StoreClient::close() {
  const bool is_aborted = job_->is_aborted();
  if (is_aborted) wait_until_told(kSecond);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    is_leaving_ = true;
    if (!is_aborted && !is_lost_) {
      Message goodbye;
      goodbye.kind = MessageKind::kGoodbye;
      post(goodbye);
      // waits until the store has read the goodbye and closed the connection; if this process closed the
      // connection earlier, the goodbye could be lost
      changed_.wait_for(lock, std::chrono::seconds(5), [this] { return is_lost_; });
    }
  }
  is_stopping_.store(true);
  wake();
  if (thread_.joinable()) thread_.join();
}

Status StoreClient::ask(Message question, int64_t timeout_ns, Message* answer) {
  if (question.key.size() > kMaxKeyBytes || question.value.size() > kMaxValueBytes) {
    return error_status("MTL_ARGUMENT", "a key of %zu bytes and a value of %zu, expected at most %zu and %zu",
                        question.key.size(), question.value.size(), kMaxKeyBytes, kMaxValueBytes);
  }
  const int64_t started = now_ns();
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t id = question.id = next_id_++;
  requests_[id];
  post(question);
  const auto is_over = [&] { return requests_[id].is_done || is_lost_ || is_leaving_ || job_->is_aborted(); };
  changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), is_over);
  const Request request = std::move(requests_[id]);
  requests_.erase(id);
  if (request.is_done) {
    *answer = request.answer;
    if (answer->kind != MessageKind::kRefusal) return ok_status();
    return error_status("MTL_STORE_REFUSED", "%s", answer->value.c_str());
  }
  if (job_->is_aborted()) return job_->reason();
  if (is_lost_ || is_leaving_) return error_status("MTL_CLOSED", "the connection to the store is closed");
  Message cancel;
  cancel.kind = MessageKind::kCancel;
  cancel.id = id;
  post(cancel);
  Failure failure;
  failure.code = "MTL_TIMEOUT";
  failure.waited_ms = static_cast<double>(now_ns() - started) / kMillisecond;
  failure.message = format_text("%s %d waited %.3f s for the key %s of the store", member_.c_str(), job_->rank(),
                                failure.waited_ms / 1000, question.key.c_str());
  return Status(std::move(failure));
}

Status StoreClient::set(const std::string& key, const std::string& value) {
  Message question, answer;
  question.kind = MessageKind::kSet;
  question.key = key;
  question.value = value;
  return ask(std::move(question), kAnswerLimitNs, &answer);
}

Status StoreClient::get(const std::string& key, int64_t timeout_ns, std::string* value) {
  Message question, answer;
  question.kind = MessageKind::kGet;
  question.key = key;
  question.number = 1;
  MTL_RETURN_IF_ERROR(ask(std::move(question), timeout_ns, &answer));
  *value = std::move(answer.value);
  return ok_status();
}

Status StoreClient::find(const std::string& key, bool* is_there, std::string* value) {
  Message question, answer;
  question.kind = MessageKind::kGet;
  question.key = key;
  MTL_RETURN_IF_ERROR(ask(std::move(question), kAnswerLimitNs, &answer));
  *is_there = answer.kind == MessageKind::kAnswer;
  *value = std::move(answer.value);
  return ok_status();
}

Status StoreClient::add(const std::string& key, int64_t delta, int64_t* sum) {
  Message question, answer;
  question.kind = MessageKind::kAdd;
  question.key = key;
  question.number = delta;
  MTL_RETURN_IF_ERROR(ask(std::move(question), kAnswerLimitNs, &answer));
  *sum = answer.number;
  return ok_status();
}

void StoreClient::run() {
  const int poll_ms = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(500, heartbeat_limit_ns_ / kMillisecond / 8)));
  receive();  // reads data that arrived together with the welcome
  while (!is_stopping_.load()) {
    flush();
    short events = POLLIN;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_lost_) return;
      if (!unsent_.empty()) events |= POLLOUT;
    }
    pollfd descriptors[2] = {{wake_.get(), POLLIN, 0}, {socket_.get(), events, 0}};
    poll(descriptors, 2, poll_ms);
    if (descriptors[0].revents != 0) platform::clear_event(wake_.get());
    check_times();
    if ((descriptors[1].revents & ~POLLOUT) != 0) {
      char bytes[kClientReadBytes];
      const long count = receive_some(socket_.get(), bytes, sizeof(bytes));
      if (count < 0) return lose("the connection to the store of the job has ended");
      reader_.append(bytes, static_cast<size_t>(count));
      receive();
    }
  }
}

void StoreClient::receive() {
  Message message;
  for (;;) {
    const MessageReader::Result result = reader_.next(&message);
    if (result == MessageReader::Result::kNeedsMore) return;
    if (result == MessageReader::Result::kMalformed) return lose(std::string("the store sent ") + reader_.problem());
    if (result == MessageReader::Result::kForged) return distrust();
    heard_ns_ = now_ns();  // only complete messages count as a sign of life, because any host on the path could send single bytes
    handle(message);
  }
}

void StoreClient::handle(const Message& message) {
  if (message.kind == MessageKind::kHeartbeat) return;
  if (message.kind == MessageKind::kAbort) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_receiving_abort_ = true;  // the abort came from the store, so it must not be sent back
    }
    Failure failure;
    failure.code = message.key;
    failure.message = message.value;
    failure.rank = static_cast<int>(message.number);
    job_->abort(std::move(failure));
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (abort_id_ != 0 && message.id == abort_id_) is_told_ = true;
  const auto found = requests_.find(message.id);
  if (found != requests_.end()) {
    found->second.answer = message;
    found->second.is_done = true;
  }
  changed_.notify_all();
}

void StoreClient::check_times() {
  const int64_t now = now_ns();
  // this process was suspended (SIGSTOP, or the whole machine slept) and has not yet read the store's
  // messages, so the store does not count as silent
  if (now - last_check_ns_ > heartbeat_limit_ns_ / 2) heard_ns_ = now;
  last_check_ns_ = now;
  if (now - told_ns_ > heartbeat_limit_ns_ / 4) {
    const std::lock_guard<std::mutex> lock(mutex_);
    unsent_ += encode(Message{}, &seal_);
    told_ns_ = now;
  }
  if (now - heard_ns_ > heartbeat_limit_ns_) {
    lose(format_text("the store has been silent for %.1f s", static_cast<double>(now - heard_ns_) / 1e9));
  }
}

void StoreClient::flush() {
  bool is_broken = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!unsent_.empty() && !is_broken) {
      const long sent = send_some(socket_.get(), unsent_.data(), unsent_.size());
      if (sent == 0) return;
      if (sent > 0) {
        unsent_.erase(0, static_cast<size_t>(sent));
        told_ns_ = now_ns();
      }
      is_broken = sent < 0;
    }
  }
  // the connection has ended, but the store's last messages explain more than this end; the next read returns
  // both
  if (is_broken) {
    const std::lock_guard<std::mutex> lock(mutex_);
    unsent_.clear();
  }
}

void StoreClient::lose(const std::string& how) {
  bool is_failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_failure = !is_leaving_ && !is_lost_;
    is_receiving_abort_ = true;  // set because the store cannot be told any more
  }
  if (is_failure) {
    Failure failure;
    failure.code = "MTL_STORE_LOST";
    failure.rank = host_rank_;
    failure.message = how + (host_rank_ < 0 ? ": the launcher is gone"
                                            : format_text(": %s %d, which holds it, is gone", member_.c_str(), host_rank_));
    job_->abort(std::move(failure));
  }
  end();
}

// Handles a message that claims to be from the store but is not. This process tells the store, because the
// other direction of the connection may still be intact.
void StoreClient::distrust() {
  Failure failure;
  failure.code = "MTL_STORE_AUTHENTICATION";
  failure.rank = host_rank_;
  failure.message = format_text("%s %d received %s that should be from the store (%s): %s", member_.c_str(), job_->rank(),
                                reader_.problem(), place_.c_str(), kTamperingRemedy);
  job_->abort(std::move(failure));
  flush();
  shutdown(socket_.get(), SHUT_WR);  // closes only the sending direction: after a full close, arriving data could discard the abort
  end();
}

// Ends the connection, as the thread's last action. Callers that wait for an answer fail with the reason why
// the job ended.
void StoreClient::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_lost_ = true;
  changed_.notify_all();
}

}  // namespace mtl::comm::store
