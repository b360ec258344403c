// Defines functions that musl does not have, but that libraries in a root with musl need: Debian's libstdc++
// and libgcc expect them in glibc, and the Node.js build for musl expects them in a newer libstdc++. musl's
// loader finds them in any library of the process.
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

extern "C" {

// A value other than 0 tells libstdc++ that it need not use atomic operations.
char __libc_single_threaded = 0;

// libgcc exports these two names for programs that were linked with an older version of it
int __cpu_indicator_init() { return 0; }
unsigned __cpu_model[4];

unsigned arc4random() {
  unsigned value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

size_t __strftime_l(char* text, size_t size, const char* format, const tm* time, locale_t locale) {
  return strftime_l(text, size, format, time, locale);
}

// Finds the library that contains `address`. libgcc reads this library's exception table.
int _dl_find_object(void* address, dl_find_object* found) noexcept {
  struct Search {
    ElfW(Addr) address;
    dl_find_object* found;
  } search{reinterpret_cast<ElfW(Addr)>(address), found};
  const auto visit = [](dl_phdr_info* library, size_t, void* data) {
    auto& [wanted, result] = *static_cast<Search*>(data);
    ElfW(Addr) first = ~ElfW(Addr){0};
    ElfW(Addr) last = 0;
    ElfW(Addr) table = 0;
    for (int index = 0; index < library->dlpi_phnum; index++) {
      const ElfW(Phdr)& segment = library->dlpi_phdr[index];
      const ElfW(Addr) start = library->dlpi_addr + segment.p_vaddr;
      if (segment.p_type == PT_GNU_EH_FRAME) table = start;
      if (segment.p_type != PT_LOAD) continue;
      if (start < first) first = start;
      if (start + segment.p_memsz > last) last = start + segment.p_memsz;
    }
    if (wanted < first || wanted >= last || table == 0) return 0;
    *result = {};
    result->dlfo_map_start = reinterpret_cast<void*>(first);
    result->dlfo_map_end = reinterpret_cast<void*>(last);
    result->dlfo_eh_frame = reinterpret_cast<void*>(table);
    return 1;
  };
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}

// Registers the destructor of a thread-local variable. The destructor that was registered last runs first.
int __cxa_thread_atexit_impl(void (*destroy)(void*), void* object, void*) {
  struct Registered {
    Registered* next;
    void (*destroy)(void*);
    void* object;
  };
  static pthread_key_t key;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    pthread_key_create(&key, [](void* head) {
      for (auto* each = static_cast<Registered*>(head); each != nullptr;) {
        Registered* next = each->next;
        each->destroy(each->object);
        free(each);
        each = next;
      }
    });
  });
  auto* registered = static_cast<Registered*>(malloc(sizeof(Registered)));
  if (registered == nullptr) return -1;
  *registered = {static_cast<Registered*>(pthread_getspecific(key)), destroy, object};
  return pthread_setspecific(key, registered);
}

// Replaces `length` characters at `at` in a std::string with `size` characters at `source`, which may be part
// of the same string. `behind` characters follow the replaced characters.
void _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE15_M_replace_coldEPcmPKcmm(
    void*, char* at, size_t length, const char* source, size_t size, size_t behind) {
  char* copy = static_cast<char*>(malloc(size + 1));
  if (copy == nullptr) abort();
  memcpy(copy, source, size);
  memmove(at + size, at + length, behind);
  memcpy(at, copy, size);
  free(copy);
}

}  // extern "C"
