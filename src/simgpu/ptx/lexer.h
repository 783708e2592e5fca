// Splits PTX text into tokens. Comments and preprocessor line marks are skipped. The text must outlive the tokens.
#pragma once

#include <cstdint>
#include <string_view>

namespace tf::simgpu::ptx {

struct Token {
  enum Kind {
    kEnd,
    kWord,  // names, opcodes with their modifiers, directives, registers: everything that letters, digits and . make up
    kInteger,  // `integer`
    kFloat,    // `bits` holds a float (float_bits 32) or double (64; decimal literals too)
    kString,   // `text` without the quotes, escapes as written
    kSymbol,   // one character of punctuation, or << >> == != <= >= && ||
    kInvalid,
  };
  Kind kind = kEnd;
  std::string_view text;
  int line = 1;
  uint64_t integer = 0;
  bool is_unsigned = false;
  uint64_t bits = 0;
  int float_bits = 0;

  bool Is(std::string_view what) const { return (kind == kSymbol || kind == kWord) && text == what; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token Next();

 private:
  void SkipBlanks();
  Token Number();

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace tf::simgpu::ptx
