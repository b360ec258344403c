// The C interface between the addon and Gloo. Gloo's C++ ABI differs between its versions, so a separate
// library is compiled against the installed version and opened at run time (see gloo_library.h). No other
// file includes Gloo.
//
// No function throws. Functions that can fail take `error`, a buffer of MTL_GLOO_ERROR_BYTES for the message
// that is written on failure.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MTL_GLOO_ABI_VERSION 2
#define MTL_GLOO_ERROR_BYTES 512
#define MTL_GLOO_ADDRESS_BYTES 256

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MtlGlooContext MtlGlooContext;
typedef struct MtlGlooTransfer MtlGlooTransfer;

enum { MTL_GLOO_FAILED = -1, MTL_GLOO_PENDING = 0, MTL_GLOO_DONE = 1 };

typedef struct MtlGlooApi {
  uint32_t version;
  // The way in which this version of Gloo connects pairs. Members with different handshakes would wait for
  // each other forever. 1: each pair has a listening socket. 2: all pairs share one listening socket, and
  // send the number of the pair first.
  uint32_t handshake;
  // Opens the listening sockets of member `member` of `size`, with one socket for each of the other members.
  // The sockets are bound to `address`, an IP address of this machine. `connect` waits for at most
  // `timeout_ms`. Returns null on failure.
  MtlGlooContext* (*open)(const char* address, int member, int size, int64_t timeout_ms, char* error);
  // Closes the context. All its transfers must have been dropped.
  void (*close)(MtlGlooContext* context);
  // Writes the address at which `other` can connect to this member into `bytes`, at most
  // MTL_GLOO_ADDRESS_BYTES. Returns the number of bytes; 0 on failure.
  size_t (*address_for)(MtlGlooContext* context, int other, void* bytes, char* error);
  // Connects to `other`, which must call this function as well. Blocks until both are connected. Returns
  // MTL_GLOO_DONE or MTL_GLOO_FAILED.
  int (*connect)(MtlGlooContext* context, int other, const void* address, size_t bytes, char* error);
  // Ends a connection, or a `connect` in progress on another thread.
  void (*hang_up)(MtlGlooContext* context, int other);
  // Starts to send or receive. For one member, channel and direction, transfers run in the order of the
  // calls. The memory is used until the transfer is dropped. Returns null on failure.
  MtlGlooTransfer* (*start)(MtlGlooContext* context, int other, uint64_t channel, int is_send, void* data, size_t bytes,
                            char* error);
  // Waits for about `timeout_ms`. A timeout does not affect the transfer, whereas Gloo's own timeouts end
  // every connection. Returns MTL_GLOO_DONE, MTL_GLOO_FAILED or MTL_GLOO_PENDING. It may return PENDING
  // early, and once for a transfer that has just completed, so the caller must call it again.
  int (*wait)(MtlGlooTransfer* transfer, int64_t timeout_ms, char* error);
  // Checks the connection without waiting, even if the transfer is already complete. Returns MTL_GLOO_FAILED
  // if the connection has ended, otherwise MTL_GLOO_PENDING.
  int (*probe)(MtlGlooTransfer* transfer, char* error);
  void (*drop)(MtlGlooTransfer* transfer);
} MtlGlooApi;

// The only symbol that the library exports.
const MtlGlooApi* mtl_gloo_api(void);

#ifdef __cplusplus
}
#endif
