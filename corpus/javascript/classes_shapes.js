class Shape {
  static #count = 0;
  #name;
  constructor(name) {
    if (new.target === Shape) throw new TypeError('Shape is abstract');
    this.#name = name;
    Shape.#count++;
  }
  get name() { return this.#name; }
  static get count() { return Shape.#count; }
  area() { throw new Error('not implemented'); }
  toString() { return `${this.name} with area ${this.area().toFixed(2)}`; }
  [Symbol.toPrimitive](hint) { return hint === 'number' ? this.area() : this.toString(); }
  static compare(a, b) { return a.area() - b.area(); }
}

class Circle extends Shape {
  constructor(radius) { super('circle'); this.radius = radius; }
  area() { return Math.PI * this.radius ** 2; }
}

class Rectangle extends Shape {
  constructor(width, height, name = 'rectangle') { super(name); Object.assign(this, { width, height }); }
  area() { return this.width * this.height; }
  set scale(k) { this.width *= k; this.height *= k; }
}

class Square extends Rectangle {
  constructor(side) { super(side, side, 'square'); }
  toString() { return `[${super.toString()}]`; }
}

const shapes = [new Circle(2), new Rectangle(3, 4.5), new Square(3)];
shapes.sort(Shape.compare);
shapes.forEach((s) => console.log(String(s)));
shapes[0].scale = 2;
console.log(`${shapes[0]}`, +shapes[0], shapes[0] instanceof Rectangle, Shape.count);
console.log(shapes[1], shapes);
for (const attempt of [() => new Shape('x'), () => Circle(), () => null.area(), () => undefinedName, () => shapes[0].fly()]) {
  try {
    attempt();
  } catch (e) {
    console.log(`${e.name}: ${e.message}`);
  }
}

const Serializable = (Base) => class extends Base { toJSON() { return { type: this.constructor.name, ...this }; } };
class Point { constructor(x, y) { this.x = x; this.y = y; } *[Symbol.iterator]() { yield this.x; yield this.y; } }
class SPoint extends Serializable(Point) {}
console.log(JSON.stringify(new SPoint(1, 2)), [...new Point(3, 4)], Object.getPrototypeOf(SPoint.prototype) !== Point.prototype);
class ValidationError extends Error {
  constructor(field, message) { super(message); this.name = 'ValidationError'; this.field = field; }
}
try { throw new ValidationError('age', 'must be positive'); } catch (e) { console.log(e instanceof Error, e.name, e.field, `${e}`); }
