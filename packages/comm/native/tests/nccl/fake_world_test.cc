#include "tests/nccl/fake_world.h"

#ifdef MTL_NCCL_FAKES

#include <dlfcn.h>

#include <cstdlib>

namespace mtl::comm::nccl::tests {
namespace {

void* open_fake(const char* name) {
  return dlopen((std::string(MTL_NCCL_FAKES) + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

const Fakes& fakes() {
  static const Fakes found = [] {
    setenv("MTL_CUDA_LIBS", MTL_NCCL_FAKES, 1);
    Fakes loaded;
    void* cuda = open_fake("libcuda.so.1");
    void* nccl = open_fake("libnccl.so.2");
    const auto resolve = [](void* library, const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(dlsym(library, name));
      report(*function != nullptr, __FILE__, __LINE__, name);
    };
    resolve(cuda, "mtl_fake_enqueue", &loaded.enqueue);
    resolve(cuda, "mtl_fake_claim", &loaded.claim);
    resolve(cuda, "mtl_fake_trespasses", &loaded.trespasses);
    resolve(cuda, "mtl_fake_live_objects", &loaded.live_objects);
    resolve(cuda, "cuStreamCreateWithPriority", &loaded.create_stream);
    resolve(cuda, "cuStreamDestroy_v2", &loaded.destroy_stream);
    resolve(cuda, "cuCtxPushCurrent_v2", &loaded.push);
    resolve(cuda, "cuCtxPopCurrent_v2", &loaded.pop);
    resolve(nccl, "mtl_fake_set", &loaded.set);
    resolve(nccl, "mtl_fake_count", &loaded.count);
    const Status status = open_nccl_libraries(&loaded.libraries);
    EXPECT_STATUS(status.ok(), status);
    return loaded;
  }();
  return found;
}

Rank::Rank(int rank, MemoryStore* store) : rank_(rank), store_(store), job_(rank) {
  CUcontext context = nullptr;
  fakes().push(context);
  EXPECT(fakes().create_stream(&compute_, CU_STREAM_NON_BLOCKING, -5) == CUDA_SUCCESS);
  fakes().pop(&context);
  fakes().claim(compute_);
}

Rank::~Rank() {
  CUcontext context = nullptr;
  fakes().push(context);
  fakes().destroy_stream(compute_);
  fakes().pop(&context);
  EXPECT(num_keeping_memory_ == 0);
}

std::unique_ptr<Group> Rank::group(const std::string& name, std::vector<int> ranks, double timeout_s,
                                   double naming_s) {
  GroupIdentity identity;
  identity.name = name;
  identity.ranks = std::move(ranks);
  while (identity.ranks[static_cast<size_t>(identity.rank)] != rank_) ++identity.rank;
  identity.timeout_ns = static_cast<int64_t>(timeout_s * 1e9);
  NcclOptions options;
  options.key = "group/" + name;
  options.compute_stream = compute_;
  options.store = store_->access();
  options.process = process_;
  options.keep_memory = [this](int32_t change) { num_keeping_memory_ += change; };
  options.naming_ns = static_cast<int64_t>(naming_s * 1e9);
  std::unique_ptr<Communicator> communicator;
  const Status status = connect_nccl(fakes().libraries, identity, options, &job_, &communicator);
  EXPECT_STATUS(status.ok(), status);
  return std::unique_ptr<Group>(new Group(1, identity, std::move(communicator), &job_, &trace_));
}

void Rank::compute(std::function<void()> work) {
  fakes().enqueue(compute_, [](void* argument) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(argument));
    (*owned)();
  }, new std::function<void()>(std::move(work)));
}

void Rank::synchronize() {
  Gate reached;
  compute([&] { reached.open(); });
  reached.wait();
}

void run_ranks(int num_ranks, const std::function<void(Rank*)>& body, MemoryStore* store) {
  MemoryStore own;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Rank self(rank, store == nullptr ? &own : store);
      body(&self);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(fakes().trespasses() == 0);
  EXPECT(fakes().live_objects() == 0);
  EXPECT(fakes().count(kFakeCommunicators) == 0);
}

}  // namespace mtl::comm::nccl::tests

#endif
