const crypto = require('crypto');
const fs = require('fs');

for (const algorithm of ['md5', 'sha1', 'sha256', 'sha512']) {
  console.log(algorithm.padEnd(7), crypto.createHash(algorithm).update('river').digest('hex').slice(0, 40));
}
const hash = crypto.createHash('sha256');
hash.update(fs.readFileSync('data/story.txt'));
console.log('story', hash.digest('base64'));
console.log('hmac ', crypto.createHmac('sha256', 'key').update('message').digest('hex'));
console.log('pbkdf', crypto.pbkdf2Sync('secret', 'salt', 1000, 16, 'sha256').toString('hex'));

const id = crypto.randomUUID();
console.log(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id), crypto.randomBytes(8).length);
const n = crypto.randomInt(10);
console.log(n >= 0 && n < 10, crypto.timingSafeEqual(Buffer.from('abc'), Buffer.from('abc')));

// A small content-addressed store
const store = new Map();
const put = (text) => {
  const key = crypto.createHash('sha1').update(text, 'utf8').digest('hex').slice(0, 10);
  store.set(key, text);
  return key;
};
const keys = ['one', 'two', 'one'].map(put);
console.log(keys, store.size, store.get(keys[1]));
