// Tests that invalid shared memory is rejected, and tests of the board of a host whose ranks are missing.
#include <unistd.h>

#include "engines/local/host_board.h"
#include "tests/native_test.h"

namespace mtl::comm::tests {
namespace {

using local::HostBoard;
using local::Segment;
using local::SegmentAddress;

MTL_TEST(a_segment_with_another_nonce_or_size_is_refused) {
  Segment made, opened;
  EXPECT(succeeded(Segment::create(8192, &made)));
  EXPECT(succeeded(Segment::open(made.address(), &opened)));
  static_cast<char*>(made.data())[100] = 42;
  EXPECT(static_cast<char*>(opened.data())[100] == 42);
  SegmentAddress other = made.address();
  other.nonce += 1;
  EXPECT(failed_with(Segment::open(other, &opened), "MTL_SEGMENT"));
  other = made.address();
  other.bytes = 4096;
  EXPECT(failed_with(Segment::open(other, &opened), "MTL_SEGMENT"));
  other = made.address();
  other.fd = 1000000;
  EXPECT(failed_with(Segment::open(other, &opened), "MTL_SEGMENT"));
}

MTL_TEST(ranks_that_never_come_to_the_board_are_named) {
  JobState job(4);
  std::unique_ptr<HostBoard> board;
  EXPECT(failed_with(HostBoard::create(&job, {1, 2}, &board), "MTL_GROUP"));
  EXPECT(succeeded(HostBoard::create(&job, {4, 5, 7}, &board)));
  const Status status = board->join(20 * kMillisecond);
  EXPECT(failed_with(status, "MTL_TIMEOUT"));
  EXPECT(status.failure().rank == 5);
  EXPECT(status.failure().message.find("rank 5, 7 never came") != std::string::npos);
}

MTL_TEST(the_board_carries_segments_and_the_first_abort) {
  JobState first(0), second(1);
  std::unique_ptr<HostBoard> board, other;
  EXPECT(succeeded(HostBoard::create(&first, {0, 1}, &board)));
  EXPECT(succeeded(HostBoard::open(&second, {0, 1}, board->address(), &other)));
  SegmentAddress found;
  EXPECT(succeeded(board->publish(77, {1, 2, 3, 4})));
  EXPECT(succeeded(other->find(0, 77, "group", 1000 * kMillisecond, &found)));
  EXPECT(found.pid == 1 && found.fd == 2 && found.nonce == 3 && found.bytes == 4);
  Failure reason, read;
  EXPECT(!other->read_abort(&read));
  reason.code = "MTL_FIRST";
  reason.message = "one";
  reason.rank = 0;
  board->write_abort(reason);
  reason.code = "MTL_SECOND";
  other->write_abort(reason);
  EXPECT(other->read_abort(&read) && read.code == "MTL_FIRST" && read.message == "one" && read.rank == 0);
  EXPECT(failed_with(other->find(0, 78, "group", 1000 * kMillisecond, &found), "MTL_FIRST"));
}

MTL_TEST(memory_of_a_rank_that_has_ended_is_explained_by_its_leaving) {
  JobState first(0), second(1), third(2);
  std::unique_ptr<HostBoard> board, other, another;
  EXPECT(succeeded(HostBoard::create(&first, {0, 1, 2}, &board)));
  EXPECT(succeeded(HostBoard::open(&second, {0, 1, 2}, board->address(), &other)));
  EXPECT(succeeded(HostBoard::open(&third, {0, 1, 2}, board->address(), &another)));
  SegmentAddress found;
  EXPECT(succeeded(board->publish(77, {1, 2, 3, 4})));
  const Status missing = error_status("MTL_SEGMENT", "no such file");
  EXPECT(failed_with(other->reason_for(missing, 0, "group"), "MTL_SEGMENT"));
  board->leave();
  const Status left = other->reason_for(missing, 0, "group");
  EXPECT(failed_with(left, "MTL_RANK_LEFT"));
  EXPECT(left.failure().rank == 0);
  EXPECT(left.failure().message.find("rank 0 has left the job") != std::string::npos);
  // a segment that the rank announced earlier is still found; a wait for any other key fails
  EXPECT(succeeded(another->find(0, 77, "group", 1000 * kMillisecond, &found)));
  EXPECT(failed_with(another->find(0, 78, "group", 1000 * kMillisecond, &found), "MTL_RANK_LEFT"));
}

MTL_TEST(memory_of_a_rank_that_has_failed_is_explained_by_its_failure) {
  JobState first(0), second(1);
  std::unique_ptr<HostBoard> board, other;
  EXPECT(succeeded(HostBoard::create(&first, {0, 1}, &board)));
  EXPECT(succeeded(HostBoard::open(&second, {0, 1}, board->address(), &other)));
  Failure reason;
  reason.code = "MTL_FIRST";
  reason.message = "one";
  reason.rank = 0;
  board->write_abort(reason);
  EXPECT(failed_with(other->reason_for(error_status("MTL_SEGMENT", "no such file"), 0, "group"), "MTL_FIRST"));
}

}  // namespace
}  // namespace mtl::comm::tests
