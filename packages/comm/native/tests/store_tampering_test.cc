// Manipulation of messages by a man in the middle between a rank and the store: each kind ends the job with
// the same coded error on every rank.
#include "store/message.h"
#include "store/proof.h"
#include "store/store_client.h"
#include "store/store_server.h"
#include "tests/relay.h"

namespace mtl::comm::store {
namespace {

using tests::failed_with;
using tests::succeeded;
constexpr int64_t kLongNs = 20000 * kMillisecond;  // never reached unless something is broken
constexpr char kSecret[] = "a secret";

// Polls until `reached()` is true, since the awaited change happens on other threads.
template <typename Reached>
bool reaches(const Reached& reached) {
  const int64_t deadline = now_ns() + kLongNs;
  while (!reached()) {
    if (now_ns() > deadline) return false;
    usleep(1000);
  }
  return true;
}

MessageKind kind_of(const std::string& frame) { return static_cast<MessageKind>(frame[4]); }

// A job of two ranks and their store; rank 1 reaches the store through a relay.
struct Job {
  explicit Job(Relay::Change change) {
    ServerOptions options;
    options.secret = kSecret;
    options.world_size = 2;
    EXPECT(succeeded(StoreServer::start(options, &server)));
    relay = std::make_unique<Relay>(server->port(), std::move(change));
    EXPECT(succeeded(connect(0, server->port())));
  }
  ~Job() {
    for (const auto& client : clients) {
      if (client != nullptr) client->close();
    }
  }
  Status connect(int rank, int port) {
    ClientOptions options;
    options.ports = {port};
    options.secret = kSecret;
    options.world_size = 2;
    options.timeout_ns = kLongNs;
    return StoreClient::connect(&jobs[rank], options, &clients[rank]);
  }
  bool all_fail_with(const char* code) {
    return reaches([&] { return jobs[0].is_aborted() && jobs[1].is_aborted(); }) && failed_with(jobs[0].reason(), code) &&
           failed_with(jobs[1].reason(), code) && failed_with(server->failure(), code);
  }

