#include "engines/gloo/gloo_mesh.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <thread>

namespace mtl::comm::gloo {
namespace {

// How long it may take, in milliseconds, until a wait notices that this process was aborted, or that another
// member, for which it does not wait, has sent a notice.
constexpr int64_t kPollMs = 20;
// How long transfers are checked after the deadline, in milliseconds, to distinguish members that are late
// from members whose data has arrived.
constexpr int64_t kLastLookMs = 2;

using Address = std::string;

// Appends an address in the format used in the store: one byte for Gloo's handshake, then for every member a
// length and this number of bytes (length 0 for the member itself).
void append(std::string* text, const Address& address) {
  text->push_back(static_cast<char>(address.size()));
  *text += address;
}

Notice notice_of(const Failure& reason) {
  Notice notice;
  notice.kind = Notice::kAborted;
  notice.rank = reason.rank;
  std::snprintf(notice.code, sizeof(notice.code), "%s", reason.code.c_str());
  std::snprintf(notice.message, sizeof(notice.message), "%s", reason.message.c_str());
  return notice;
}

}  // namespace

struct GlooMesh::Peer {
  std::mutex connecting;  // locked while the connection is being made
  std::atomic<bool> is_connected{false};
  Address address;
  // The description of the member's next collective. This process posts the receive of the description in
  // advance, which saves a round trip. Only one thread at a time may use these fields.
  Description description;
  MtlGlooTransfer* agreement = nullptr;
};

// The limits of a connection attempt.
struct GlooMesh::Limits {
  int64_t deadline_ns;
  std::function<Status()> check;
  std::function<Status(const std::vector<int>&)> timed_out;
  std::function<Status(int, const char*)> failed;
};

Status GlooMesh::create(GroupIdentity group, JobState* job, const Options& options, std::unique_ptr<GlooMesh>* mesh) {
  const MtlGlooApi* api = nullptr;
  MTL_RETURN_IF_ERROR(load_gloo(options.library, &api));
  char error[MTL_GLOO_ERROR_BYTES] = "";
  const int64_t timeout_ms = group.timeout_ns / kMillisecond;
  MtlGlooContext* context = api->open(options.address.c_str(), group.rank, group.size(), timeout_ms, error);
  if (context == nullptr) {
    return error_status("MTL_GLOO", "group %s: Gloo could not listen on %s: %s", group.name.c_str(),
                        options.address.c_str(), error);
  }
  mesh->reset(new GlooMesh(std::move(group), job, api, context));
  return (*mesh)->listen();
}

GlooMesh::GlooMesh(GroupIdentity group, JobState* job, const MtlGlooApi* api, MtlGlooContext* context)
    : group_(std::move(group)),
      job_(job),
      api_(api),
      context_(context),
      notices_(std::make_shared<Notices>(api, context, group_.size())) {
  for (int member = 0; member < group_.size(); ++member) peers_.emplace_back(new Peer);
  const std::weak_ptr<Notices> notices = notices_;
  job->on_abort([notices](const Failure& reason) {
    if (const std::shared_ptr<Notices> alive = notices.lock()) alive->send(notice_of(reason));
  });
}

GlooMesh::~GlooMesh() {
  leave();
  for (const auto& peer : peers_) {
    if (peer->agreement != nullptr) api_->drop(peer->agreement);
  }
  notices_->close();
  api_->close(context_);
}

Status GlooMesh::listen() {
  own_addresses_.push_back(static_cast<char>(api_->handshake));
  for (int member = 0; member < group_.size(); ++member) {
    char bytes[MTL_GLOO_ADDRESS_BYTES], error[MTL_GLOO_ERROR_BYTES] = "";
    size_t size = 0;
    if (member != group_.rank) {
      size = api_->address_for(context_, member, bytes, error);
      if (size == 0) return error_status("MTL_GLOO", "group %s: no address: %s", group_.name.c_str(), error);
    }
    append(&own_addresses_, Address(bytes, size));
  }
  return ok_status();
}

Status GlooMesh::read_addresses(const std::vector<std::string>& addresses) {
  for (int member = 0; member < group_.size(); ++member) {
    if (member == group_.rank) continue;
    const std::string& text = addresses[static_cast<size_t>(member)];
    const int rank = group_.ranks[static_cast<size_t>(member)];
    if (!text.empty() && text[0] != own_addresses_[0]) {
      return error_status("MTL_GLOO",
                          "group %s: rank %d has another version of Gloo than rank %d, which connects in another way; remedy: "
                          "the same build of @mtl/comm on all hosts: npm's compiled one, or that of npx mtl-comm-build",
                          group_.name.c_str(), rank, job_->rank());
    }
    size_t at = 1;
    for (int entry = 0; entry < group_.rank && at < text.size(); ++entry) at += 1 + static_cast<uint8_t>(text[at]);
    const size_t size = at < text.size() ? static_cast<uint8_t>(text[at]) : 0;
    if (size == 0 || at + 1 + size > text.size()) {
      return error_status("MTL_GLOO", "group %s: what rank %d left in the store is not an address", group_.name.c_str(),
                          rank);
    }
    peers_[static_cast<size_t>(member)]->address = text.substr(at + 1, size);
  }
  return ok_status();
}

Status GlooMesh::connect(std::vector<std::string> addresses, const std::vector<int>& members) {
  MTL_RETURN_IF_ERROR(read_addresses(addresses));
  Limits limits;
  limits.deadline_ns = now_ns() + group_.timeout_ns;
  limits.check = [this] {
    look_at_notices();
    return job_->reason();
  };
  limits.timed_out = [this](const std::vector<int>& late) {
    const int rank = group_.ranks[static_cast<size_t>(late.front())];
    Failure failure;
    failure.code = "MTL_TIMEOUT";
    failure.rank = rank;
    failure.message = format_text("group %s: rank %d did not connect to rank %d within %g s", group_.name.c_str(), rank,
                                  job_->rank(), static_cast<double>(group_.timeout_ns) / 1e9);
    job_->abort(failure);
    return Status(std::move(failure));
  };
  limits.failed = [this](int member, const char* error) {
    Failure failure;
    failure.code = "MTL_RANK_DIED";
    failure.rank = group_.ranks[static_cast<size_t>(member)];
    failure.message = format_text("group %s: no connection to rank %d: %s", group_.name.c_str(), failure.rank, error);
    job_->abort(failure);
    return Status(std::move(failure));
  };
  return connect_all(members, limits);
}

// Connects to the members. Gloo's connect blocks, so each attempt runs on its own thread. The attempts are
// ended when the wait reaches its time limit.
Status GlooMesh::connect_all(const std::vector<int>& members, const Limits& limits) {
  struct Attempt {
    int member;
    std::thread thread;
    int result = MTL_GLOO_PENDING;
    bool is_adopted = false;
    char error[MTL_GLOO_ERROR_BYTES] = "";
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Attempt>> attempts;
  for (const int member : members) {
    attempts.emplace_back(new Attempt);
    Attempt* attempt = attempts.back().get();
    attempt->member = member;
    attempt->thread = std::thread([this, attempt, &mutex, &changed] {
      const Address& address = peers_[static_cast<size_t>(attempt->member)]->address;
      char error[MTL_GLOO_ERROR_BYTES] = "";
      const int result = api_->connect(context_, attempt->member, address.data(), address.size(), error);
      const std::lock_guard<std::mutex> lock(mutex);
      attempt->result = result;
      std::memcpy(attempt->error, error, sizeof(error));
      changed.notify_one();
    });
  }
  Status status;
  bool is_late = false;
  std::vector<int> late;
  do {
    std::vector<Attempt*> finished;
    late.clear();
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait_for(lock, std::chrono::milliseconds(kPollMs), [&] {
        return std::all_of(attempts.begin(), attempts.end(), [](const auto& each) { return each->result != 0; });
      });
      for (const auto& attempt : attempts) {
        if (attempt->result == MTL_GLOO_PENDING) late.push_back(attempt->member);
        if (attempt->result != MTL_GLOO_PENDING && !attempt->is_adopted) finished.push_back(attempt.get());
      }
    }
    for (Attempt* attempt : finished) {
      attempt->is_adopted = true;
      std::string error = attempt->error;
      const bool is_up = attempt->result == MTL_GLOO_DONE && adopt(attempt->member, &error);
      if (!is_up && status.ok()) status = limits.failed(attempt->member, error.c_str());
    }
    if (status.ok()) status = limits.check();
    is_late = now_ns() >= limits.deadline_ns;
  } while (!late.empty() && status.ok() && !is_late);
  for (const int member : late) api_->hang_up(context_, member);
  for (const auto& attempt : attempts) attempt->thread.join();
  if (status.ok() && !late.empty()) return limits.timed_out(late);
  return status;
}

// Starts to receive the notice and the first description of a member that has just been connected.
bool GlooMesh::adopt(int member, std::string* error) {
  Peer& peer = *peers_[static_cast<size_t>(member)];
  const Status listening = notices_->listen_to(member);
  if (!listening.ok()) *error = listening.failure().message;
  if (!listening.ok() || !await_description(member, error)) return false;
  peer.is_connected.store(true, std::memory_order_release);
  return true;
}

bool GlooMesh::await_description(int member, std::string* error) {
  Peer& peer = *peers_[static_cast<size_t>(member)];
  char text[MTL_GLOO_ERROR_BYTES] = "";
  peer.agreement = api_->start(context_, member, static_cast<uint64_t>(Channel::kAgreement), 0, &peer.description,
                               sizeof(Description), text);
  *error = text;
  return peer.agreement != nullptr;
}

Status GlooMesh::connect_for(int member, Call* call) {
  Peer& peer = *peers_[static_cast<size_t>(member)];
  if (peer.is_connected.load(std::memory_order_acquire)) return ok_status();
  // no separate time limit is needed: the thread that holds the lock polls the job's state and gives up in
  // time
  const std::lock_guard<std::mutex> lock(peer.connecting);
  if (peer.is_connected.load(std::memory_order_acquire)) return ok_status();
  Limits limits;
  limits.deadline_ns = call->deadline_ns();
  limits.check = [this, call] {
    look_at_notices();
    return call->check();
  };
  limits.timed_out = [call](const std::vector<int>& late) { return call->timed_out(late); };
  limits.failed = [this, call](int other, const char* error) { return lost(other, error, call); };
  return connect_all({member}, limits);
}

Status GlooMesh::begin(const Transfer& transfer, Call* call, PendingTransfers* pending) {
  if (transfer.bytes == 0) return ok_status();
  MTL_RETURN_IF_ERROR(connect_for(transfer.member, call));
  char error[MTL_GLOO_ERROR_BYTES] = "";
  MtlGlooTransfer* started = api_->start(context_, transfer.member, static_cast<uint64_t>(transfer.channel),
                                         transfer.is_send ? 1 : 0, transfer.data, transfer.bytes, error);
  if (started == nullptr) return lost(transfer.member, error, call);
  pending->started_.push_back({transfer.member, {started, PendingTransfers::Drop{api_}}});
  const bool is_data = transfer.channel == Channel::kData || transfer.channel == Channel::kMessage;
  if (transfer.is_send && is_data) call->sent_bytes += transfer.bytes;
  return ok_status();
}

Status GlooMesh::start(const std::vector<Transfer>& transfers, Call* call, PendingTransfers* pending) {
  // receives are started first, so that data for which another member is already waiting to send needs no
  // further request
  for (const bool is_send : {false, true}) {
    for (const Transfer& transfer : transfers) {
      if (transfer.is_send == is_send) MTL_RETURN_IF_ERROR(begin(transfer, call, pending));
    }
  }
  return ok_status();
}

// How long an operation waits after its timeout for a notice. The wait is useful because another member may
// know better which member is late.
static int64_t hearsay_ns(const GroupIdentity& group) { return std::min<int64_t>(group.timeout_ns / 5, 1000 * kMillisecond); }

Status GlooMesh::finish(PendingTransfers* pending, Call* call) {
  std::vector<PendingTransfers::Started>& started = pending->started_;
  for (size_t index = 0; index < started.size();) {
    char error[MTL_GLOO_ERROR_BYTES] = "";
    const int64_t left = call->deadline_ns() - now_ns();
    const int64_t patience = left > 0 ? std::min(kPollMs, left / kMillisecond + 1) : kLastLookMs;
    const int result = api_->wait(started[index].transfer.get(), patience, error);
    if (result == MTL_GLOO_FAILED) return lost(started[index].member, error, call);
    if (result == MTL_GLOO_DONE) {
      ++index;
      continue;
    }
    look_at_notices();
    MTL_RETURN_IF_ERROR(call->check());
    if (left > 0) continue;
    std::vector<int> late;
    for (size_t rest = index; rest < started.size(); ++rest) {
      const int member = started[rest].member;
      const bool is_late = api_->wait(started[rest].transfer.get(), kLastLookMs, error) != MTL_GLOO_DONE;
      if (is_late && std::find(late.begin(), late.end(), member) == late.end()) late.push_back(member);
    }
    std::sort(late.begin(), late.end());
    // if several members are late, most late members are themselves waiting for a member; the members that
    // have waited longer will soon report which member it is
    const bool may_learn = late.size() > 1 && now_ns() < call->deadline_ns() + hearsay_ns(*call->group);
    if (!late.empty() && !may_learn) return call->timed_out(late);
  }
  started.clear();
  return ok_status();
}

Status GlooMesh::run(const std::vector<Transfer>& transfers, Call* call) {
  PendingTransfers pending;
  MTL_RETURN_IF_ERROR(start(transfers, call, &pending));
  return finish(&pending, call);
}

Status GlooMesh::agree(const std::vector<int>& members, Call* call) {
  Description own = call->operation->description;
  PendingTransfers pending;
  std::vector<Transfer> sends;
  for (const int member : members) {
    if (member != group_.rank) sends.push_back({member, Channel::kAgreement, true, &own, sizeof(own)});
  }
  MTL_RETURN_IF_ERROR(start(sends, call, &pending));
  for (const Transfer& send : sends) {
    Peer& peer = *peers_[static_cast<size_t>(send.member)];
    std::string error;
    if (peer.agreement == nullptr && !await_description(send.member, &error)) {
      return lost(send.member, error.c_str(), call);
    }
    pending.started_.push_back({send.member, {peer.agreement, PendingTransfers::Drop{api_}}});
    peer.agreement = nullptr;
  }
  MTL_RETURN_IF_ERROR(finish(&pending, call));
  for (const Transfer& send : sends) {
    Peer& peer = *peers_[static_cast<size_t>(send.member)];
    if (!(peer.description == own)) return call->mismatch(send.member, peer.description);
    // posts the receive of the next description, which saves a round trip later; if the connection has ended,
    // the next collective fails
    std::string ignored;
    await_description(send.member, &ignored);
  }
  return ok_status();
}

void GlooMesh::look_at_notices() {
  for (int member = 0; member < group_.size() && !job_->is_aborted(); ++member) {
    Failure reason;
    std::string error;
    switch (notices_->look(member, &reason, &error)) {
      case Fate::kAborted:
        job_->abort(std::move(reason));
        break;
      case Fate::kGone:
        reason.code = "MTL_RANK_DIED";
        reason.rank = group_.ranks[static_cast<size_t>(member)];
        reason.message = format_text("rank %d has ended without leaving the job, or its host cannot be reached (%s)",
                                     reason.rank, error.c_str());
        job_->abort(std::move(reason));
        break;
      default:
        break;
    }
  }
}

// Handles a failed transfer with `member`. A notice from `member` or from another member explains the failure
// better than the connection error, so notices are checked first.
Status GlooMesh::lost(int member, const char* error, Call* call) {
  look_at_notices();
  MTL_RETURN_IF_ERROR(call->check());
  Failure reason;
  std::string ignored;
  if (notices_->look(member, &reason, &ignored) == Fate::kLeft) return call->left(member);
  const int rank = group_.ranks[static_cast<size_t>(member)];
  return call->fail("MTL_RANK_DIED", rank,
                    format_text("rank %d has ended without leaving the job, or its host cannot be reached (%s)", rank,
                                error));
}

void GlooMesh::leave() {
  if (has_left_) return;
  has_left_ = true;
  // after an abort the reason has already been sent
  if (job_->is_aborted()) return;
  Notice notice;
  notice.kind = Notice::kLeft;
  notice.rank = job_->rank();
  notices_->send(notice);
}

}  // namespace mtl::comm::gloo
