// The exported functions by name, for tests that are linked with them.
#pragma once

#include <string_view>

namespace tf::cuda::driver {

// nullptr: no such symbol. Symbols are those of the version script, _v2 and _ptsz included.
void* FindExport(std::string_view symbol);

}  // namespace tf::cuda::driver
