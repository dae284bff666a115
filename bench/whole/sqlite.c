// SQLite: a database in memory, with inserts, an index, joins, aggregates, sorting and text functions.
#include <stdio.h>
#include <string.h>

#include "sqlite3.h"

// A database in memory asks the system for nothing but these.
static int open_none(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
  (void)vfs, (void)name, (void)flags, (void)out;
  file->pMethods = NULL;
  return SQLITE_CANTOPEN;
}
static int delete_none(sqlite3_vfs* vfs, const char* name, int sync) {
  return (void)vfs, (void)name, (void)sync, SQLITE_OK;
}
static int access_none(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
  return (void)vfs, (void)name, (void)flags, *out = 0, SQLITE_OK;
}
static int path_of(sqlite3_vfs* vfs, const char* name, int size, char* out) {
  return (void)vfs, sqlite3_snprintf(size, out, "%s", name), SQLITE_OK;
}
static int random_bytes(sqlite3_vfs* vfs, int size, char* out) {
  return (void)vfs, memset(out, 7, (size_t)size), size;
}
static int sleep_none(sqlite3_vfs* vfs, int us) { return (void)vfs, us; }
static int time_zero(sqlite3_vfs* vfs, double* out) { return (void)vfs, *out = 2440587.5, SQLITE_OK; }
static int error_none(sqlite3_vfs* vfs, int size, char* out) { return (void)vfs, (void)size, (void)out, 0; }

int sqlite3_os_init(void) {
  static sqlite3_vfs vfs = {.iVersion = 1,
                            .szOsFile = sizeof(sqlite3_file),
                            .mxPathname = 64,
                            .zName = "none",
                            .xOpen = open_none,
                            .xDelete = delete_none,
                            .xAccess = access_none,
                            .xFullPathname = path_of,
                            .xRandomness = random_bytes,
                            .xSleep = sleep_none,
                            .xCurrentTime = time_zero,
                            .xGetLastError = error_none};
  return sqlite3_vfs_register(&vfs, 1);
}
int sqlite3_os_end(void) { return SQLITE_OK; }

static int print_row(void* unused, int count, char** values, char** names) {
  (void)unused, (void)names;
  for (int i = 0; i < count; ++i) printf("%s%s", i == 0 ? "" : "|", values[i] == NULL ? "" : values[i]);
  printf("\n");
  return 0;
}

static const char* const kStatements[] = {
    "create table item(id integer primary key, name text, price real, kind integer)",
    "create table kind(id integer primary key, name text)",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20) "
    "insert into kind select i, 'kind ' || i from n",
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 40000) "
    "insert into item select i, printf('item-%06d', i * 7919 % 40000), i * 1.25, i % 20 + 1 from n",
    "create index by_name on item(name)",
    "select kind.name, count(*), round(avg(price), 2), min(item.name) from item join kind on kind.id = "
    "item.kind "
    "where item.name like 'item-0%' group by kind.id order by 3 desc limit 3",
    "update item set price = price + length(name) where id % 3 = 0",
    "select sum(length(upper(substr(name, 3)))), round(sum(price)) from item",
    "select a.name, b.name from item a join item b on b.name = 'item-' || printf('%06d', a.id) "
    "where a.id between 5000 and 15000 order by b.id desc limit 2",
    "select count(distinct name || kind) from item",
};

int main(void) {
  sqlite3* database;
  if (sqlite3_open(":memory:", &database) != SQLITE_OK) return 1;
  for (size_t i = 0; i < sizeof kStatements / sizeof *kStatements; ++i) {
    char* message = NULL;
    if (sqlite3_exec(database, kStatements[i], print_row, NULL, &message) == SQLITE_OK) continue;
    printf("%s\n", message);
    return 1;
  }
  return sqlite3_close(database);
}
