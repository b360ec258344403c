// Tests of a store and its clients, which are threads of this process, with time limits of milliseconds.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "core/clock.h"
#include "store/proof.h"
#include "store/store_client.h"
#include "store/store_server.h"
#include "tests/native_test.h"

namespace mtl::comm::store {
namespace {

using tests::failed_with;
using tests::succeeded;
constexpr int64_t kLongNs = 20000 * kMillisecond;  // never reached unless something is broken

// A rank: its abort state and its client.
struct Rank {
  explicit Rank(int rank) : job(rank) {}
  ~Rank() {
    if (client != nullptr) client->close();
  }
  JobState job;
  std::shared_ptr<StoreClient> client;
};

ServerOptions server_options(int world_size) {
  ServerOptions options;
  options.secret = "a secret";
  options.world_size = world_size;
  return options;
}

ClientOptions client_options(const StoreServer& server, int world_size) {
  ClientOptions options;
  options.ports = {server.port()};
  options.secret = "a secret";
  options.world_size = world_size;
  options.timeout_ns = kLongNs;
  return options;
}

std::unique_ptr<StoreServer> start(ServerOptions options) {
  std::unique_ptr<StoreServer> server;
  EXPECT(succeeded(StoreServer::start(std::move(options), &server)));
  return server;
}

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

// Opens an unauthenticated connection that sends nothing.
Descriptor stranger(const StoreServer& server) {
  Descriptor socket;
  EXPECT(succeeded(connect_to("127.0.0.1", server.port(), kLongNs, &socket)));
  return socket;
}

Message next_message(const Descriptor& socket, MessageReader* reader) {
  Message message;
  EXPECT(reaches([&] {
    char bytes[256];
    const long count = receive_some(socket.get(), bytes, sizeof(bytes));
    if (count > 0) reader->append(bytes, static_cast<size_t>(count));
    return reader->next(&message) == MessageReader::Result::kMessage;
  }));
  return message;
}

// Joins on an unauthenticated connection, without a client. Returns the time of the join request.
int64_t join_by_hand(const Descriptor& socket, int rank, int world_size) {
  MessageReader reader(kMaxFrameBytes);
  const Message hello = next_message(socket, &reader);
  const Handshake handshake{hello.value, random_nonce(), rank, attempt_and_size(0, world_size)};
  Message join;
  join.kind = MessageKind::kJoin;
  join.number = rank;
  join.id = handshake.attempt_and_size;
  join.value = handshake.client_nonce + derive("a secret", Purpose::kProof, handshake);
  reader.set_seal(Seal(derive("a secret", Purpose::kServerKey, handshake)));
  const std::string frame = encode(join);
  const int64_t asked_ns = now_ns();
  EXPECT(send_some(socket.get(), frame.data(), frame.size()) == static_cast<long>(frame.size()));
  EXPECT(next_message(socket, &reader).kind == MessageKind::kWelcome);
  return asked_ns;
}

// Returns whether the other end closes the connection, whatever it sends before.
bool is_closed_by_peer(const Descriptor& socket) {
  char bytes[4096];
  return reaches([&] { return receive_some(socket.get(), bytes, sizeof(bytes)) < 0; });
}

MTL_TEST(store_keys) {
  auto server = start(server_options(2));
  Rank first(0), second(1);
  EXPECT(succeeded(StoreClient::connect(&first.job, client_options(*server, 2), &first.client)));
  EXPECT(succeeded(StoreClient::connect(&second.job, client_options(*server, 2), &second.client)));
  std::string value;
  bool is_there = true;
  EXPECT(succeeded(first.client->find("a", &is_there, &value)) && !is_there);
  std::thread waiting([&] { EXPECT(succeeded(second.client->get("a", kLongNs, &value)) && value == "one"); });
  EXPECT(succeeded(first.client->set("a", "one")));
  waiting.join();
  EXPECT(failed_with(first.client->set("a", "two"), "MTL_STORE_REFUSED"));
  EXPECT(succeeded(second.client->find("a", &is_there, &value)) && is_there && value == "one");
  EXPECT(failed_with(first.client->get("b", 20 * kMillisecond, &value), "MTL_TIMEOUT"));
  EXPECT(succeeded(second.client->set("b", "late")));
  EXPECT(succeeded(first.client->get("b", kLongNs, &value)) && value == "late");
  int64_t sum = 0;
  EXPECT(succeeded(first.client->add("n", 3, &sum)) && sum == 3);
  EXPECT(succeeded(second.client->add("n", -5, &sum)) && sum == -2);
  EXPECT(failed_with(second.client->add("a", 1, &sum), "MTL_STORE_REFUSED"));
  EXPECT(failed_with(first.client->set(std::string(kMaxKeyBytes + 1, 'k'), ""), "MTL_ARGUMENT"));
  EXPECT(failed_with(first.client->set("large", std::string(kMaxValueBytes + 1, 'v')), "MTL_ARGUMENT"));
  EXPECT(succeeded(first.client->set("largest", std::string(kMaxValueBytes, 'v'))));
  EXPECT(succeeded(second.client->get("largest", kLongNs, &value)) && value.size() == kMaxValueBytes);
  EXPECT(server->failure().ok() && !first.job.is_aborted());
}

// Ranks and the threads of each rank use the store at once; then one fails while the others wait for a key.
MTL_TEST(store_of_ranks_that_ask_at_once) {
  for (const int size : {2, 3, 4}) {
    auto server = start(server_options(size));
    const auto key = [](int rank, int round) { return std::to_string(rank) + "/" + std::to_string(round); };
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        Rank own(rank);
        EXPECT(succeeded(StoreClient::connect(&own.job, client_options(*server, size), &own.client)));
        constexpr int kRounds = 20;
        std::thread reader([&] {
          for (int round = 0; round < kRounds; ++round) {
            for (int other = 0; other < size; ++other) {
              std::string value;
              EXPECT(succeeded(own.client->get(key(other, round), kLongNs, &value)) && value == key(round, other));
            }
          }
        });
        int64_t sum = 0;
        for (int round = 0; round < kRounds; ++round) {
          EXPECT(succeeded(own.client->set(key(rank, round), key(round, rank))));
          EXPECT(succeeded(own.client->add("all", 1, &sum)) && sum > round);
        }
        reader.join();
        EXPECT(succeeded(own.client->add("ready", 1, &sum)));
        if (sum == size) EXPECT(succeeded(own.client->set("complete", "")));
        std::string value;
        if (rank > 0) {
          EXPECT(failed_with(own.client->get("never", kLongNs, &value), "MTL_NAN"));
          return;
        }
        EXPECT(succeeded(own.client->get("complete", kLongNs, &value)));
        Failure failure;
        failure.code = "MTL_NAN";
        failure.message = "the loss is not a number";
        failure.rank = 0;
        std::thread asking([&] {
          int64_t number;
          while (own.client->add("noise", 1, &number).ok()) {
          }
        });
        own.job.abort(failure);
        asking.join();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT(server->wait_until_left(kLongNs) && failed_with(server->failure(), "MTL_NAN"));
  }
}

MTL_TEST(store_limits_of_keys_and_bytes) {
  ServerOptions options = server_options(1);
  options.max_keys = 2;
  options.max_bytes = 100;
  auto server = start(options);
  Rank rank(0);
  EXPECT(succeeded(StoreClient::connect(&rank.job, client_options(*server, 1), &rank.client)));
  EXPECT(failed_with(rank.client->set("a", std::string(100, 'v')), "MTL_STORE_REFUSED"));
  EXPECT(succeeded(rank.client->set("a", "1")));
  EXPECT(succeeded(rank.client->set("b", "2")));
  EXPECT(failed_with(rank.client->set("c", "3"), "MTL_STORE_REFUSED"));
  EXPECT(server->failure().ok());
}

MTL_TEST(store_members_that_do_not_fit_are_refused) {
  auto server = start(server_options(2));
  Rank rank(0), same(0), outside(2), other(1);
  ClientOptions options = client_options(*server, 2);
  EXPECT(succeeded(StoreClient::connect(&rank.job, options, &rank.client)));
  EXPECT(failed_with(StoreClient::connect(&same.job, options, &same.client), "MTL_STORE_REFUSED"));
  EXPECT(failed_with(StoreClient::connect(&outside.job, options, &outside.client), "MTL_STORE_REFUSED"));
  options.secret = "another";
  EXPECT(failed_with(StoreClient::connect(&other.job, options, &other.client), "MTL_STORE_REFUSED"));
  EXPECT(reaches([&] { return server->num_refused() == 1; }));
  options = client_options(*server, 2);
  options.attempt = 1;  // the client retries until the store of its own attempt is available
  options.timeout_ns = 50 * kMillisecond;
  EXPECT(failed_with(StoreClient::connect(&other.job, options, &other.client), "MTL_STORE_UNREACHABLE"));
  EXPECT(server->failure().ok());
}

// The store of this job is not at the first ports: another program and the store of another job use these.
MTL_TEST(store_is_found_among_strangers) {
  ServerOptions foreign = server_options(1);
  foreign.secret = "of another job";
  auto other = start(foreign);
  Descriptor silent;
  int silent_port = 0;
  EXPECT(succeeded(listen_on("127.0.0.1", {0}, &silent, &silent_port)));
  std::thread web([&] {  // speaks first, as mail servers do
    std::string peer;
    Descriptor accepted;
    EXPECT(reaches([&] { return (accepted = accept_from(silent.get(), &peer)).is_open(); }));
    const std::string text = "220 mail.example ready, and a line long enough to be no message\r\n";
    EXPECT(send_some(accepted.get(), text.data(), text.size()) > 0);
    EXPECT(is_closed_by_peer(accepted));
  });
  auto server = start(server_options(1));
  ClientOptions options = client_options(*server, 1);
  options.ports = {silent_port, other->port(), server->port()};
  Rank rank(0);
  EXPECT(succeeded(StoreClient::connect(&rank.job, options, &rank.client)));
  EXPECT(succeeded(rank.client->set("a", "here")));
  web.join();
}

MTL_TEST(store_tells_everybody_of_an_abort) {
  auto server = start(server_options(3));
  Rank first(0), second(1), late(2);
  EXPECT(succeeded(StoreClient::connect(&first.job, client_options(*server, 3), &first.client)));
  EXPECT(succeeded(StoreClient::connect(&second.job, client_options(*server, 3), &second.client)));
  std::string value;
  std::thread waiting([&] { EXPECT(failed_with(second.client->get("never", kLongNs, &value), "MTL_NAN")); });
  Failure failure;
  failure.code = "MTL_NAN";
  failure.message = "rank 0 failed: the loss is not a number";
  failure.rank = 0;
  first.job.abort(failure);
  first.client->wait_until_told(kLongNs);
  waiting.join();
  EXPECT(second.job.is_aborted() && second.job.reason().failure().rank == 0);
  EXPECT(second.job.reason().failure().message == failure.message);
  EXPECT(failed_with(server->failure(), "MTL_NAN"));
  // a rank that joins later learns it as well
  EXPECT(succeeded(StoreClient::connect(&late.job, client_options(*server, 3), &late.client)));
  EXPECT(reaches([&] { return late.job.is_aborted(); }));
}

MTL_TEST(store_fails_the_job_on_account_of_a_rank_that_never_joined) {
  auto server = start(server_options(3));
  Rank first(0), late(2);
  EXPECT(succeeded(StoreClient::connect(&first.job, client_options(*server, 3), &first.client)));
  std::string value;
  std::thread waiting([&] { EXPECT(failed_with(first.client->get("rank/1", kLongNs, &value), "MTL_RANK_DIED")); });
  Failure failure;
  failure.code = "MTL_RANK_DIED";
  failure.message = "rank 1 ended with exit code 7";
  failure.rank = 1;
  server->abort(failure);
  waiting.join();
  EXPECT(first.job.reason().failure().rank == 1 && server->failure().failure().rank == 1);
  // a rank that joins later is told as well; a second reason changes nothing
  failure.rank = 0;
  server->abort(failure);
  EXPECT(succeeded(StoreClient::connect(&late.job, client_options(*server, 3), &late.client)));
  EXPECT(reaches([&] { return late.job.is_aborted(); }));
  EXPECT(late.job.reason().failure().rank == 1);
}

MTL_TEST(store_takes_a_lost_connection_for_a_death_and_a_goodbye_not) {
  auto server = start(server_options(3));
  Rank first(0), second(1);
  EXPECT(succeeded(StoreClient::connect(&first.job, client_options(*server, 3), &first.client)));
  EXPECT(succeeded(StoreClient::connect(&second.job, client_options(*server, 3), &second.client)));
  second.client->close();
  EXPECT(!server->wait_until_left(20 * kMillisecond));
  EXPECT(server->failure().ok() && !first.job.is_aborted());
  {
    Descriptor socket = stranger(*server);
    join_by_hand(socket, 2, 3);  // ends without leaving
  }
  EXPECT(reaches([&] { return first.job.is_aborted(); }));
  EXPECT(failed_with(first.job.reason(), "MTL_RANK_DIED") && first.job.reason().failure().rank == 2);
}

MTL_TEST(store_misses_the_heartbeat_of_a_silent_member) {
  ServerOptions options = server_options(2);
  // the limit must be long enough for rank 0's thread to send its heartbeat even on a busy core
  options.heartbeat_limit_ns = 1000 * kMillisecond;
  auto server = start(options);
  Rank rank(0);
  EXPECT(succeeded(StoreClient::connect(&rank.job, client_options(*server, 2), &rank.client)));
  Descriptor socket = stranger(*server);
  const int64_t started = join_by_hand(socket, 1, 2);  // this member has no thread that sends heartbeats
  EXPECT(reaches([&] { return rank.job.is_aborted(); }));
  EXPECT(now_ns() - started >= options.heartbeat_limit_ns);
  EXPECT(failed_with(rank.job.reason(), "MTL_HEARTBEAT") && rank.job.reason().failure().rank == 1);
}

MTL_TEST(store_that_is_gone_fails_the_job) {
  auto server = start(server_options(1));
  Rank rank(0);
  EXPECT(succeeded(StoreClient::connect(&rank.job, client_options(*server, 1), &rank.client)));
  // a rank that waits for a key is told why the key will never be set
  std::string value;
  std::thread waiting([&] { EXPECT(failed_with(rank.client->get("never", kLongNs, &value), "MTL_STORE_LOST")); });
  server.reset();
  EXPECT(reaches([&] { return rank.job.is_aborted(); }));
  waiting.join();
  EXPECT(failed_with(rank.job.reason(), "MTL_STORE_LOST"));
}

// Random data, HTTP, huge lengths, proofs of other secrets, silence, and more connections than the store
// keeps, while two ranks exchange keys: every unauthenticated connection is rejected and every key arrives.
MTL_TEST(store_goes_on_under_garbage) {
  ServerOptions options = server_options(2);
  options.join_limit_ns = 100 * kMillisecond;
  options.max_strangers = 8;
  auto server = start(options);
  Rank first(0), second(1);
  EXPECT(succeeded(StoreClient::connect(&first.job, client_options(*server, 2), &first.client)));
  EXPECT(succeeded(StoreClient::connect(&second.job, client_options(*server, 2), &second.client)));
  std::atomic<bool> is_over{false};
  std::atomic<int> num_rounds{0};
  std::thread strangers([&] {
    uint32_t state = 7;
    while (!is_over.load()) {
      std::vector<Descriptor> silent;
      for (int count = 0; count < 12; ++count) silent.push_back(stranger(*server));
      for (const std::string& text : {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string(4, '\xff'),
                                      std::string(70000, '\0'), std::string("\x19\0\0\0", 4) + std::string(25, '\x02')}) {
        Descriptor socket = stranger(*server);
        send_some(socket.get(), text.data(), text.size());
        EXPECT(is_closed_by_peer(socket));
      }
      Descriptor noise = stranger(*server);
      std::string bytes(300, '\0');
      for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
      send_some(noise.get(), bytes.data(), bytes.size());
      Message join;  // the right format, but with the proof of another secret
      join.kind = MessageKind::kJoin;
      join.id = attempt_and_size(0, 2);
      join.value.assign(kNonceBytes + 32, 'x');
      Descriptor forger = stranger(*server);
      const std::string frame = encode(join);
      send_some(forger.get(), frame.data(), frame.size());
      EXPECT(is_closed_by_peer(forger));
      Descriptor slow = stranger(*server);  // one byte and then nothing
      send_some(slow.get(), "\x20", 1);
      EXPECT(is_closed_by_peer(slow));
      ++num_rounds;
    }
  });
  for (int index = 0; index < 400 || num_rounds.load() < 3; ++index) {
    const std::string key = std::to_string(index);
    EXPECT(succeeded(first.client->set(key, key)));
    std::string value;
    EXPECT(succeeded(second.client->get(key, kLongNs, &value)) && value == key);
  }
  is_over.store(true);
  strangers.join();
  EXPECT(server->num_refused() > 3 * 6);
  EXPECT(server->failure().ok() && !first.job.is_aborted() && !second.job.is_aborted());
}

}  // namespace
}  // namespace mtl::comm::store
