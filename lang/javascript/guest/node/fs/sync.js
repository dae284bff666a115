// The synchronous functions of node:fs by their names, of which the other forms are made.
globalThis.__membrane.factories.set("internal/fs/sync", (exports, module, load) => {
  "use strict";
  const {
    appendFileSync,
    closeSync,
    openSync,
    readFileSync,
    readSync,
    writeFileSync,
    writeSync,
  } = load("internal/fs/files");
  const { pathOf } = load("internal/fs/request");
  const { accessSync, existsSync, fstatSync, lstatSync, statSync } = load("internal/fs/stats");
  const {
    copyFileSync,
    cpSync,
    ftruncateSync,
    linkSync,
    mkdirSync,
    mkdtempSync,
    readdirSync,
    readlinkSync,
    realpathSync,
    renameSync,
    rmSync,
    rmdirSync,
    symlinkSync,
    truncateSync,
    unlinkSync,
    utimesSync,
  } = load("internal/fs/tree");

  // There are no users and no modes: a file may be used as its grant says.
  const chmodSync = (given) => accessSync(given);
  const nothing = () => {};
  // One view after the other: how many bytes were read or written.
  const ofViews = (act, fd, views, position) =>
    views.reduce(
      (sum, view) =>
        sum + act(fd, view, 0, view.byteLength, position === undefined || position === null ? null : position + sum),
      0,
    );

  const sync = {
    accessSync,
    appendFileSync,
    chmodSync,
    chownSync: chmodSync,
    closeSync,
    copyFileSync,
    cpSync,
    existsSync,
    fchmodSync: nothing,
    fchownSync: nothing,
    fdatasyncSync: nothing,
    fstatSync,
    fsyncSync: nothing,
    ftruncateSync,
    lchownSync: chmodSync,
    linkSync,
    lstatSync,
    mkdirSync,
    mkdtempSync,
    openSync,
    readFileSync,
    readSync,
    readdirSync,
    readlinkSync,
    realpathSync,
    renameSync,
    rmSync,
    rmdirSync,
    statSync,
    symlinkSync,
    truncateSync,
    unlinkSync,
    utimesSync,
    lutimesSync: utimesSync,
    writeFileSync,
    writeSync,
    readvSync: (fd, views, position) => ofViews(readSync, fd, views, position),
    writevSync: (fd, views, position) => ofViews(writeSync, fd, views, position),
    opendirSync: (given) => new Dir(pathOf(given)),
    futimesSync: nothing,
  };

  class Dir {
    constructor(given) {
      this.path = given;
      this._entries = readdirSync(given, { withFileTypes: true });
    }
    readSync() {
      return this._entries.shift() ?? null;
    }
    async read() {
      return this.readSync();
    }
    closeSync() {
      this._entries = [];
    }
    async close() {
      this.closeSync();
    }
    async *[Symbol.asyncIterator]() {
      for (let entry = this.readSync(); entry; entry = this.readSync()) yield entry;
    }
  }

  module.exports = { Dir, sync };
});
