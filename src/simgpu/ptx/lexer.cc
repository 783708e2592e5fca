#include "simgpu/ptx/lexer.h"

#include <bit>
#include <cctype>
#include <cstdlib>
#include <string>

namespace tf::simgpu::ptx {
namespace {

bool StartsWord(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}
bool InWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.'; }

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

void Lexer::SkipBlanks() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++at_;
    } else if (c == '/' && text_.substr(at_, 2) == "//") {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && text_.substr(at_, 2) == "/*") {
      size_t end = text_.find("*/", at_ + 2);
      end = end == std::string_view::npos ? text_.size() : end + 2;
      for (; at_ < end; ++at_) line_ += text_[at_] == '\n';
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      return;
    }
  }
}

Token Lexer::Number() {
  Token token;
  token.line = line_;
  size_t begin = at_;
  auto finish = [&](Token::Kind kind) {
    token.kind = kind;
    token.text = text_.substr(begin, at_ - begin);
    return token;
  };
  auto digits = [&](int base) {
    bool any = false;
    for (; at_ < text_.size() && DigitValue(text_[at_]) < base; ++at_, any = true) {
      token.integer = token.integer * static_cast<unsigned>(base) + static_cast<unsigned>(DigitValue(text_[at_]));
    }
    return any;
  };
  char second = at_ + 1 < text_.size() ? text_[at_ + 1] : 0;
  if (text_[at_] == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    at_ += 2;
    size_t from = at_;
    digits(16);
    token.float_bits = (second == 'f' || second == 'F') ? 32 : 64;
    token.bits = token.integer;
    return finish(at_ - from == static_cast<size_t>(token.float_bits / 4) ? Token::kFloat : Token::kInvalid);
  }
  bool good;
  if (text_[at_] == '0' && (second == 'x' || second == 'X')) {
    at_ += 2;
    good = digits(16);
  } else if (text_[at_] == '0' && (second == 'b' || second == 'B')) {
    at_ += 2;
    good = digits(2);
  } else {
    size_t end = at_;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) ++end;
    bool real = end < text_.size() && (text_[end] == '.' || text_[end] == 'e' || text_[end] == 'E');
    if (real) {
      if (text_[end] == '.') ++end;
      while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) ++end;
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
        if (exponent < text_.size() && std::isdigit(static_cast<unsigned char>(text_[exponent]))) {
          end = exponent;
          while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) ++end;
        }
      }
      token.bits = std::bit_cast<uint64_t>(std::strtod(std::string(text_.substr(at_, end - at_)).c_str(), nullptr));
      token.float_bits = 64;
      at_ = end;
      return finish(Token::kFloat);
    }
    good = digits(text_[at_] == '0' ? 8 : 10);
  }
  if (at_ < text_.size() && (text_[at_] == 'U' || text_[at_] == 'u')) {
    token.is_unsigned = true;
    ++at_;
  }
  if (at_ < text_.size() && InWord(text_[at_])) good = false;
  return finish(good ? Token::kInteger : Token::kInvalid);
}

Token Lexer::Next() {
  SkipBlanks();
  Token token;
  token.line = line_;
  if (at_ >= text_.size() || text_[at_] == '\0') return token;
  size_t begin = at_;
  char c = text_[at_];
  if (std::isdigit(static_cast<unsigned char>(c))) return Number();
  if (StartsWord(c)) {
    ++at_;
    while (at_ < text_.size()) {
      if (InWord(text_[at_])) {
        ++at_;
      } else if (text_[at_] == ':' && at_ + 2 < text_.size() && text_[at_ + 1] == ':' && InWord(text_[at_ + 2])) {
        at_ += 2;
      } else {
        break;
      }
    }
    token.kind = Token::kWord;
  } else if (c == '"') {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') ++at_;
      if (at_ < text_.size()) line_ += text_[at_] == '\n';
      ++at_;
    }
    token.kind = at_ < text_.size() ? Token::kString : Token::kInvalid;
    size_t end = at_ < text_.size() ? at_ : text_.size();
    token.text = text_.substr(begin + 1, end - begin - 1);
    at_ = end + (token.kind == Token::kString);
    return token;
  } else {
    std::string_view two = text_.substr(at_, 2);
    at_ += (two == "<<" || two == ">>" || two == "==" || two == "!=" || two == "<=" || two == ">=" || two == "&&" ||
            two == "||")
               ? 2
               : 1;
    token.kind = Token::kSymbol;
  }
  token.text = text_.substr(begin, at_ - begin);
  return token;
}

}  // namespace tf::simgpu::ptx