  std::unique_ptr<StoreServer> server;
  std::unique_ptr<Relay> relay;
  JobState jobs[2] = {JobState(0), JobState(1)};
  std::shared_ptr<StoreClient> clients[2];
};

// Changes frame number 4 of one direction while rank 1 sends requests continuously, and checks that all ranks
// end with the error, which names the peer. Other messages of the same direction continue meanwhile, so that
// a dropped one is noticed at once.
void expect_detected(const char* what, Towards direction, const std::function<Passed(const std::string&)>& change) {
  Job job([&](Towards towards, int number, const std::string& frame) {
    return towards == direction && number == 4 ? change(frame) : Passed{frame, ""};
  });
  EXPECT(succeeded(job.connect(1, job.relay->port())));
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 2; ++asker) {
    askers.emplace_back([&, asker] {
      for (int index = 0; !job.jobs[1].is_aborted(); ++index) {
        const Status status = job.clients[1]->set(format_text("%d %d", asker, index), "value");
        if (!status.ok()) break;
      }
    });
  }
  const bool is_detected = job.all_fail_with("MTL_STORE_AUTHENTICATION");
  for (std::thread& asker : askers) asker.join();
  if (!is_detected) std::fprintf(stderr, "not detected: %s\n", what);
  EXPECT(is_detected);
  const Failure& failure = job.jobs[0].reason().failure();
  if (direction == Towards::kStore) {
    EXPECT(failure.rank == 1 && failure.message.find("should be from rank 1 (127.0.0.1:") != std::string::npos);
  } else {
    const std::string store = format_text("that should be from the store (127.0.0.1, port %d): ", job.relay->port());
    EXPECT(failure.message.find("rank 1 received a message ") == 0 && failure.message.find(store) != std::string::npos);
  }
}

std::string flipped(std::string frame, size_t byte) {
  frame[byte] = static_cast<char>(frame[byte] ^ 0x40);
  return frame;
}

Message abort_message() {
  Message message;
  message.kind = MessageKind::kAbort;
  message.key = "MTL_NAN";
  message.value = "the loss is not a number";
  return message;
}

MTL_TEST(store_detects_tampering_in_both_directions) {
  for (const Towards direction : {Towards::kStore, Towards::kRank}) {
    for (const size_t byte : {size_t{3}, size_t{4}, size_t{5}, size_t{13}}) {  // length, kind, id, number
      expect_detected("a changed header", direction, [&](const std::string& frame) { return Passed{flipped(frame, byte), ""}; });
    }
    expect_detected("a changed tag", direction, [](const std::string& frame) {
      return Passed{flipped(frame, frame.size() - 1), ""};
    });
    expect_detected("a message repeated", direction, [](const std::string& frame) { return Passed{frame + frame, ""}; });
    expect_detected("a message left out", direction, [](const std::string&) { return Passed{}; });
    expect_detected("a message inserted without a tag", direction, [](const std::string& frame) {
      return Passed{encode(abort_message()) + frame, ""};
    });
    expect_detected("a message inserted with the tag of another key", direction, [](const std::string& frame) {
      Seal seal{std::string(kDigestBytes, 'k')};
      return Passed{encode(abort_message(), &seal) + frame, ""};
    });
    expect_detected("a tag cut off", direction, [](const std::string& frame) {
      return Passed{encode(abort_message()).substr(0, 30) + frame, ""};
    });
  }
}

// The abort of rank 0 is withheld from rank 1, which notices that with the next message.
MTL_TEST(store_detects_an_abort_that_is_left_out) {
  Job job([](Towards towards, int, const std::string& frame) {
    return towards == Towards::kRank && kind_of(frame) == MessageKind::kAbort ? Passed{} : Passed{frame, ""};
  });
  EXPECT(succeeded(job.connect(1, job.relay->port())));
  EXPECT(succeeded(job.clients[1]->set("before", "")));
  Failure failure;
  failure.code = "MTL_NAN";
  failure.message = "rank 0 failed: the loss is not a number";
  failure.rank = 0;
  job.jobs[0].abort(failure);
  job.clients[0]->wait_until_told(kLongNs);
  EXPECT(failed_with(job.clients[1]->set("after", ""), "MTL_STORE_AUTHENTICATION"));
  EXPECT(failed_with(job.server->failure(), "MTL_NAN"));
}

MTL_TEST(store_detects_a_message_sent_back_to_its_sender) {
  for (const Towards direction : {Towards::kStore, Towards::kRank}) {
    Job job([&](Towards towards, int number, const std::string& frame) {
      return towards == direction && number == 4 ? Passed{frame, frame} : Passed{frame, ""};
    });
    EXPECT(succeeded(job.connect(1, job.relay->port())));
    for (int index = 0; !job.jobs[1].is_aborted() && index < 1000; ++index) {
      if (!job.clients[1]->set(std::to_string(index), "").ok()) break;
    }
    EXPECT(job.all_fail_with("MTL_STORE_AUTHENTICATION"));
  }
}

// The welcome contains the heartbeat limit and the rank that hosts the store.
MTL_TEST(store_detects_a_changed_welcome) {
  Job job([](Towards towards, int number, const std::string& frame) {
    return Passed{towards == Towards::kRank && number == 1 ? flipped(frame, 13) : frame, ""};
  });
  const Status status = job.connect(1, job.relay->port());
  EXPECT(failed_with(status, "MTL_STORE_REFUSED"));
  EXPECT(status.failure().message.find("it has another secret than this process, or what they say is changed on the way") !=
         std::string::npos);
}

// One server greets with another protocol version, and one with this version is at the next port.
MTL_TEST(store_of_another_version_is_named) {
  Descriptor listener;
  int port = 0;
  EXPECT(succeeded(listen_on("127.0.0.1", {0}, &listener, &port)));
  std::atomic<bool> is_over{false};
  std::thread old([&] {
    std::vector<Descriptor> accepted;
    Message hello;
    hello.kind = MessageKind::kHello;
    hello.number = 1;
    hello.value.assign(kNonceBytes, 'n');
    const std::string frame = encode(hello);
    while (!is_over.load()) {
      std::string peer;
      Descriptor socket = accept_from(listener.get(), &peer);
      if (!socket.is_open()) {
        usleep(1000);
        continue;
      }
      send_some(socket.get(), frame.data(), frame.size());
      accepted.push_back(std::move(socket));
    }
  });
  const std::string expected = "a store of protocol version 1, this is version 2; install the same version of @mtl/comm";
  JobState job(0);
  std::shared_ptr<StoreClient> client;
  ClientOptions options;
  options.ports = {port};
  options.secret = kSecret;
  options.timeout_ns = kLongNs;
  const Status alone = StoreClient::connect(&job, options, &client);
  EXPECT(failed_with(alone, "MTL_STORE_REFUSED") && alone.failure().message.find(expected) != std::string::npos);
  // the server may be the store of another job, so the client tries the later ports
  Descriptor unused;
  int closed_port = 0;
  EXPECT(succeeded(listen_on("127.0.0.1", {0}, &unused, &closed_port)));
  unused.reset();
  options.ports = {port, closed_port};
  options.timeout_ns = 2000 * kMillisecond;
  const Status nowhere = StoreClient::connect(&job, options, &client);
  EXPECT(failed_with(nowhere, "MTL_STORE_UNREACHABLE") && nowhere.failure().message.find(expected) != std::string::npos);
  ServerOptions ours;
  ours.secret = kSecret;
  std::unique_ptr<StoreServer> server;
  EXPECT(succeeded(StoreServer::start(ours, &server)));
  options.ports = {port, server->port()};
  options.timeout_ns = kLongNs;
  EXPECT(succeeded(StoreClient::connect(&job, options, &client)));
  client->close();
  is_over.store(true);
  old.join();
}

// A member without StoreClient: the test decides which bytes it sends, and when it closes.
struct BareMember {
  explicit BareMember(int port) {
    EXPECT(succeeded(connect_to("127.0.0.1", port, kLongNs, &socket)));
    MessageReader reader(kMaxFrameBytes);
    Message hello;
    EXPECT(reaches([&] {
      char bytes[256];
      const long count = receive_some(socket.get(), bytes, sizeof(bytes));
      if (count > 0) reader.append(bytes, static_cast<size_t>(count));
      return reader.next(&hello) == MessageReader::Result::kMessage;
    }));
    const Handshake handshake{hello.value, random_nonce(), 0, attempt_and_size(0, 1)};
    Message join;
    join.kind = MessageKind::kJoin;
    join.id = handshake.attempt_and_size;
    join.value = handshake.client_nonce + derive(kSecret, Purpose::kProof, handshake);
    seal.emplace(derive(kSecret, Purpose::kClientKey, handshake));
    send(encode(join));
  }
  void send(const std::string& bytes) {
    EXPECT(send_some(socket.get(), bytes.data(), bytes.size()) == static_cast<long>(bytes.size()));
  }

