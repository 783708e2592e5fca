// A container's own view of the file system: volumes at their mount paths, without root.
//
// The caller is a single-threaded process that is about to become the container. It gets a mount namespace of its own
// (and a user namespace where it may not have one otherwise, with its own user and group in it), in which each folder
// or file is bound at its path. A path that the machine does not have is made: the deepest folder above it is covered
// by a copy of itself, a small tmpfs with each entry bound in; the machine's own folder is never written to.
#pragma once

namespace tf::shim {

struct Bind {
  const char* source;
  const char* target;  // absolute
  bool read_only;
};

// Nothing to do for count 0. `staging` is an existing empty folder. On failure false, and `problem` says what failed.
bool BindVolumes(Bind* binds, int count, const char* staging, char* problem, unsigned problem_size);

}  // namespace tf::shim
