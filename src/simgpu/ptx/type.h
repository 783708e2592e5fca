// The fundamental types of PTX.
#pragma once

#include <cstdint>
#include <string_view>

namespace tf::simgpu::ptx {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBf16,
  kBf16x2,
  kF32,
  kF64,
  kU16x2,
  kS16x2,
};

// kNone for what is no type. `name` has no leading dot.
inline Type TypeByName(std::string_view name) {
  struct Entry {
    std::string_view name;
    Type type;
  };
  static constexpr Entry kEntries[] = {
      {"pred", Type::kPred},   {"b8", Type::kB8},         {"b16", Type::kB16}, {"b32", Type::kB32},
      {"b64", Type::kB64},     {"b128", Type::kB128},     {"u8", Type::kU8},   {"u16", Type::kU16},
      {"u32", Type::kU32},     {"u64", Type::kU64},       {"s8", Type::kS8},   {"s16", Type::kS16},
      {"s32", Type::kS32},     {"s64", Type::kS64},       {"f16", Type::kF16}, {"f16x2", Type::kF16x2},
      {"bf16", Type::kBf16},   {"bf16x2", Type::kBf16x2}, {"f32", Type::kF32}, {"f64", Type::kF64},
      {"u16x2", Type::kU16x2}, {"s16x2", Type::kS16x2},
  };
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.type;
  }
  return Type::kNone;
}

// In bytes; predicates are kept as one bit per lane in four bytes.
inline uint32_t SizeOf(Type type) {
  switch (type) {
    case Type::kNone:
      return 0;
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
      return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBf16:
      return 2;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
      return 8;
    case Type::kB128:
      return 16;
    default:
      return 4;
  }
}

// State spaces.
enum class Space : uint8_t { kGeneric, kGlobal, kConst, kShared, kLocal, kParam };

inline bool IsSigned(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}
inline bool IsFloat(Type type) {
  return type == Type::kF16 || type == Type::kF16x2 || type == Type::kBf16 || type == Type::kBf16x2 ||
         type == Type::kF32 || type == Type::kF64;
}

}  // namespace tf::simgpu::ptx
