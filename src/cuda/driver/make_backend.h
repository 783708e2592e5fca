// What the driver front asks of the library that it is compiled into. A libcuda.so.1 is the front (library
// `driver_front` plus the source file cuda/driver/exports.cc, which must be compiled into the shared library itself so
// that its symbols are exported) and one source that defines MakeBackend. The version script is
// generated/cuda/driver.map:
//
//   tf_shared(cuda_client OUTPUT libcuda.so.1 FOLDER lib/client EXPORTS ${CMAKE_BINARY_DIR}/generated/cuda/driver.map
//     SOURCES make_backend.cc ${CMAKE_SOURCE_DIR}/src/cuda/driver/exports.cc
//     DEPS    driver_front …)
//
// What the front promises a backend:
//   * MakeBackend runs at most once, in the first cuInit, with no lock of the front held that a backend thread could
//     want. SetEvents is the first call, Describe the second. The backend is never destroyed.
//   * Operations come from any thread, several at once. Two calls of which one returned before the other began are
//     ordered for the backend, whatever their threads. In a child after fork() no call comes at all.
//   * Numbers of contexts, streams, events, modules and pools are never 0 and never used twice; stream 0 is the legacy
//     default stream; pool 0 is the default pool of the context's device. An event may be waited for in another context
//     than its own. Addresses given to Copy and Fill have been checked against what this process allocated; a device
//     address may belong to another context than the call's. Widths of Fill are bytes, multiples of the element.
//   * ContextDestroy ends everything in the context (streams, events, modules, memory, pinned memory): nothing is
//     destroyed one by one before it.
//
// What the front expects:
//   * BackendEvents::HostFunction runs the program's function on the calling thread and returns when it is over: the
//     return is the acknowledgement. The function may take any time and may wait for other threads of the program, so
//     it must be called from a thread that nothing else waits for. Each token is raised at most once; a token whose
//     stream will never get there (context destroyed, worker lost) is raised with the error or not at all.
//   * BackendEvents::Output writes before it returns.
//   * After the connection is lost every operation answers CUDA_ERROR_DEVICE_UNAVAILABLE at once.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cuda/backend.h"

namespace tf::cuda::driver {

// Failures and what cuInit makes of them, after one line on standard error with the status message:
//   kNotFound            no card, no worker named        CUDA_ERROR_NO_DEVICE (100)
//   kUnavailable         the worker does not answer      CUDA_ERROR_DEVICE_UNAVAILABLE (46)
//   kFailedPrecondition  client and worker do not match  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)
//   kPermissionDenied    the system or the worker refuses CUDA_ERROR_OPERATING_SYSTEM (304)
//   kResourceExhausted   no memory, no room for a client CUDA_ERROR_OUT_OF_MEMORY (2)
//   kInvalidArgument     configuration that cannot be read CUDA_ERROR_INVALID_VALUE (1)
//   anything else                                        CUDA_ERROR_UNKNOWN (999)
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend();

}  // namespace tf::cuda::driver
