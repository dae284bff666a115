type Circle = { kind: 'circle'; radius: number };
type Rectangle = { kind: 'rectangle'; width: number; height: number };
type Triangle = { kind: 'triangle'; sides: [number, number, number] };
type Shape = Circle | Rectangle | Triangle;

function assertNever(x: never): never {
  throw new Error(`unexpected ${JSON.stringify(x)}`);
}

function area(shape: Shape): number {
  switch (shape.kind) {
    case 'circle':
      return Math.PI * shape.radius ** 2;
    case 'rectangle':
      return shape.width * shape.height;
    case 'triangle': {
      const [a, b, c] = shape.sides;
      const s = (a + b + c) / 2;
      return Math.sqrt(s * (s - a) * (s - b) * (s - c));
    }
    default:
      return assertNever(shape);
  }
}

function isCircle(shape: Shape): shape is Circle {
  return shape.kind === 'circle';
}

const shapes: readonly Shape[] = [
  { kind: 'circle', radius: 1.5 },
  { kind: 'rectangle', width: 2, height: 3.5 },
  { kind: 'triangle', sides: [3, 4, 5] },
];

for (const shape of shapes) console.log(shape.kind.padEnd(10), area(shape).toFixed(3));
console.log(shapes.filter(isCircle).map((c) => c.radius));
const sizes = { small: 1, large: 10 } as const satisfies Record<string, number>;
type Size = keyof typeof sizes;
const pick = (size: Size): number => sizes[size];
console.log(pick('large'), Object.keys(sizes));

try {
  area({ kind: 'hexagon' } as unknown as Shape);
} catch (e: unknown) {
  if (e instanceof Error) console.log(e.message);
}
