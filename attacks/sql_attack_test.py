"""Attempts against databases that a program may read: to take more time or memory than allowed, to see the
machine's clock, to leave something on the disk."""

import json
import os
import sqlite3
import time
import unittest

from attack import MIB, Attack


def text(value):
    """As a string of the text format."""
    return '"' + "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{b:02x}" for b in c.encode())
                         for c in value) + '"'


class SqlAttack(Attack):
    TIMEOUT_S = 2  # of the grant

    def setUp(self):
        super().setUp()
        self.database = self.folder / "data.db"
        with sqlite3.connect(self.database) as db:
            db.execute("CREATE TABLE t(i INTEGER PRIMARY KEY, x TEXT)")
            db.executemany("INSERT INTO t(x) VALUES (?)", [(f"row {i}",) for i in range(1000)])
        db.close()

    def query(self, sql, *options, cpu_s=None, parameters="", database=None):
        """Runs one query, and holds it to its time; returns the report."""
        self.file("policy.toml", f'[[sql]]\nname = "d"\npath = "{database or self.database}"\n')
        program = f'(func (export "run") (call $io.print (call $sql.query! (string "d") (string {text(sql)}) ' \
                  f'(string {text(parameters)}))))'
        done = self.membrane("run", self.file("p.wat", program), "--policy", "policy.toml", "--json", *options)
        self.assert_cpu(done, cpu_s or self.TIMEOUT_S + 4)
        self.assert_memory(done, 64 * MIB)
        return json.loads(done.stdout)

    def assert_ends(self, sql, *options, **rest):
        report = self.query(sql, *options, **rest)
        self.assertNotEqual(report["outcome"], "ok", report)
        self.assertNotEqual(report["outcome"], "failed", report)
        return report

    # -- fuel

    def test_more_work_than_there_is_fuel_for(self):
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        for sql in (endless + "SELECT count(*) FROM n", endless + "SELECT sum(length(hex(zeroblob(10000)))+i) FROM n",
                    "SELECT count(*) FROM t a, t b, t c WHERE a.x < b.x || c.x"):
            with self.subTest(sql):
                report = self.query(sql, "--fuel", "2e6", cpu_s=2)
                self.assertEqual(report["outcome"], "out_of_fuel", report)
                self.assertEqual(report["fuel_used"], 2_000_000)

    # -- time

    def test_many_calls_of_json_extract_on_a_large_document(self):
        calls = ",".join(f"json_extract(j || substr('{' ' * 190}', {i}), '$[99999]')" for i in range(95))
        self.assert_ends(f"WITH t AS MATERIALIZED (SELECT '[' || replace(hex(zeroblob(150000)), '00', '1,') || '1]' AS j) "
                         f"SELECT {calls} FROM t")

    def test_many_paths_in_one_call(self):
        paths = ",".join(["'$[99999]'"] * 98)
        calls = ",".join([f"length(json_extract(j, {paths}))"] * 45)
        self.query(f"WITH t AS MATERIALIZED (SELECT '[' || replace(hex(zeroblob(100000)), '00', '1,') || '1]' AS j) "
                   f"SELECT {calls} FROM t")

    def test_a_chain_of_comparisons_of_long_texts(self):
        self.query("WITH t AS MATERIALIZED (SELECT hex(zeroblob(150000)) AS x, hex(zeroblob(150000)) AS y) SELECT " +
                   ",".join(["x = y"] * 400) + " FROM t")

    def test_a_chain_of_concatenations(self):
        self.query("WITH t AS MATERIALIZED (SELECT hex(zeroblob(10000)) AS x) SELECT " +
                   ",".join(["length(" + "||".join(["x", "x"] + ["''"] * 80) + ")"] * 100) + " FROM t")

    def test_numbers_of_a_million_digits(self):
        self.query("WITH t AS MATERIALIZED (SELECT hex(zeroblob(150000)) AS x) SELECT " + ",".join(["x + 1"] * 490) + " FROM t")

    def test_patterns_over_long_texts(self):
        self.query("WITH t AS MATERIALIZED (SELECT hex(zeroblob(60000)) AS x) SELECT " +
                   ",".join(["x LIKE '%" + "0_" * 100 + "%1'"] * 190) + " FROM t")

    def test_wide_formats(self):
        self.query("SELECT " + ",".join(["length(printf('%*d%*d', 200000, 1, 200000, 2))"] * 95))

    def test_a_recursion_without_end(self):
        self.assert_ends("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c")

    def test_a_query_longer_than_the_wall(self):
        report = self.assert_ends("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c",
                                  "--wall", "300ms", cpu_s=3)
        self.assertEqual(report["outcome"], "timed_out")

    def test_a_sort_of_more_than_fits(self):
        self.assert_ends("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 3000000) SELECT i FROM c ORDER BY -i")

    def test_a_lock_that_is_never_released(self):
        db = sqlite3.connect(self.database, isolation_level=None)
        self.addCleanup(db.close)
        db.execute("BEGIN EXCLUSIVE")
        report = self.query("SELECT count(*) FROM t", "--wall", "300ms")
        self.assertEqual(report["outcome"], "timed_out")

    # -- memory

    def test_values_that_double(self):
        self.assert_ends("WITH RECURSIVE c(x) AS (SELECT 'xxxxxxxx' UNION ALL SELECT x || x FROM c) SELECT length(x) FROM c")

    def test_tables_that_double(self):
        tables = "WITH c0 AS (SELECT 1 AS x)" + "".join(
            f", c{i} AS (SELECT x FROM c{i - 1} UNION ALL SELECT x FROM c{i - 1})" for i in range(1, 31))
        self.assert_ends(tables + " SELECT count(*) FROM c30")

    # -- what it shows of the machine

    def test_the_clock_of_the_machine(self):
        report = self.query("SELECT datetime('now') AS a, CURRENT_TIMESTAMP AS b, julianday() AS c, datetime('now', 'localtime') AS d, "
                            "unixepoch('now') AS e")
        self.assertEqual(json.loads(report["stdout"])[0],
                         {"a": "2000-01-01 00:00:00", "b": "2000-01-01 00:00:00", "c": 2451544.5, "d": "2000-01-01 00:00:00",
                          "e": 946684800}, report)

    def test_files_beside_a_database_that_is_only_read(self):
        db = sqlite3.connect(self.database)
        db.execute("PRAGMA journal_mode = WAL")
        db.close()
        before = sorted(os.listdir(self.folder)) + ["p.wat", "policy.toml"]
        self.query("SELECT count(*) FROM t")
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name != "state"), sorted(before))

    def test_a_file_name_that_is_a_uri(self):
        odd = self.folder / "a?mode=rwc&vfs=memdb#.db"
        odd.write_bytes(self.database.read_bytes())
        report = self.query("SELECT count(*) AS n FROM t", database=odd)
        self.assertEqual(json.loads(report["stdout"]), [{"n": 1000}], report)


if __name__ == "__main__":
    unittest.main()
