// Lua runs a script: closures, tables, strings, string.format, and method calls.
#include <stdio.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

static const char kScript[] =
    "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end\n"
    "local Point = {}\n"
    "Point.__index = Point\n"
    "function Point.new(x, y) return setmetatable({x = x, y = y}, Point) end\n"
    "function Point:add(o) return Point.new(self.x + o.x, self.y + o.y) end\n"
    "local sum = Point.new(0, 0)\n"
    "for i = 1, 200000 do sum = sum:add(Point.new(i, -i)) end\n"
    "local words = {}\n"
    "for i = 1, 60000 do words[#words + 1] = string.format('%05d-%s-%.3f', i * 7919 % 60000, 'w' .. i % 100, "
    "i / 7) end\n"
    "table.sort(words)\n"
    "local seen = {}\n"
    "for _, w in ipairs(words) do\n"
    "  local key = w:sub(7, 9):upper():gsub('W', 'x')\n"
    "  seen[key] = (seen[key] or 0) + #w\n"
    "end\n"
    "local total = 0\n"
    "for _, n in pairs(seen) do total = total + n end\n"
    "return string.format('%d %d %d %s %d', fib(25), sum.x, sum.y, words[30000], total)\n";

int main(void) {
  lua_State* const lua = luaL_newstate();
  static const luaL_Reg kLibraries[] = {{LUA_GNAME, luaopen_base},
                                        {LUA_TABLIBNAME, luaopen_table},
                                        {LUA_STRLIBNAME, luaopen_string},
                                        {LUA_MATHLIBNAME, luaopen_math}};
  for (size_t i = 0; i < sizeof kLibraries / sizeof *kLibraries; ++i) {
    luaL_requiref(lua, kLibraries[i].name, kLibraries[i].func, 1);
    lua_pop(lua, 1);
  }
  if (luaL_dostring(lua, kScript) != LUA_OK) return 1;
  printf("%s\n", lua_tostring(lua, -1));
  return 0;
}