  Descriptor socket;
  std::optional<Seal> seal;
};

// Single bytes are not a sign of life, since any host on the path can add them.
MTL_TEST(store_misses_the_heartbeat_of_a_member_that_sends_no_whole_message) {
  ServerOptions options;
  options.secret = kSecret;
  options.heartbeat_limit_ns = 200 * kMillisecond;
  std::unique_ptr<StoreServer> server;
  EXPECT(succeeded(StoreServer::start(options, &server)));
  BareMember member(server->port());
  member.send(std::string("\0\0\x01\0", 4));  // the length of a message that is never completed
  EXPECT(reaches([&] {
    send_some(member.socket.get(), "x", 1);
    return !server->failure().ok();
  }));
  EXPECT(failed_with(server->failure(), "MTL_HEARTBEAT"));
}

// The member is gone, so that the answers to its requests fail, while the store has not read its abort yet.
MTL_TEST(store_reads_the_abort_of_a_member_that_closes_at_once) {
  ServerOptions options;
  options.secret = kSecret;
  std::unique_ptr<StoreServer> server;
  EXPECT(succeeded(StoreServer::start(options, &server)));
  {
    BareMember member(server->port());
    std::string bytes;
    // about 35 kB of requests: they arrive at once, and the store needs milliseconds to answer
    for (int index = 0; index < 500; ++index) {
      Message question;
      question.kind = MessageKind::kSet;
      question.key = std::to_string(index);
      bytes += encode(question, &*member.seal);
    }
    member.send(bytes + encode(abort_message(), &*member.seal));
  }  // closes without reading anything
  EXPECT(reaches([&] { return !server->failure().ok(); }));
  EXPECT(failed_with(server->failure(), "MTL_NAN"));
}

}  // namespace
}  // namespace mtl::comm::store
