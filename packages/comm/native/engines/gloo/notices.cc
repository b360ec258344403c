#include "engines/gloo/notices.h"

#include <cstdio>

#include "core/clock.h"

namespace mtl::comm::gloo {
namespace {

// How long to wait for a notice to be sent, at most, in milliseconds: sufficient for loopback or a local
// network. A peer that has not received the notice by then has ended or is stopped.
constexpr int64_t kPatienceMs = 200;

}  // namespace

Notices::Notices(const MtlGlooApi* api, MtlGlooContext* context, int size)
    : api_(api), context_(context), peers_(static_cast<size_t>(size)) {}

Status Notices::listen_to(int member) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(member)];
  char error[MTL_GLOO_ERROR_BYTES] = "";
  peer.receive = api_->start(context_, member, kNoticeChannel, 0, &peer.incoming, sizeof(Notice), error);
  return peer.receive != nullptr ? ok_status() : error_status("MTL_RANK_DIED", "%s", error);
}

void Notices::send(const Notice& notice) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (context_ == nullptr) return;
  Notice outgoing = notice;
  outgoing.has_come = 1;
  std::vector<MtlGlooTransfer*> transfers;
  char error[MTL_GLOO_ERROR_BYTES];
  for (size_t member = 0; member < peers_.size(); ++member) {
    if (peers_[member].receive == nullptr || peers_[member].fate != Fate::kHere) continue;
    MtlGlooTransfer* transfer =
        api_->start(context_, static_cast<int>(member), kNoticeChannel, 1, &outgoing, sizeof(outgoing), error);
    if (transfer != nullptr) transfers.push_back(transfer);
  }
  const int64_t deadline = now_ns() + kPatienceMs * kMillisecond;
  for (MtlGlooTransfer* transfer : transfers) {
    const int64_t left = deadline - now_ns();
    if (left > 0) api_->wait(transfer, left / kMillisecond, error);
    api_->drop(transfer);
  }
}

Fate Notices::look(int member, Failure* reason, std::string* error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(member)];
  if (peer.receive == nullptr) return peer.fate;
  if (peer.fate == Fate::kHere) {
    char text[MTL_GLOO_ERROR_BYTES] = "";
    // a probe does not show whether the notice has arrived, but the last word of the notice does
    const auto has_come = [&] { return __atomic_load_n(&peer.incoming.has_come, __ATOMIC_ACQUIRE) != 0; };
    const bool has_ended = !has_come() && api_->probe(peer.receive, text) == MTL_GLOO_FAILED;
    if (has_come()) {
      // waits until Gloo's thread no longer uses the memory
      while (api_->wait(peer.receive, kPatienceMs, text) == MTL_GLOO_PENDING) continue;
      peer.fate = peer.incoming.kind == Notice::kLeft ? Fate::kLeft : Fate::kAborted;
    } else if (has_ended) {
      peer.fate = Fate::kGone;
      peer.error = text;
    }
  }
  if (peer.fate == Fate::kAborted) {
    peer.incoming.code[sizeof(peer.incoming.code) - 1] = '\0';
    peer.incoming.message[sizeof(peer.incoming.message) - 1] = '\0';
    reason->code = peer.incoming.code;
    reason->message = peer.incoming.message;
    reason->rank = peer.incoming.rank;
  }
  *error = peer.error;
  return peer.fate;
}

void Notices::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Peer& peer : peers_) {
    if (peer.receive != nullptr) api_->drop(peer.receive);
    peer.receive = nullptr;
  }
  context_ = nullptr;
}

}  // namespace mtl::comm::gloo
