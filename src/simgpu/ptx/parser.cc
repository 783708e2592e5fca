#include <bit>
#include <cstring>
#include <optional>

#include "simgpu/ptx/lexer.h"
#include "simgpu/ptx/syntax.h"
#include "simgpu/ptx/text.h"

namespace tf::simgpu::ptx {
namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
constexpr int kMaxDepth = 200;
constexpr int kMaxRegisters = 1 << 20;

struct Scope {
  int id = 0;
  std::unordered_map<std::string_view, int> registers;
  std::unordered_map<std::string_view, std::pair<int, int>> ranges;  // prefix -> first register, count
  std::unordered_map<std::string_view, const Variable*> variables;
};

// A value of a constant expression: an integer, a float, or the address of a symbol plus an integer.
struct Constant {
  bool is_float = false;
  bool is_generic = false;
  uint64_t bits = 0;  // of a float
  int float_bits = 0;
  int64_t value = 0;
  bool is_unsigned = false;
  std::string_view symbol;
  std::optional<uint64_t> mask;  // 0xFF00(symbol): one byte of the address
};

double AsDouble(const Constant& c) {
  if (!c.is_float)
    return c.is_unsigned ? static_cast<double>(static_cast<uint64_t>(c.value)) : static_cast<double>(c.value);
  return c.float_bits == 32 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(c.bits)))
                            : std::bit_cast<double>(c.bits);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {
    token_ = lexer_.Next();
    ahead_ = lexer_.Next();
  }

  absl::StatusOr<Syntax> Run() {
    scopes_.emplace_back();
    while (status_.ok() && token_.kind != Token::kEnd) TopLevel();
    if (!status_.ok()) return status_;
    if (syntax_.isa_version == 0) return absl::InvalidArgumentError("PTX: no .version directive");
    if (syntax_.target_sm == 0) return absl::InvalidArgumentError("PTX: no .target directive");
    return std::move(syntax_);
  }

 private:
  // After the first error every token is the end, so that all loops finish.
  void Fail(std::string_view what, int line = 0) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(Cat("PTX line ", line ? line : token_.line, ": ", what));
    int at = token_.line;
    token_ = Token{};
    token_.line = at;
    ahead_ = token_;
  }
  void Unimplemented(std::string_view what) {
    if (!status_.ok()) return;
    status_ = absl::UnimplementedError(Cat("PTX line ", token_.line, ": ", what));
    token_ = Token{};
    ahead_ = token_;
  }
  void Advance() {
    if (!status_.ok()) return;
    token_ = ahead_;
    ahead_ = lexer_.Next();
  }
  bool Accept(std::string_view what) {
    if (!token_.Is(what)) return false;
    Advance();
    return true;
  }
  void Expect(std::string_view what) {
    if (!Accept(what)) Fail(Cat("expected '", what, "', found '", token_.text, "'"));
  }
  std::string_view Word() {
    if (token_.kind != Token::kWord) Fail(Cat("expected a name, found '", token_.text, "'"));
    std::string_view text = token_.text;
    Advance();
    return text;
  }

  // ---- constant expressions ----
  Constant Primary() {
    Constant c;
    if (++depth_ > kMaxDepth) Fail("expression nested too deeply");
    if (Accept("-")) {
      c = Primary();
      if (c.is_float) {
        c.bits ^= c.float_bits == 32 ? uint64_t{1} << 31 : uint64_t{1} << 63;
      } else {
        c.value = static_cast<int64_t>(0 - static_cast<uint64_t>(c.value));
      }
    } else if (Accept("+")) {
      c = Primary();
    } else if (Accept("~")) {
      c = Primary();
      c.value = ~c.value;
    } else if (Accept("!")) {
      c = Primary();
      c.value = !c.value;
    } else if (Accept("(")) {
      if (token_.Is(".s64") || token_.Is(".u64")) {
        bool is_unsigned = token_.Is(".u64");
        Advance();
        Expect(")");
        c = Primary();
        c.is_unsigned = is_unsigned;
      } else {
        c = Expression();
        Expect(")");
      }
    } else if (token_.kind == Token::kInteger) {
      c.value = static_cast<int64_t>(token_.integer);
      c.is_unsigned = token_.is_unsigned || c.value < 0;
      Advance();
      if (Accept("(")) {
        c.mask = static_cast<uint64_t>(c.value);
        Constant inner = Expression();
        Expect(")");
        c.symbol = inner.symbol;
        c.value = inner.value;
      }
    } else if (token_.kind == Token::kFloat) {
      c.is_float = true;
      c.bits = token_.bits;
      c.float_bits = token_.float_bits;
      Advance();
    } else if (token_.kind == Token::kWord && token_.text[0] != '.') {
      c.symbol = Word();
      if (c.symbol == "generic" && Accept("(")) {
        c.symbol = Word();
        Expect(")");
        c.is_generic = true;
      } else if (c.symbol == "WARP_SZ") {
        c.symbol = {};
        c.value = 32;
      }
    } else {
      Fail(Cat("expected a constant, found '", token_.text, "'"));
    }
    --depth_;
    return c;
  }

  static int Precedence(std::string_view op) {
    if (op == "*" || op == "/" || op == "%") return 10;
    if (op == "+" || op == "-") return 9;
    if (op == "<<" || op == ">>") return 8;
    if (op == "<" || op == ">" || op == "<=" || op == ">=") return 7;
    if (op == "==" || op == "!=") return 6;
    if (op == "&") return 5;
    if (op == "^") return 4;
    if (op == "|") return 3;
    if (op == "&&") return 2;
    if (op == "||") return 1;
    return 0;
  }

  void Apply(std::string_view op, Constant& a, const Constant& b) {
    if (a.is_float || b.is_float) return ApplyFloat(op, a, b);
    auto x = static_cast<uint64_t>(a.value), y = static_cast<uint64_t>(b.value);
    bool u = a.is_unsigned || b.is_unsigned;
    if ((op == "/" || op == "%") && (y == 0 || (!u && a.value == INT64_MIN && b.value == -1)))
      return Fail("division by zero in a constant expression");
    if (!b.symbol.empty()) {
      if (op != "+" || !a.symbol.empty()) return Fail("only an integer can be added to an address");
      a.symbol = b.symbol;
      a.is_generic = b.is_generic;
    }
    uint64_t r = 0;
    if (op == "*") r = x * y;
    if (op == "/") r = u ? x / y : static_cast<uint64_t>(a.value / b.value);
    if (op == "%") r = u ? x % y : static_cast<uint64_t>(a.value % b.value);
    if (op == "+") r = x + y;
    if (op == "-") r = x - y;
    if (op == "<<") r = y < 64 ? x << y : 0;
    if (op == ">>") r = u ? (y < 64 ? x >> y : 0) : static_cast<uint64_t>(a.value >> (y < 64 ? y : 63));
    if (op == "<") r = u ? x < y : a.value < b.value;
    if (op == ">") r = u ? x > y : a.value > b.value;
    if (op == "<=") r = u ? x <= y : a.value <= b.value;
    if (op == ">=") r = u ? x >= y : a.value >= b.value;
    if (op == "==") r = x == y;
    if (op == "!=") r = x != y;
    if (op == "&") r = x & y;
    if (op == "^") r = x ^ y;
    if (op == "|") r = x | y;
    if (op == "&&") r = x && y;
    if (op == "||") r = x || y;
    a.value = static_cast<int64_t>(r);
    a.is_unsigned = u;
  }

  void ApplyFloat(std::string_view op, Constant& a, const Constant& b) {
    double x = AsDouble(a), y = AsDouble(b), r = 0;
    if (op == "*") {
      r = x * y;
    } else if (op == "/") {
      r = x / y;
    } else if (op == "+") {
      r = x + y;
    } else if (op == "-") {
      r = x - y;
    } else {
      return Fail(Cat("operator ", op, " in a floating-point constant"));
    }
    a.is_float = true;
    a.float_bits = 64;
    a.bits = std::bit_cast<uint64_t>(r);
  }

  Constant Expression(int least = 1) {
    Constant left = Primary();
    while (token_.kind == Token::kSymbol) {
      int precedence = Precedence(token_.text);
      if (precedence < least || precedence == 0) break;
      std::string_view op = token_.text;
      Advance();
      Apply(op, left, Expression(precedence + 1));
    }
    if (least == 1 && Accept("?")) {
      Constant yes = Expression();
      Expect(":");
      Constant no = Expression();
      return left.value ? yes : no;
    }
    return left;
  }

  uint64_t Size() {
    Constant c = Expression();
    if (c.is_float || !c.symbol.empty()) Fail("expected an integer");
    return static_cast<uint64_t>(c.value);
  }

  // ---- declarations ----
  void TopLevel() {
    if (Accept(".version")) {
      // "9.0" reads as a float literal, "9" as an integer
      std::string text(token_.text);
      size_t dot = text.find('.');
      int major = std::atoi(text.c_str());
      int minor = dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1);
      if (token_.kind != Token::kFloat && token_.kind != Token::kInteger) return Fail("expected a version number");
      Advance();
      syntax_.isa_version = 10 * major + minor;
    } else if (token_.Is(".target")) {
      syntax_.target_line = token_.line;
      Advance();
      do {
        std::string_view name = Word();
        if (name.substr(0, 3) == "sm_") {
          syntax_.target_sm = std::atoi(std::string(name.substr(3)).c_str());
          syntax_.exact_target = name.back() == 'a';
          if (syntax_.target_sm <= 0) Fail(Cat("unknown target '", name, "'"));
        } else if (name == "texmode_unified" || name == "texmode_independent" || name == "debug" ||
                   name == "map_f64_to_f32") {
        } else {
          Fail(Cat("unknown target '", name, "'"));
        }
      } while (Accept(","));
    } else if (Accept(".address_size")) {
      if (Size() != 64) Fail("only 64-bit addresses are supported");
    } else if (Accept(".file")) {
      Size();
      Advance();
      while (Accept(",")) Size();
    } else if (token_.Is(".section")) {
      SkipSection();
    } else if (Accept(".alias")) {
      std::string alias(Word());
      Expect(",");
      syntax_.aliases[alias] = std::string(Word());
      Expect(";");
    } else if (token_.Is(".pragma")) {
      SkipPragma();
    } else if (Accept(";")) {
    } else {
      Declaration(nullptr);
    }
  }

  void SkipSection() {
    Advance();
    Word();
    Expect("{");
    int depth = 1;
    while (depth > 0 && token_.kind != Token::kEnd) {
      depth += token_.Is("{");
      depth -= token_.Is("}");
      Advance();
    }
  }

  void SkipPragma() {
    while (token_.kind != Token::kEnd && !token_.Is(";")) Advance();
    Expect(";");
  }

  // A function or variable with its linkage. `function` is the body we are in, or nullptr.
  void Declaration(Function* function) {
    bool visible = false, is_extern = false;
    for (;;) {
      if (Accept(".visible") || Accept(".weak") || Accept(".common")) {
        visible = true;
      } else if (Accept(".extern")) {
        visible = is_extern = true;
      } else {
        break;
      }
    }
    if (token_.Is(".entry") || token_.Is(".func")) {
      if (function != nullptr) return Fail("a function inside a function");
      return ParseFunction(token_.Is(".entry"));
    }
    Space space;
    if (Accept(".global")) {
      space = Space::kGlobal;
    } else if (Accept(".const")) {
      space = Space::kConst;
    } else if (Accept(".shared")) {
      space = Space::kShared;
    } else if (Accept(".local")) {
      space = Space::kLocal;
    } else if (Accept(".param")) {
      space = Space::kParam;
    } else if (token_.Is(".reg")) {
      Advance();
      return Registers(function);
    } else {
      if (token_.kind == Token::kWord && token_.text[0] == '.')
        return Unimplemented(Cat("directive '", token_.text, "' is not supported"));
      return Fail(Cat("expected a declaration, found '", token_.text, "'"));
    }
    if (function == nullptr && space == Space::kParam) return Fail(".param outside a function");
    do {
      Variable& v = NewVariable(space);
      v.is_extern = is_extern;
      v.visible = visible;
      TypeAndName(v, more_of_type_);
      more_of_type_ = &v;
      if (Accept("=")) Initialiser(v);
      scopes_.back().variables[Stable(v.name)] = &v;
      if (function == nullptr) {
        AddModuleVariable(v);
      } else if (space == Space::kLocal || space == Space::kParam) {
        function->locals.push_back(&v);
      } else {
        syntax_.module_variables.push_back(&v);
      }
    } while (Accept(","));
    more_of_type_ = nullptr;
    Expect(";");
  }

  // An .extern declaration and the definition may both be in the text; uses before the definition keep the first
  // object.
  void AddModuleVariable(Variable& v) {
    for (const Variable*& known : syntax_.module_variables) {
      if (known->name != v.name) continue;
      if (v.is_extern) {
        scopes_.front().variables[Stable(v.name)] = known;
        return;
      }
      if (!known->is_extern) return Fail(Cat("'", v.name, "' is defined twice"));
      const_cast<Variable&>(*known) = v;
      scopes_.front().variables[Stable(v.name)] = known;
      return;
    }
    syntax_.module_variables.push_back(&v);
  }

  Variable& NewVariable(Space space) {
    Variable& v = syntax_.variables.emplace_back();
    v.space = space;
    v.line = token_.line;
    return v;
  }
  // Names are views into the text everywhere but in Variable, whose string the deque keeps in place.
  static std::string_view Stable(const std::string& name) { return name; }

  // [.align N] [.ptr …] [.v2|.v4] .type name [dims]. With `same`, only the name: the type is that of the variable
  // before.
  void TypeAndName(Variable& v, const Variable* same) {
    if (same != nullptr) {
      v.type = same->type;
      v.alignment = same_alignment_;
      v.size = same_element_;
    } else {
      uint64_t vector = 1, align = 0;
      for (;;) {
        if (Accept(".align")) {
          align = Size();
          if (align == 0 || align > 4096 || (align & (align - 1)) != 0)
            Fail("an alignment is a power of two, at most 4096");
        } else if (Accept(".v2")) {
          vector = 2;
        } else if (Accept(".v4")) {
          vector = 4;
        } else if (Accept(".attribute")) {
          Expect("(");
          while (status_.ok() && !Accept(")")) {
            if (token_.kind == Token::kEnd) Fail("expected ')'");
            Advance();
          }
        } else if (token_.kind == Token::kWord && token_.text[0] == '.') {
          v.type = TypeByName(token_.text.substr(1));
          if (v.type == Type::kNone) return Unimplemented(Cat("type '", token_.text, "' is not supported"));
          Advance();
          if (Accept(".ptr")) PointerAttributes();
          if (token_.Is(".align")) continue;
          break;
        } else {
          return Fail(Cat("expected a type, found '", token_.text, "'"));
        }
      }
      v.size = SizeOf(v.type) * vector;
      v.alignment = align != 0 ? align : v.size;
      same_alignment_ = v.alignment;
      same_element_ = v.size;
    }
    // An unnamed parameter of a prototype is written "_"
    v.name = std::string(Word());
    bool open_dimension = false;
    while (Accept("[")) {
      if (Accept("]")) {
        open_dimension = true;
        continue;
      }
      uint64_t n = Size();
      Expect("]");
      if (n != 0 && v.size > kMaxVariableBytes / n) return Fail("variable too large");
      v.size *= n;
    }
    if (open_dimension) {
      open_element_ = v.size;
      v.size = 0;
    }
  }

  void PointerAttributes() {
    while (token_.Is(".global") || token_.Is(".const") || token_.Is(".shared") || token_.Is(".local") ||
           token_.Is(".param"))
      Advance();
    if (Accept(".align")) Size();
  }

  void Initialiser(Variable& v) {
    uint32_t element = SizeOf(v.type);
    if (token_.kind == Token::kString) {
      v.initial = std::string(token_.text);
      Advance();
    } else if (token_.Is("{")) {
      Braces(v, element);
    } else {
      Element(v, element);
    }
    if (v.size == 0) v.size = v.initial.size();
    if (v.initial.size() > v.size) Fail("more initial values than the variable holds", v.line);
  }

  void Braces(Variable& v, uint32_t element) {
    if (++depth_ > kMaxDepth) Fail("initialiser nested too deeply");
    Expect("{");
    while (status_.ok() && !token_.Is("}")) {
      if (token_.Is("{")) {
        Braces(v, element);
      } else {
        Element(v, element);
      }
      if (!Accept(",")) break;
    }
    Expect("}");
    --depth_;
  }

  void Element(Variable& v, uint32_t element) {
    if (v.initial.size() > (uint64_t{1} << 30)) return Fail("initialiser too large");
    Constant c = Expression();
    size_t at = v.initial.size();
    if (!c.symbol.empty()) {
      uint64_t shift = 0;
      int bytes = static_cast<int>(element);
      if (c.mask) {
        if (*c.mask == 0 || (*c.mask >> std::countr_zero(*c.mask)) != 0xff)
          return Fail("an address mask selects one byte");
        shift = static_cast<uint64_t>(std::countr_zero(*c.mask)) / 8;
        bytes = 8;
      } else if (element != 8 && element != 4) {
        return Fail("an address needs an element of 4 or 8 bytes");
      }
      v.initial.append(element, '\0');
      // The bytes of one address follow one another: the first stands for all.
      if (shift == 0) v.relocations.push_back({at, std::string(c.symbol), c.value, bytes});
      return;
    }
    uint64_t bits;
    if (v.type == Type::kF32) {
      bits = c.is_float && c.float_bits == 32 ? c.bits : std::bit_cast<uint32_t>(static_cast<float>(AsDouble(c)));
    } else if (v.type == Type::kF64) {
      bits = std::bit_cast<uint64_t>(AsDouble(c));
    } else if (c.is_float) {
      if (static_cast<uint32_t>(c.float_bits / 8) != element) return Fail("a floating-point value for an integer");
      bits = c.bits;
    } else {
      bits = static_cast<uint64_t>(c.value);
    }
    for (uint32_t i = 0; i < element; ++i) v.initial.push_back(i < 8 ? static_cast<char>(bits >> (8 * i)) : '\0');
  }

  // .reg .type %r<10>, %x;
  void Registers(Function* function) {
    if (function == nullptr) return Fail(".reg outside a function");
    if (Accept(".v2") || Accept(".v4")) return Unimplemented("vector registers are not supported");
    std::string_view word = Word();
    Type type = TypeByName(word.substr(word.empty() ? 0 : 1));
    if (type == Type::kNone) return Unimplemented(Cat("register type '", word, "' is not supported"));
    do {
      std::string_view name = Word();
      if (Accept("<")) {
        if (token_.kind != Token::kInteger) return Fail("expected a number of registers");
        uint64_t count = token_.integer;
        Advance();
        Expect(">");
        if (count > kMaxRegisters || function->registers.size() + count > kMaxRegisters)
          return Fail("too many registers");
        scopes_.back().ranges[name] = {static_cast<int>(function->registers.size()), static_cast<int>(count)};
        function->registers.insert(function->registers.end(), count, type);
      } else {
        scopes_.back().registers[name] = static_cast<int>(function->registers.size());
        function->registers.push_back(type);
      }
    } while (Accept(","));
    Expect(";");
  }

  // ( .param .b32 name, … ) or ( .reg … )
  void FormalParameters(Function* function, std::vector<Variable*>& out) {
    Expect("(");
    while (status_.ok() && !token_.Is(")")) {
      Variable& v = NewVariable(Space::kParam);
      if (Accept(".reg")) {
        v.is_register = true;
      } else {
        Expect(".param");
      }
      TypeAndName(v, nullptr);
      if (function != nullptr) {
        if (v.is_register) {
          v.reg = static_cast<int>(function->registers.size());
          function->registers.push_back(v.type);
          scopes_.back().registers[Stable(v.name)] = v.reg;
        } else {
          scopes_.back().variables[Stable(v.name)] = &v;
        }
      }
      out.push_back(&v);
      if (!Accept(",")) break;
    }
    Expect(")");
  }

  void ParseFunction(bool is_entry) {
    Function f;
    f.is_entry = is_entry;
    f.line = token_.line;
    f.scope_parents.push_back(-1);
    Advance();
    scopes_.emplace_back();
    std::vector<Variable*> results, parameters;
    if (!is_entry && token_.Is("(")) FormalParameters(&f, results);
    std::string_view name = Word();
    f.name = std::string(name);
    if (token_.Is("(")) FormalParameters(&f, parameters);
    f.results.assign(results.begin(), results.end());
    f.parameters.assign(parameters.begin(), parameters.end());
    if (!is_entry) {
      f.locals.insert(f.locals.end(), results.begin(), results.end());
      f.locals.insert(f.locals.end(), parameters.begin(), parameters.end());
    }
    for (;;) {
      if (Accept(".maxntid") || token_.Is(".reqntid")) {
        bool required = Accept(".reqntid");
        std::array<uint32_t, 3> n{1, 1, 1};
        for (int i = 0; i < 3; ++i) {
          uint64_t value = Size();
          if (value == 0 || value > 1024) Fail("a block has 1 to 1024 threads");
          n[static_cast<size_t>(i)] = static_cast<uint32_t>(value);
          if (!Accept(",")) break;
        }
        f.max_threads = n[0] * n[1] * n[2];
        if (f.max_threads > 1024) f.max_threads = 1024;
        if (required) f.required_block = n;
      } else if (Accept(".minnctapersm") || Accept(".maxnctapersm") || Accept(".maxnreg")) {
        Size();
      } else if (Accept(".noreturn")) {
      } else if (token_.Is(".pragma")) {
        SkipPragma();
      } else {
        break;
      }
    }
    if (token_.kind == Token::kWord)
      return Unimplemented(Cat("function attribute '", token_.text, "' is not supported"));
    if (token_.Is("{")) {
      f.has_body = true;
      Body(f);
    } else {
      Expect(";");
    }
    scopes_.pop_back();
    if (!status_.ok()) return;
    auto [it, fresh] = syntax_.function_by_name.emplace(name, static_cast<int>(syntax_.functions.size()));
    if (fresh) {
      syntax_.functions.push_back(std::move(f));
    } else if (f.has_body) {
      Function& known = syntax_.functions[static_cast<size_t>(it->second)];
      if (known.has_body) return Fail(Cat("function '", name, "' is defined twice"));
      known = std::move(f);
    }
  }

  // ---- bodies ----
  void Body(Function& f) {
    Expect("{");
    int depth = 1;
    std::vector<int> open{0};
    scopes_.back().id = 0;
    while (status_.ok() && depth > 0) {
      if (token_.kind == Token::kEnd) return Fail("the text ends inside a function");
      if (Accept("{")) {
        if (++depth > kMaxDepth) return Fail("scopes nested too deeply");
        f.scope_parents.push_back(scopes_.back().id);
        scopes_.emplace_back();
        scopes_.back().id = static_cast<int>(f.scope_parents.size()) - 1;
      } else if (token_.Is("}")) {
        if (--depth > 0) scopes_.pop_back();
        Advance();
      } else if (Accept(";")) {
      } else if (token_.kind == Token::kWord && ahead_.Is(":")) {
        Label(f);
      } else if (token_.kind == Token::kWord && token_.text[0] == '.') {
        BodyDirective(f);
      } else {
        ParseStatement(f);
      }
    }
  }

  void Label(Function& f) {
    std::string_view name = Word();
    Expect(":");
    std::pair<int, std::string_view> key{scopes_.back().id, name};
    if (Accept(".callprototype")) {
      Prototype& prototype = f.prototypes[key];
      std::vector<Variable*> results, parameters;
      if (token_.Is("(")) FormalParameters(nullptr, results);
      Word();
      if (token_.Is("(")) FormalParameters(nullptr, parameters);
      for (const Variable* v : results) prototype.results.push_back(*v);
      for (const Variable* v : parameters) prototype.parameters.push_back(*v);
      Accept(".noreturn");
      Expect(";");
    } else if (Accept(".branchtargets") || Accept(".calltargets")) {
      auto& targets = f.branch_targets[key];
      do targets.push_back(Word());
      while (Accept(","));
      Expect(";");
    } else if (!f.labels.emplace(key, static_cast<int>(f.statements.size())).second) {
      Fail(Cat("label '", name, "' is defined twice"));
    }
  }

  void BodyDirective(Function& f) {
    if (Accept(".loc")) {
      int line = token_.line;
      while (token_.line == line && token_.kind != Token::kEnd && !token_.Is("}")) Advance();
    } else if (token_.Is(".pragma")) {
      SkipPragma();
    } else if (token_.Is(".section")) {
      SkipSection();
    } else if (Accept(".file")) {
      Size();
      Advance();
      while (Accept(",")) Size();
    } else {
      Declaration(&f);
    }
  }

  int FindRegister(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (auto it = scope->registers.find(name); it != scope->registers.end()) return it->second;
      if (scope->ranges.empty()) continue;
      size_t digits = name.size();
      uint64_t number = 0, unit = 1;
      while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9' && name.size() - digits < 8) {
        --digits;
        number += static_cast<uint64_t>(name[digits] - '0') * unit;
        unit *= 10;
        if (auto it = scope->ranges.find(name.substr(0, digits)); it != scope->ranges.end()) {
          if (number < static_cast<uint64_t>(it->second.second)) return it->second.first + static_cast<int>(number);
        }
      }
    }
    return -1;
  }

  Operand NameOperand(std::string_view name) {
    Operand o;
    o.name = name;
    if (int reg = FindRegister(name); reg >= 0) {
      o.kind = Operand::kRegister;
      o.reg = reg;
      return o;
    }
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (auto it = scope->variables.find(name); it != scope->variables.end()) {
        o.kind = Operand::kVariable;
        o.variable = it->second;
        return o;
      }
    }
    o.kind = name[0] == '%' ? Operand::kSpecial : Operand::kName;
    return o;
  }

  // A register, symbol [+ offset] or constant; also what stands between [ and ].
  Operand Simple() {
    Operand o;
    if (token_.kind == Token::kWord && token_.text == "_") {
      Advance();
      return o;
    }
    bool minus = token_.Is("-") && ahead_.kind == Token::kWord;
    if (minus) Advance();
    if (token_.kind == Token::kWord && token_.text != "WARP_SZ" && token_.text != "generic") {
      if (token_.text[0] == '.') {
        Fail(Cat("expected an operand, found '", token_.text, "'"));
        return o;
      }
      o = NameOperand(Word());
      o.negated = minus;
      while (token_.Is("+") || (token_.Is("-") && !minus)) {
        bool plus = token_.Is("+");
        Advance();
        Constant c = Primary();
        if (c.is_float || !c.symbol.empty()) Fail("only an integer can be added to an address");
        o.value = static_cast<int64_t>(plus ? static_cast<uint64_t>(o.value) + static_cast<uint64_t>(c.value)
                                            : static_cast<uint64_t>(o.value) - static_cast<uint64_t>(c.value));
      }
      if (o.kind == Operand::kVariable && token_.Is("[")) {  // name[index]
        Advance();
        uint64_t index = Size();
        Expect("]");
        o.value += static_cast<int64_t>(index * SizeOf(o.variable->type));
      }
      return o;
    }
    Constant c = Expression();
    if (!c.symbol.empty()) {
      o = NameOperand(c.symbol);
      o.value = c.value;
      return o;
    }
    if (c.is_float) {
      o.kind = Operand::kFloat;
      o.bits = c.bits;
      o.float_bits = c.float_bits;
    } else {
      o.kind = Operand::kInteger;
      o.value = c.value;
    }
    return o;
  }

  Operand ParseOperand(bool lists) {
    Operand o;
    if (++depth_ > kMaxDepth) Fail("operand nested too deeply");
    if (token_.Is("{")) {
      Advance();
      o.kind = Operand::kVector;
      while (status_.ok() && !token_.Is("}")) {
        o.parts.push_back(ParseOperand(false));
        if (!Accept(",")) break;
      }
      Expect("}");
    } else if (token_.Is("[")) {
      Advance();
      o.kind = Operand::kAddress;
      o.parts.push_back(Simple());
      o.value = o.parts[0].kind == Operand::kInteger ? 0 : o.parts[0].value;
      while (Accept(",")) o.parts.push_back(ParseOperand(false));
      Expect("]");
    } else if (lists && token_.Is("(")) {
      Advance();
      o.kind = Operand::kList;
      while (status_.ok() && !token_.Is(")")) {
        o.parts.push_back(ParseOperand(false));
        if (!Accept(",")) break;
      }
      Expect(")");
    } else if (token_.Is("!") && ahead_.kind == Token::kWord) {
      Advance();
      o = NameOperand(Word());
      o.negated = true;
    } else {
      o = Simple();
    }
    --depth_;
    if (token_.Is("|")) {
      Advance();
      Operand pair;
      pair.kind = Operand::kPair;
      pair.parts.push_back(std::move(o));
      pair.parts.push_back(ParseOperand(false));
      return pair;
    }
    return o;
  }

  void ParseStatement(Function& f) {
    Statement s;
    s.line = token_.line;
    s.scope = scopes_.back().id;
    if (Accept("@")) {
      s.predicate_negated = Accept("!");
      std::string_view name = Word();
      s.predicate = FindRegister(name);
      if (!status_.ok()) return;
      if (s.predicate < 0) return Fail(Cat("unknown predicate '", name, "'"));
      if (f.registers[static_cast<size_t>(s.predicate)] != Type::kPred)
        return Fail(Cat("'", name, "' is no predicate"));
    }
    s.opcode = Word();
    bool is_call = s.opcode.substr(0, 4) == "call";
    if (!token_.Is(";")) {
      do s.operands.push_back(ParseOperand(is_call));
      while (Accept(","));
    }
    Expect(";");
    f.statements.push_back(std::move(s));
  }

  Lexer lexer_;
  Token token_, ahead_;
  absl::Status status_;
  Syntax syntax_;
  std::vector<Scope> scopes_;
  int depth_ = 0;
  const Variable* more_of_type_ = nullptr;
  uint64_t same_alignment_ = 0, same_element_ = 0, open_element_ = 0;
};

}  // namespace

absl::StatusOr<Syntax> ParseSyntax(std::string_view text) { return Parser(text).Run(); }

}  // namespace tf::simgpu::ptx
