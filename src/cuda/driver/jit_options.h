// The options that come with an image: logs are written into the program's buffers; everything else is accepted and has
// no effect, as the documents allow for options that a compiler does not know what to do with.
#pragma once

#include <string>
#include <string_view>

#include "cuda/driver_types.h"

namespace tf::cuda::driver {

class JitOptions {
 public:
  // INVALID_VALUE: options without values, an unknown option.
  CUresult Read(unsigned int count, CUjit_option* options, void** values);
  // After the load. The log goes to the information or the error buffer, cut to its size and terminated.
  void WriteLogs(CUresult result, std::string_view log) const;

 private:
  struct Buffer {
    char* text = nullptr;
    size_t size = 0;
    void** size_out = nullptr;  // receives the bytes written
  };
  static void Write(const Buffer& buffer, std::string_view log);
  Buffer info_, error_;
};

}  // namespace tf::cuda::driver
