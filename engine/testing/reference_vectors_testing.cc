#include "engine/testing/reference_vectors_testing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "engine/code/numeric.h"

namespace membrane::engine {
namespace {

using wasm::Instruction;
using wasm::Opcode;
__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideUnsigned;

// -- mnemonics -------------------------------------------------------------------------

bool take(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

bool take_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

// The bits of a lane of "i16x8": what is between the letter and the x.
int bits_of_shape(std::string_view shape) {
  int bits = 0;
  for (const char c : shape.substr(1, shape.find('x') - 1)) bits = 10 * bits + (c - '0');
  return bits;
}

// -- integer lanes -----------------------------------------------------------------------

struct Shape {
  int bits = 0;
  bool is_signed = false;
  size_t count() const { return static_cast<size_t>(128 / bits); }
  size_t size() const { return static_cast<size_t>(bits / 8); }
  Wide least() const { return is_signed ? -(Wide{1} << (bits - 1)) : 0; }
  Wide most() const { return (Wide{1} << (bits - (is_signed ? 1 : 0))) - 1; }
};

Wide lane(const Cell& v, Shape shape, size_t index) {
  Wide value = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    value += Wide{v.bytes[index * shape.size() + i]} << (8 * static_cast<int>(i));
  const bool negative = shape.is_signed && value > shape.most();
  return negative ? value - (Wide{1} << shape.bits) : value;
}

// Modulo 2^bits.
void set_lane(Cell& v, Shape shape, size_t index, Wide value) {
  for (size_t i = 0; i < shape.size(); ++i)
    v.bytes[index * shape.size() + i] = static_cast<uint8_t>(value >> (8 * static_cast<int>(i)));
}

Wide saturated(Wide value, Shape shape) { return std::clamp(value, shape.least(), shape.most()); }

template <typename Function>
Cell each(Shape shape, Function value) {
  Cell out;
  for (size_t i = 0; i < shape.count(); ++i) set_lane(out, shape, i, value(i));
  return out;
}

Wide ones_in(Wide value) {
  Wide count = 0;
  for (; value > 0; value >>= 1) count += value & 1;
  return count;
}

Wide two_lanes(std::string_view name, Shape shape, Wide a, Wide b) {
  if (name == "add") return a + b;
  if (name == "sub") return a - b;
  if (name == "mul") return static_cast<Wide>(static_cast<WideUnsigned>(a) * static_cast<WideUnsigned>(b));
  if (name == "add_sat") return saturated(a + b, shape);
  if (name == "sub_sat") return saturated(a - b, shape);
  if (name == "min") return std::min(a, b);
  if (name == "max") return std::max(a, b);
  if (name == "avgr") return (a + b + 1) / 2;
  if (name == "q15mulr_sat") return saturated((a * b + 0x4000) >> 15, shape);
  if (name == "eq") return a == b ? -1 : 0;
  if (name == "ne") return a != b ? -1 : 0;
  if (name == "lt") return a < b ? -1 : 0;
  if (name == "gt") return a > b ? -1 : 0;
  if (name == "le") return a <= b ? -1 : 0;
  return a >= b ? -1 : 0;
}

// From lanes of half the width, or of twice: extend, extmul, extadd, dot, narrow.
Cell between_widths(std::string_view name, Shape to, std::span<const Cell> in) {
  const Shape from{name.starts_with("narrow") ? 2 * to.bits : to.bits / 2,
                   to.is_signed || name.starts_with("narrow")};
  const auto a = [&](size_t i) { return lane(in[0], from, i); };
  const auto b = [&](size_t i) { return lane(in[1], from, i); };
  if (name.starts_with("narrow"))
    return each(to, [&](size_t i) { return saturated(i < from.count() ? a(i) : b(i - from.count()), to); });
  if (name.starts_with("extadd")) return each(to, [&](size_t i) { return a(2 * i) + a(2 * i + 1); });
  if (name.starts_with("dot"))
    return each(to, [&](size_t i) { return a(2 * i) * b(2 * i) + a(2 * i + 1) * b(2 * i + 1); });
  const size_t first = name.find("_high_") == std::string_view::npos ? 0 : to.count();
  if (name.starts_with("extmul")) return each(to, [&](size_t i) { return a(first + i) * b(first + i); });
  return each(to, [&](size_t i) { return a(first + i); });
}

Cell summary(std::string_view name, Shape shape, const Cell& v) {
  uint64_t all = 1, mask = 0;
  for (size_t i = 0; i < shape.count(); ++i) {
    if (lane(v, shape, i) == 0) all = 0;
    if (lane(v, {shape.bits, true}, i) < 0) mask |= uint64_t{1} << i;
  }
  return Cell(name == "all_true" ? all : mask);
}

Cell shifted(std::string_view name, Shape shape, const Cell& v, uint32_t count) {
  const int n = static_cast<int>(count % static_cast<uint32_t>(shape.bits));
  return each(shape, [&](size_t i) {
    const Wide x = lane(v, shape, i);
    return name == "shl" ? x << n : x >> n;
  });
}

Cell integers(const Instruction& in, std::string_view name, int bits, std::span<const Cell> v) {
  const bool is_signed = take_end(name, "_s");
  if (!is_signed) take_end(name, "_u");
  const Shape shape{bits, is_signed};
  if (name == "splat") return each(shape, [&](size_t) { return lane(v[0], shape, 0); });
  if (name == "extract_lane") {
    Cell out;  // an i32, or an i64
    set_lane(out, {std::max(bits, 32), is_signed}, 0, lane(v[0], shape, in.lane));
    return out;
  }
  if (name == "replace_lane")
    return each(shape, [&](size_t i) { return i == in.lane ? lane(v[1], shape, 0) : lane(v[0], shape, i); });
  if (name == "shuffle")
    return each(shape, [&](size_t i) { return lane(v[in.raw[i] / 16], shape, in.raw[i] % 16); });
  if (name == "swizzle")
    return each(shape, [&](size_t i) {
      const auto at = static_cast<size_t>(lane(v[1], shape, i));
      return at < 16 ? lane(v[0], shape, at) : 0;
    });
  if (name == "all_true" || name == "bitmask") return summary(name, shape, v[0]);
  if (name == "shl" || name == "shr") return shifted(name, shape, v[0], v[1].get<uint32_t>(0));
  if (name == "neg") return each(shape, [&](size_t i) { return -lane(v[0], shape, i); });
  if (name == "popcnt") return each(shape, [&](size_t i) { return ones_in(lane(v[0], shape, i)); });
  if (name == "abs")
    return each(shape, [&](size_t i) {
      const Wide x = lane(v[0], {bits, true}, i);
      return x < 0 ? -x : x;
    });
  if (name.find("_i") != std::string_view::npos) return between_widths(name, shape, v);
  return each(shape,
              [&](size_t i) { return two_lanes(name, shape, lane(v[0], shape, i), lane(v[1], shape, i)); });
}

// -- float lanes ---------------------------------------------------------------------------

template <typename F>
Cell one_float(std::string_view name, const Cell& v) {
  Cell out;
  for (size_t i = 0; i < 16 / sizeof(F); ++i) {
    const F x = v.get<F>(i);
    out.set<F>(i, name == "abs"     ? numeric::fabs(x)
                  : name == "neg"   ? numeric::fneg(x)
                  : name == "sqrt"  ? numeric::fsqrt(x)
                  : name == "ceil"  ? numeric::fceil(x)
                  : name == "floor" ? numeric::ffloor(x)
                  : name == "trunc" ? numeric::ftrunc(x)
                                    : numeric::fnearest(x));
  }
  return out;
}

// False when `name` compares.
template <typename F>
bool two_floats(std::string_view name, F a, F b, F& out) {
  if (name == "add") out = numeric::fadd(a, b);
  else if (name == "sub") out = numeric::fsub(a, b);
  else if (name == "mul") out = numeric::fmul(a, b);
  else if (name == "div") out = numeric::fdiv(a, b);
  else if (name == "min") out = numeric::fmin(a, b);
  else if (name == "max") out = numeric::fmax(a, b);
  else if (name == "pmin") out = b < a ? b : a;
  else if (name == "pmax") out = a < b ? b : a;
  else return false;
  return true;
}

template <typename F>
bool compares(std::string_view name, F a, F b) {
  if (name == "eq") return a == b;
  if (name == "ne") return a != b;
  if (name == "lt") return a < b;
  if (name == "gt") return a > b;
  if (name == "le") return a <= b;
  return a >= b;
}

template <typename F>
Cell fused(std::string_view name, std::span<const Cell> v) {
  Cell out;
  for (size_t i = 0; i < 16 / sizeof(F); ++i) {
    const F a = v[0].get<F>(i), sum = std::fma(name == "nmadd" ? -a : a, v[1].get<F>(i), v[2].get<F>(i));
    out.set<F>(i, sum == sum ? sum : numeric::fadd(sum, F{0}));  // a NaN becomes the canonical one
  }
  return out;
}

template <typename F>
Cell floats(const Instruction& in, std::string_view name, std::span<const Cell> v) {
  const int bits = 8 * sizeof(F);
  if (name.ends_with("madd")) return fused<F>(name, v);
  if (name == "splat" || name == "extract_lane" || name == "replace_lane")
    return integers(in, name, bits, v);  // these move bits
  if (v.size() == 1) return one_float<F>(name, v[0]);
  Cell out;
  for (size_t i = 0; i < 16 / sizeof(F); ++i) {
    F value{};
    const F a = v[0].get<F>(i), b = v[1].get<F>(i);
    if (two_floats(name, a, b, value)) out.set<F>(i, value);
    else set_lane(out, {bits, true}, i, compares(name, a, b) ? -1 : 0);
  }
  return out;
}

// -- between floats and integers ---------------------------------------------------------------

Cell truncated(std::string_view name, const Cell& v) {  // "trunc_sat_f32x4_s", "trunc_sat_f64x2_u_zero"
  Cell out;
  const bool from_f64 = name.find("f64x2") != std::string_view::npos;
  const bool is_signed = name.find("_s", 9) != std::string_view::npos;
  for (size_t i = 0; i < (from_f64 ? 2u : 4u); ++i) {
    const double x = from_f64 ? v.get<double>(i) : v.get<float>(i);
    const Shape shape{32, is_signed};
    Wide value = 0;
    if (x == x) value = x >= 5e9 ? shape.most() : x <= -5e9 ? shape.least() : static_cast<int64_t>(x);
    set_lane(out, shape, i, saturated(value, shape));
  }
  return out;
}

Cell converted(std::string_view name, const Cell& v, bool to_f64) {
  Cell out;
  const bool is_signed = name.ends_with("_s");
  for (size_t i = 0; i < (to_f64 ? 2u : 4u); ++i) {
    const auto x = static_cast<int64_t>(lane(v, {32, is_signed}, i));
    if (to_f64) out.set<double>(i, static_cast<double>(x));
    else out.set<float>(i, static_cast<float>(x));
  }
  return out;
}

Cell demoted(const Cell& v) {
  Cell out;
  for (size_t i = 0; i < 2; ++i) out.set<float>(i, numeric::demote(v.get<double>(i)));
  return out;
}

Cell promoted(const Cell& v) {
  Cell out;
  for (size_t i = 0; i < 2; ++i) out.set<double>(i, numeric::promote(v.get<float>(i)));
  return out;
}

Cell bitwise(std::string_view name, std::span<const Cell> v) {
  Cell out;
  for (size_t i = 0; i < 16; ++i) {
    const uint8_t a = v[0].bytes[i], b = v.size() > 1 ? v[1].bytes[i] : 0;
    int byte = 0;
    if (name == "not") byte = ~a;
    else if (name == "and") byte = a & b;
    else if (name == "andnot") byte = a & ~b;
    else if (name == "or") byte = a | b;
    else if (name == "xor") byte = a ^ b;
    else byte = (a & v[2].bytes[i]) | (b & ~v[2].bytes[i]);  // bitselect
    out.bytes[i] = static_cast<uint8_t>(byte);
  }
  return out;
}

// Of neighbouring bytes, into lanes of 16 bits; and of neighbouring sums of these, and what is there.
Cell dot_of_bytes(std::span<const Cell> v) {
  const Cell sums = each({16, true}, [&](size_t i) {
    const auto product = [&](size_t k) { return lane(v[0], {8, true}, k) * lane(v[1], {8, true}, k); };
    return product(2 * i) + product(2 * i + 1);
  });
  if (v.size() == 2) return sums;
  return each({32, true}, [&](size_t i) {
    return lane(sums, {16, true}, 2 * i) + lane(sums, {16, true}, 2 * i + 1) + lane(v[2], {32, true}, i);
  });
}

// What a relaxed instruction does here, by the name of the one that is not relaxed.
std::string_view strict_name(std::string_view name) {
  for (const auto& [relaxed, strict] :
       {std::pair<std::string_view, std::string_view>{"trunc_f32x4_s", "trunc_sat_f32x4_s"},
        {"trunc_f32x4_u", "trunc_sat_f32x4_u"},
        {"trunc_f64x2_s_zero", "trunc_sat_f64x2_s_zero"},
        {"trunc_f64x2_u_zero", "trunc_sat_f64x2_u_zero"},
        {"q15mulr_s", "q15mulr_sat_s"}})
    if (name == relaxed) return strict;
  return name;
}

}  // namespace

Cell compute_vector(const Instruction& in, std::span<const Cell> v) {
  std::string_view name = wasm::info(in.op).text;
  Cell out;
  if (in.op == Opcode::kV128Const) {
    std::copy_n(in.raw, 16, out.bytes.begin());
    return out;
  }
  if (take(name, "v128.")) return name == "any_true" ? Cell(v[0] == Cell() ? 0 : 1) : bitwise(name, v);
  const std::string_view shape = name.substr(0, name.find('.'));
  name.remove_prefix(shape.size() + 1);
  if (take(name, "relaxed_")) name = strict_name(name);
  if (name == "laneselect") return bitwise(name, v);
  if (name.starts_with("dot_i8x16")) return dot_of_bytes(v);
  if (name.starts_with("trunc_sat")) return truncated(name, v[0]);
  if (name.starts_with("convert")) return converted(name, v[0], shape == "f64x2");
  if (name.starts_with("demote")) return demoted(v[0]);
  if (name.starts_with("promote")) return promoted(v[0]);
  if (shape == "f32x4") return floats<float>(in, name, v);
  if (shape == "f64x2") return floats<double>(in, name, v);
  return integers(in, name, bits_of_shape(shape), v);
}

size_t bytes_of_vector_access(Opcode op) { return size_t{1} << wasm::info(op).align; }

Cell loaded_vector(const Instruction& in, std::span<const uint8_t> read, const Cell& kept) {
  std::string_view name = wasm::info(in.op).text;
  Cell bytes, out;
  std::ranges::copy(read, bytes.bytes.begin());
  const int bits = static_cast<int>(8 * read.size());
  if (name.ends_with("_splat"))
    return each({bits, false}, [&](size_t) { return lane(bytes, {bits, false}, 0); });
  if (name.ends_with("_lane")) {
    out = kept;
    set_lane(out, {bits, false}, in.lane, lane(bytes, {bits, false}, 0));
    return out;
  }
  if (name.find('x') == std::string_view::npos) return bytes;  // v128.load, and _zero
  const bool is_signed = name.ends_with("_s");
  take(name, "v128.load");
  const int from = name[0] == '8' ? 8 : name[0] == '1' ? 16 : 32;
  return each({2 * from, is_signed}, [&](size_t i) { return lane(bytes, {from, is_signed}, i); });
}

}  // namespace membrane::engine
