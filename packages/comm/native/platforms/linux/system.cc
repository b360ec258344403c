#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

#include "platforms/platform.h"

namespace mtl::comm::platform {
namespace {

Status failed(const char* what) {
  return error_status("MTL_SEGMENT", "%s for shared memory failed: %s", what, std::strerror(errno));
}

void* map_shared(int handle, uint64_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
  return data == MAP_FAILED ? nullptr : data;
}

}  // namespace

// Uses a memfd, because the size limit of /dev/shm does not apply to a memfd.
Status create_shared_memory(uint64_t bytes, int* handle, void** data) {
  *handle = memfd_create("mtl-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (*handle < 0) return failed("memfd_create");
  if (ftruncate(*handle, static_cast<off_t>(bytes)) != 0) return failed("ftruncate");
  // sealed, because a process that shrinks the memory would cause a SIGBUS in the other processes
  if (fcntl(*handle, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return failed("sealing");
  *data = map_shared(*handle, bytes);
  return *data == nullptr ? failed("mmap") : ok_status();
}

Status open_shared_memory(int pid, int handle, uint64_t bytes, void** data) {
  const std::string path = format_text("/proc/%d/fd/%d", pid, handle);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) {
    return error_status("MTL_SEGMENT", "%s, shared memory of another rank, cannot be opened: %s", path.c_str(),
                        std::strerror(errno));
  }
  struct stat information;
  const bool has_size = fstat(opened, &information) == 0 && static_cast<uint64_t>(information.st_size) == bytes;
  *data = has_size ? map_shared(opened, bytes) : nullptr;
  close(opened);
  if (*data != nullptr) return ok_status();
  return error_status("MTL_SEGMENT", "%s is not the shared memory that it should be: its process has ended", path.c_str());
}

void unmap_shared_memory(void* data, uint64_t bytes) { munmap(data, bytes); }

void sleep_while(const std::atomic<uint32_t>* word, uint32_t seen, int64_t nanoseconds) {
  timespec time;
  time.tv_sec = nanoseconds / 1000000000;
  time.tv_nsec = nanoseconds % 1000000000;
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_all(const std::atomic<uint32_t>* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

int create_event() { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

void raise_event(int event) {
  const uint64_t one = 1;
  // the write succeeds, or fails because the counter is full; the event is raised in both cases
  const ssize_t written = write(event, &one, sizeof(one));
  static_cast<void>(written);
}

void clear_event(int event) {
  uint64_t count;
  const ssize_t taken = read(event, &count, sizeof(count));
  static_cast<void>(taken);  // the counter may already be 0, which is not an error
}

int watch_process(int pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

Status end_with_parent(int64_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return error_status("MTL_LAUNCH", "prctl(PR_SET_PDEATHSIG) failed: %s", std::strerror(errno));
  }
  if (getppid() != parent) raise(SIGKILL);
  return ok_status();
}

int num_processors() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  return sched_getaffinity(0, sizeof(processors), &processors) == 0 ? CPU_COUNT(&processors) : 0;
}

bool fill_with_random(void* data, size_t bytes) { return getrandom(data, bytes, 0) == static_cast<ssize_t>(bytes); }

}  // namespace mtl::comm::platform
