// The functions that device code calls and a driver provides: vprintf, malloc, free, __assertfail.
#include <bit>
#include <cstdio>
#include <cstring>
#include <string>

#include "simgpu/ptx/block.h"
#include "simgpu/ptx/exec/access.h"
#include "simgpu/ptx/text.h"

namespace tf::simgpu::ptx {
namespace {

constexpr size_t kMaxString = 64 * 1024;

uint64_t Argument(Warp& w, const CallSite& site, size_t k, uint32_t lane) {
  if (k >= site.arguments.size()) return 0;
  const ArgumentCopy& a = site.arguments[k];
  uint64_t value = 0;
  const uint8_t* from = a.actual_is_register
                            ? w.At<uint8_t>(a.actual) + lane * a.actual_size
                            : w.memory.local + lane * w.memory.local_stride + w.frame->stack_base + a.actual;
  std::memcpy(&value, from, std::min<size_t>(a.actual_size, 8));
  return value;
}

void SetResult(Warp& w, const CallSite& site, uint32_t lane, uint64_t value) {
  if (site.results.empty()) return;
  const ArgumentCopy& a = site.results[0];
  uint8_t* to = a.actual_is_register ? w.At<uint8_t>(a.actual) + lane * a.actual_size
                                     : w.memory.local + lane * w.memory.local_stride + w.frame->stack_base + a.actual;
  std::memcpy(to, &value, std::min<size_t>(a.actual_size, 8));
}

// A string of device memory. False: it is not readable.
bool ReadString(const Warp& w, uint64_t address, uint32_t lane, std::string& out) {
  out.clear();
  for (; out.size() < kMaxString; ++address) {
    Fault fault;
    const uint8_t* p = Translate(w.memory, Space::kGeneric, address, 1, false, static_cast<int>(lane), fault);
    if (p == nullptr) return false;
    if (*p == 0) return true;
    out.push_back(static_cast<char>(*p));
  }
  return true;
}

// The arguments of a printf lie one after another, each aligned to its size.
class Arguments {
 public:
  Arguments(const Warp& w, uint64_t address, uint32_t lane) : w_(w), address_(address), lane_(lane) {}
  uint64_t Next(uint64_t bytes) {
    address_ = (address_ + bytes - 1) & ~(bytes - 1);
    Fault fault;
    const uint8_t* p = Translate(w_.memory, Space::kGeneric, address_, bytes, false, static_cast<int>(lane_), fault);
    address_ += bytes;
    ++count_;
    if (p == nullptr) {
      good_ = false;
      return 0;
    }
    uint64_t value = 0;
    std::memcpy(&value, p, bytes);
    return value;
  }
  bool good() const { return good_; }
  int count() const { return count_; }

