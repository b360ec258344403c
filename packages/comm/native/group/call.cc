#include "group/call.h"

#include <numeric>

namespace mtl::comm {
namespace {

std::string join(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

Failure in_operation(const Call& call, std::string code, int rank) {
  const GroupIdentity& group = call.whole == nullptr ? *call.group : *call.whole;
  Failure failure;
  failure.code = std::move(code);
  failure.rank = rank;
  failure.group = group.name;
  failure.operation = name_of(call.operation->kind);
  failure.sequence = call.operation->sequence_text();
  failure.waited_ms = static_cast<double>(now_ns() - call.started_ns) / kMillisecond;
  failure.message = format_text("group %s [%s], %s (%s), rank %d waited %.3f s: ", failure.group.c_str(),
                                join(group.ranks).c_str(), failure.operation.c_str(), failure.sequence.c_str(),
                                call.job->rank(), failure.waited_ms / 1000);
  return failure;
}

}  // namespace

std::vector<int> GroupIdentity::members() const {
  std::vector<int> all(ranks.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Status Call::check() const {
  if (looking != nullptr) (*looking)();
  if (job->is_aborted()) {
    const Status reason = job->reason();
    Failure failure = in_operation(*this, reason.failure().code, reason.failure().rank);
    failure.message += reason.failure().message;
    return Status(std::move(failure));
  }
  if (closing != nullptr && closing->load(std::memory_order_relaxed)) {
    Failure failure = in_operation(*this, "MTL_CLOSED", job->rank());
    failure.message += "the group was closed before the operation was done";
    return Status(std::move(failure));
  }
  return ok_status();
}

Status Call::fail(const char* code, int rank, const std::string& what) const {
  Failure failure = in_operation(*this, code, rank);
  failure.message += what;
  job->abort(failure);
  return Status(std::move(failure));
}

Status Call::timed_out(const std::vector<int>& late) const {
  std::vector<int> ranks;
  for (const int member : late) ranks.push_back(group->ranks[static_cast<size_t>(member)]);
  const int first = ranks.empty() ? -1 : ranks.front();
  const std::string who = (ranks.size() == 1 ? "rank " : "ranks ") + join(ranks);
  return fail("MTL_TIMEOUT", first, who + " did not come within " +
                                        format_text("%g s", static_cast<double>(group->timeout_ns) / 1e9));
}

Status Call::mismatch(int other, const Description& theirs) const {
  const int rank = group->ranks[static_cast<size_t>(other)];
  const Description& mine = operation->description;
  const std::string sequence =
      mine.sequence == theirs.sequence
          ? ""
          : format_text(" (number %llu there)", static_cast<unsigned long long>(theirs.sequence));
  return fail("MTL_MISMATCH", rank, format_text("rank %d called %s, rank %d %s%s", job->rank(), to_text(mine).c_str(), rank,
                                                to_text(theirs).c_str(), sequence.c_str()));
}

Status Call::compare_parts(int from, int to, uint64_t sent, uint64_t expected) const {
  if (sent == expected) return ok_status();
  const int sender = group->ranks[static_cast<size_t>(from)], receiver = group->ranks[static_cast<size_t>(to)];
  return fail("MTL_MISMATCH", sender == job->rank() ? receiver : sender,
              format_text("rank %d sends %llu elements to rank %d, which expects %llu", sender,
                          static_cast<unsigned long long>(sent), receiver, static_cast<unsigned long long>(expected)));
}

Status Call::left(int member) const {
  const int rank = group->ranks[static_cast<size_t>(member)];
  return fail("MTL_RANK_LEFT", rank, format_text("rank %d has left the group and will not take part", rank));
}

}  // namespace mtl::comm
