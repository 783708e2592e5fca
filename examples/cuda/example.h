// What the examples share: options, checks, times, and the one line that each prints: "name: PASS …" (exit status 0) or
// "name: FAIL …" (exit status 1).
#pragma once

#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace example {

inline const char* program = "example";

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void Fail(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::printf("%s: FAIL %s\n", program, text);
  std::fflush(stdout);
  std::_Exit(1);
}

__attribute__((format(printf, 1, 2))) inline void Pass(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::printf("%s: PASS %s\n", program, text);
}

// An option `--name N`; without a name, the one argument that is not an option.
struct Option {
  const char* name;
  long* value;
  const char* help;
};

// Reads the command line; answers --help; leaves with status 2 on what it does not know.
inline void ParseOptions(int argc, char** argv, const char* name, const char* summary,
                         std::initializer_list<Option> options) {
  program = name;
  auto help = [&](FILE* to) {
    std::fprintf(to, "%s: %s\n", name, summary);
    for (const Option& option : options) {
      std::fprintf(to, "  %s%s N   %s (default %ld)\n", *option.name ? "--" : "", option.name, option.help,
                   *option.value);
    }
  };
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0) {
      help(stdout);
      std::exit(0);
    }
    const Option* found = nullptr;
    const bool named = std::strncmp(argv[i], "--", 2) == 0;
    for (const Option& option : options) {
      if (named ? *option.name && std::strcmp(argv[i] + 2, option.name) == 0 : !*option.name) found = &option;
    }
    const char* text = !found ? nullptr : named ? (i + 1 < argc ? argv[++i] : nullptr) : argv[i];
    char* end = nullptr;
    const long value = text ? std::strtol(text, &end, 10) : 0;
    if (!text || end == text || *end != '\0' || value < 0) {
      std::fprintf(stderr, "%s: cannot use the argument '%s'\n", name, argv[i]);
      help(stderr);
      std::exit(2);
    }
    *found->value = value;
  }
}

// Milliseconds since construction or the last Lap().
class Timer {
 public:
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const double milliseconds = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return milliseconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Fails with the first element that differs by more than `tolerance` relative to max(1, |expected|).
template <class T>
void ExpectEqual(const T* actual, const T* expected, size_t count, double tolerance = 0) {
  for (size_t i = 0; i < count; ++i) {
    const double is = static_cast<double>(actual[i]), shall = static_cast<double>(expected[i]);
    const double scale = std::fabs(shall) > 1 ? std::fabs(shall) : 1;
    if (!(std::fabs(is - shall) <= tolerance * scale)) {
      Fail("element %zu of %zu is %.9g, expected %.9g", i, count, is, shall);
    }
  }
}

// Numbers that are the same in every run: a linear congruential sequence.
class Random {
 public:
  explicit Random(unsigned seed) : state_(seed) {}
  unsigned Next() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 8;
  }
  // In [-1, 1).
  float NextFloat() { return static_cast<float>(Next()) / 8388608.0f - 1.0f; }

 private:
  unsigned state_;
};

}  // namespace example

// Fails with the call, the error's name and its text.
#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    const cudaError_t tf_error = (call);                                                                     \
    if (tf_error != cudaSuccess) {                                                                           \
      example::Fail("%s (line %d): %s (%d): %s", #call, __LINE__, cudaGetErrorName(tf_error), (int)tf_error, \
                    cudaGetErrorString(tf_error));                                                           \
    }                                                                                                        \
  } while (0)