 private:
  const Warp& w_;
  uint64_t address_;
  uint32_t lane_;
  bool good_ = true;
  int count_ = 0;
};

template <typename T>
void Print(std::string& out, const std::string& format, T value) {
  char small[512];
  int n = std::snprintf(small, sizeof small, format.c_str(), value);
  if (n < 0) return;
  if (static_cast<size_t>(n) < sizeof small) {
    out.append(small, static_cast<size_t>(n));
    return;
  }
  std::string large(static_cast<size_t>(n) + 1, '\0');
  std::snprintf(large.data(), large.size(), format.c_str(), value);
  out.append(large, 0, static_cast<size_t>(n));
}

// C's printf over device arguments. Widths and precisions are bounded so that a format cannot ask for gigabytes.
bool Format(const Warp& w, uint32_t lane, const std::string& format, Arguments& arguments, std::string& out) {
  for (size_t i = 0; i < format.size();) {
    if (format[i] != '%') {
      out.push_back(format[i++]);
      continue;
    }
    size_t begin = i++;
    std::string spec = "%";
    while (i < format.size() && std::strchr("-+ #0", format[i]) != nullptr) spec.push_back(format[i++]);
    auto number = [&] {
      if (i < format.size() && format[i] == '*') {
        ++i;
        auto n = static_cast<int32_t>(arguments.Next(4));
        spec += std::to_string(std::max(-4096, std::min(4096, n)));
        return;
      }
      int n = 0;
      bool any = false;
      for (; i < format.size() && format[i] >= '0' && format[i] <= '9'; ++i, any = true)
        n = std::min(4096, n * 10 + (format[i] - '0'));
      if (any) spec += std::to_string(n);
    };
    number();
    if (i < format.size() && format[i] == '.') {
      spec.push_back(format[i++]);
      number();
    }
    int longs = 0, shorts = 0;
    while (i < format.size() && std::strchr("hlLjzt", format[i]) != nullptr) {
      longs += format[i] != 'h';
      shorts += format[i] == 'h';
      ++i;
    }
    if (i >= format.size()) {
      out.append(format, begin);
      break;
    }
    char c = format[i++];
    switch (c) {
      case '%':
        out.push_back('%');
        break;
      case 'd':
      case 'i': {
        long long v = longs ? static_cast<long long>(arguments.Next(8)) : static_cast<int32_t>(arguments.Next(4));
        if (shorts == 1) v = static_cast<int16_t>(v);
        if (shorts == 2) v = static_cast<int8_t>(v);
        Print(out, spec + "ll" + c, v);
        break;
      }
      case 'u':
      case 'x':
      case 'X':
      case 'o': {
        unsigned long long v = longs ? arguments.Next(8) : arguments.Next(4);
        if (shorts == 1) v = static_cast<uint16_t>(v);
        if (shorts == 2) v = static_cast<uint8_t>(v);
        Print(out, spec + "ll" + c, v);
        break;
      }
      case 'c':
        Print(out, spec + c, static_cast<int>(arguments.Next(4)));
        break;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        Print(out, spec + c, std::bit_cast<double>(arguments.Next(8)));
        break;
      case 'p':
        Print(out, spec + c, reinterpret_cast<void*>(arguments.Next(8)));
        break;
      case 's': {
        uint64_t address = arguments.Next(8);
        std::string text;
        if (address == 0) {
          text = "(null)";
        } else if (!ReadString(w, address, lane, text)) {
          return false;
        }
        Print(out, spec + c, text.c_str());
        break;
      }
      default:
        out.append(format, begin, i - begin);
        break;
    }
    if (!arguments.good()) return false;
  }
  return true;
}

const Inst* Printf(Warp& w, const Inst* in, const CallSite& site) {
  std::string out, format;
  uint64_t known = 0;
  const Inst* next = in + 1;
  EachLane(w.mask, [&](int i) {
    if (next != in + 1) return;
    auto lane = static_cast<uint32_t>(i);
    uint64_t address = Argument(w, site, 0, lane);
    if (address == 0) {
      SetResult(w, site, lane, static_cast<uint64_t>(-1));
      return;
    }
    if (address != known && !ReadString(w, address, lane, format)) {
      next = FaultAt(w, in, Fault::kIllegalAddress, "printf with a format that is not readable", lane, address);
      return;
    }
    known = address;
    Arguments arguments(w, Argument(w, site, 1, lane), lane);
    if (!Format(w, lane, format, arguments, out)) {
      next = FaultAt(w, in, Fault::kIllegalAddress, "printf with an argument that is not readable", lane,
                     Argument(w, site, 1, lane));
      return;
    }
    SetResult(w, site, lane, static_cast<uint64_t>(arguments.count()));
  });
  if (!out.empty() && w.block->config->print) w.block->config->print(out);
  return next;
}

const Inst* AssertFail(Warp& w, const Inst* in, const CallSite& site) {
  std::string out;
  uint32_t first = static_cast<uint32_t>(std::countr_zero(w.mask));
  EachLane(w.mask, [&](int i) {
    auto lane = static_cast<uint32_t>(i);
    std::string message, file, function;
    ReadString(w, Argument(w, site, 0, lane), lane, message);
    ReadString(w, Argument(w, site, 1, lane), lane, file);
    ReadString(w, Argument(w, site, 3, lane), lane, function);
    const Specials& s = *w.specials;
    out += Cat(file, ":", static_cast<uint32_t>(Argument(w, site, 2, lane)), ": ", function, ": block: [",
               s.ctaid[0][lane], ",", s.ctaid[1][lane], ",", s.ctaid[2][lane], "], thread: [", s.tid[0][lane], ",",
               s.tid[1][lane], ",", s.tid[2][lane], "] Assertion `", message, "` failed.\n");
  });
  if (w.block->config->print_error) w.block->config->print_error(out);
  return FaultAt(w, in, Fault::kAssert, "assertion failed", first);
}

}  // namespace

const Inst* RunBuiltin(Warp& w, const Inst* in, const CallSite& site) {
  switch (site.builtin) {
    case Builtin::kPrintf:
      return Printf(w, in, site);
    case Builtin::kAssertFail:
      return AssertFail(w, in, site);
    case Builtin::kMalloc:
      EachLane(w.mask, [&](int i) {
        auto lane = static_cast<uint32_t>(i);
        Heap* heap = w.block->config->heap;
        SetResult(w, site, lane, heap == nullptr ? 0 : heap->Allocate(Argument(w, site, 0, lane)));
      });
      return in + 1;
    case Builtin::kFree:
      EachLane(w.mask, [&](int i) {
        Heap* heap = w.block->config->heap;
        if (heap != nullptr) heap->Free(Argument(w, site, 0, static_cast<uint32_t>(i)));
      });
      return in + 1;
    case Builtin::kNone:
      break;
  }
  return FaultAt(w, in, Fault::kIllegalInstruction, "unknown function",
                 static_cast<uint32_t>(std::countr_zero(w.mask)));
}

}  // namespace tf::simgpu::ptx
