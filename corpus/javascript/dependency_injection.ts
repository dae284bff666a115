type Token<T> = symbol & { readonly __type?: T };
type Factory<T> = (c: Container) => T;

class Container {
  private factories = new Map<symbol, Factory<unknown>>();
  private instances = new Map<symbol, unknown>();
  register<T>(token: Token<T>, factory: Factory<T>): this {
    this.factories.set(token, factory);
    return this;
  }
  get<T>(token: Token<T>): T {
    if (!this.instances.has(token)) {
      const factory = this.factories.get(token);
      if (!factory) throw new Error(`nothing is registered for ${String(token)}`);
      this.instances.set(token, factory(this));
    }
    return this.instances.get(token) as T;
  }
}

interface Clock { now(): Date }
interface Repository { all(): Promise<Invoice[]> }
interface Invoice { number: number; due: Date; amount: bigint }

const CLOCK: Token<Clock> = Symbol('clock');
const REPOSITORY: Token<Repository> = Symbol('repository');
const SERVICE: Token<Service> = Symbol('service');

class Service {
  constructor(private readonly clock: Clock, private readonly repository: Repository) {}
  async overdue(): Promise<Invoice[]> {
    const now = this.clock.now();
    return (await this.repository.all()).filter(({ due }) => due < now);
  }
}

const container = new Container()
  .register(CLOCK, () => ({ now: () => new Date('2024-05-14') }))
  .register(REPOSITORY, () => ({
    all: async () => [
      { number: 1, due: new Date('2024-05-01'), amount: 1250n },
      { number: 2, due: new Date('2024-06-01'), amount: 990n },
      { number: 3, due: new Date('2023-12-24'), amount: 10n ** 18n },
    ],
  }))
  .register(SERVICE, (c) => new Service(c.get(CLOCK), c.get(REPOSITORY)));

(async () => {
  const overdue = await container.get(SERVICE).overdue();
  console.log(overdue);
  console.log(overdue.reduce((s, i) => s + i.amount, 0n), container.get(SERVICE) === container.get(SERVICE));
  try {
    container.get(Symbol('missing'));
  } catch (e) {
    if (e instanceof Error) console.log(e.message);
  }
})();
