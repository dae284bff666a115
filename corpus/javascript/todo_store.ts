import fs from 'node:fs';
import path from 'node:path';

interface Todo {
  readonly id: number;
  text: string;
  done: boolean;
  priority?: 'low' | 'high';
}

abstract class Store<T extends { id: number }> {
  protected items: T[] = [];
  abstract load(): void;
  abstract save(): void;
  find(id: number): T {
    const item = this.items.find((i) => i.id === id);
    if (!item) throw new Error(`no item ${id}`);
    return item;
  }
  where(predicate: Partial<T>): T[] {
    return this.items.filter((item) => (Object.keys(predicate) as (keyof T)[]).every((k) => item[k] === predicate[k]));
  }
}

class TodoStore extends Store<Todo> {
  constructor(private readonly file: string) {
    super();
  }
  override load(): void {
    this.items = fs.existsSync(this.file) ? (JSON.parse(fs.readFileSync(this.file, 'utf8')) as Todo[]) : [];
  }
  override save(): void {
    fs.mkdirSync(path.dirname(this.file), { recursive: true });
    fs.writeFileSync(this.file, JSON.stringify(this.items, null, 2));
  }
  add(text: string, priority?: Todo['priority']): Todo {
    const todo: Todo = { id: this.items.length + 1, text, done: false, ...(priority && { priority }) };
    this.items.push(todo);
    return todo;
  }
  complete(id: number): void {
    this.find(id).done = true;
  }
}

const file = path.join('state', 'todo.json');
const store = new TodoStore(file);
store.load();
store.add('buy ink');
store.add('call Lena', 'high');
store.add('paint the box', 'low');
store.complete(2);
store.save();

const again = new TodoStore(file);
again.load();
console.log(again.where({ done: false }).map((t) => t.text), again.where({ priority: 'high', done: true }));
try {
  again.complete(9);
} catch (e) {
  console.log((e as Error).message);
}
console.log(fs.readFileSync(file, 'utf8'));
fs.rmSync('state', { recursive: true });
console.log(fs.existsSync(file));
