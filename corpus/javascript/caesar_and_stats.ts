import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const ENGLISH: Record<string, number> = { e: 12.7, t: 9.1, a: 8.2, o: 7.5, i: 7, n: 6.7, s: 6.3, h: 6.1, r: 6, d: 4.3, l: 4, u: 2.8 };

function shift(text: string, by: number): string {
  return text.replace(/[a-z]/gi, (c: string): string => {
    const base = c <= 'Z' ? 65 : 97;
    return String.fromCharCode(((c.charCodeAt(0) - base + by + 26) % 26) + base);
  });
}

function score(text: string): number {
  const letters = text.toLowerCase().match(/[a-z]/g) ?? [];
  return letters.reduce((s, c) => s + (ENGLISH[c] ?? 1), 0) / letters.length;
}

const story: string = readFileSync('data/story.txt', 'utf8');
const secret = shift(story.slice(0, 120), 11);
const [best] = Array.from({ length: 26 }, (_, k) => ({ k, text: shift(secret, -k) })).sort((a, b) => score(b.text) - score(a.text));
console.log(secret.split('\n')[0]);
console.log(best!.k, best!.text.split('\n')[0]);
console.log(createHash('sha256').update(story).digest('hex'));
console.log(createHash('md5').update(Buffer.from(story, 'utf8')).digest('base64url'));

const entropy = (s: string): number => {
  const counts = new Map<string, number>();
  for (const c of s) counts.set(c, (counts.get(c) ?? 0) + 1);
  return [...counts.values()].reduce((h, n) => h - (n / s.length) * Math.log2(n / s.length), 0);
};
console.log(entropy(story).toFixed(4), entropy('aaaa'), entropy('abcd'));
const words: string[] = story.match(/\b[\w']+\b/g) as string[];
const lengths = words.reduce((m: Map<number, number>, w) => m.set(w.length, (m.get(w.length) ?? 0) + 1), new Map());
console.log(Object.fromEntries([...lengths].sort(([a], [b]) => a - b)));
