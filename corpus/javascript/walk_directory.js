const fs = require('fs');
const path = require('path');

function* walk(dir) {
  for (const entry of fs.readdirSync(dir, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const full = path.join(dir, entry.name);
    if (entry.isDirectory()) yield* walk(full);
    else yield full;
  }
}

const root = path.join(__dirname, 'data', 'project');
let total = 0;
for (const file of walk(root)) {
  const { size } = fs.statSync(file);
  total += size;
  console.log(path.relative(root, file).padEnd(22), String(size).padStart(5), path.extname(file));
}
console.log('total', total);

console.log(fs.existsSync('data/project/src'), fs.existsSync('data/none'), fs.statSync('data').isDirectory());
console.log(path.parse('/srv/site/index.min.js'));
console.log(path.resolve('/a/b', '../c', './d'), path.normalize('a//b/../c/.'), path.isAbsolute('a'), path.sep, path.join('a', '..', '..', 'b'));
console.log(path.format({ dir: '/tmp', base: 'x.txt' }), path.dirname('/a/b/c'), path.basename('/a/b.txt', '.txt'));

const todo = [...walk(root)].flatMap((f) =>
  fs.readFileSync(f, 'utf8').split('\n').map((text, i) => ({ f: path.basename(f), line: i + 1, text })).filter(({ text }) => /TODO/.test(text)));
console.log(todo.map(({ f, line }) => `${f}:${line}`));
try {
  fs.readFileSync('missing.txt');
} catch (e) {
  console.log(e.code, e.syscall, e.message);
}
