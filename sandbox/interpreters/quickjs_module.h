// Calls of the functions that the QuickJS module exports: between turns, inside a host function, or beside a stopped
// program. A value of the program's is the address of a box in the module's memory. The
// caller frees each box that it is given.
//
// Threads: one at a time, as the Calls.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sandbox/interpreters/interpreter.h"

namespace membrane::sandbox {

// Each function that returns an optional returns nothing when a call did not return, which ends the run, or, where
// bytes are placed, when the module has no memory for them.
class QuickJsModule {
 public:
  // Bytes in the module's memory.
  struct Place {
    uint32_t at = 0, size = 0;
  };
  // How an export is called; returns nothing when it did not return.
  using Invoke =
      std::function<std::optional<uint64_t>(std::string_view name, std::span<const engine::Value> arguments)>;
  // Borrows `calls`, whose memory is the module's.
  QuickJsModule(Calls& calls, Invoke invoke) : calls_(calls), invoke_(std::move(invoke)) {}

  static QuickJsModule between_turns(Calls& calls);
  static QuickJsModule inside(engine::HostCall& during, Calls& calls);
  static QuickJsModule beside_what_was_stopped(Calls& calls);

  [[nodiscard]] std::optional<uint32_t> call(std::string_view name,
                                             std::initializer_list<uint32_t> arguments) const;
  [[nodiscard]] bool free(uint32_t box) const { return call("qjs_free_value", {box}).has_value(); }
  [[nodiscard]] bool free_bytes(uint32_t at) const { return call("wasm_free", {at}).has_value(); }

  // The value of a script, or the promise of a module. `flags` are those of qjs_eval. Texts in the memory have a 0
  // after them.
  [[nodiscard]] std::optional<uint32_t> eval(std::string_view code, std::string_view name,
                                             uint32_t flags) const;
  [[nodiscard]] std::optional<uint32_t> eval(Place code, Place name, uint32_t flags) const;
  // Calls a function with these boxes, and with `undefined` as its `this`.
  [[nodiscard]] std::optional<uint32_t> apply(uint32_t function, uint32_t undefined,
                                              std::span<const uint32_t> boxes) const;
  [[nodiscard]] std::optional<uint32_t> property(uint32_t object, std::string_view name) const;
  // is("string", box) calls qjs_is_string.
  [[nodiscard]] std::optional<bool> is(std::string_view what, uint32_t box) const;

  // The value in a box, as UTF-8 with a 0 after it: the program's toString() may run. The caller frees it with
  // free_string(). `at` is 0 for a value without one, and needs no freeing.
  [[nodiscard]] std::optional<Place> string_of(uint32_t box) const;
  // The same for strings only, so that no code of the program runs; nothing for another value.
  [[nodiscard]] std::optional<Place> string_of_string(uint32_t box) const;
  [[nodiscard]] bool free_string(Place text) const;
  [[nodiscard]] std::string_view bytes(Place place) const { return bytes(place.at, place.size); }

  // A copy of string_of(), and of string_of_string().
  [[nodiscard]] std::optional<std::string> text(uint32_t box) const;
  [[nodiscard]] std::optional<std::string> text_of_string(uint32_t box) const;
  [[nodiscard]] std::optional<double> number(uint32_t box) const;
  // The bytes of a typed array, in place; nothing for another value.
  [[nodiscard]] std::optional<Place> place_of_array(uint32_t box) const;
  [[nodiscard]] std::optional<std::string_view> bytes_of_array(uint32_t box) const;

  [[nodiscard]] std::optional<uint32_t> make_string(std::string_view text) const;
  [[nodiscard]] std::optional<uint32_t> make_array(std::string_view bytes) const;
  // The same from bytes that are already in the memory, without a copy in the host.
  [[nodiscard]] std::optional<uint32_t> make_string(Place text) const;
  [[nodiscard]] std::optional<uint32_t> make_array(Place bytes) const;

  // Copies bytes into the module's memory, with a 0 after them; the caller frees them with free_bytes().
  [[nodiscard]] std::optional<uint32_t> place(std::string_view bytes) const;
  // The bytes from `at` to the next 0, or to the end of the memory.
  [[nodiscard]] std::string c_string(uint32_t at) const;
  // Empty when they are not all in the memory.
  [[nodiscard]] std::string_view bytes(uint32_t at, uint32_t count) const;

 private:
  Calls& calls_;
  Invoke invoke_;
};

}  // namespace membrane::sandbox
