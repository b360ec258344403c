import { expect, it } from 'vitest';
import {
  add,
  countedFlops,
  type Device,
  type DeviceGraph,
  GraphMemory,
  matmul,
  memoryStatistics,
  sumOfSquares,
  synchronize,
  Tensor,
} from '../../src/index.js';
import { refuseInGraph } from '../../src/internal/index.js';

/** Code of a test; `graph` has been recorded before. */
type Body = (tensor: Tensor, graph: DeviceGraph) => unknown;
type Refusal = readonly [title: string, body: Body, message: string];

const refused: readonly Refusal[] = [
  ['reads a tensor', (tensor) => tensor.toArray(), 'a copy to the host'],
  ['writes one', (tensor) => tensor.write(new Float32Array(4)), 'a copy from the host'],
  ['waits', ({ device }) => synchronize(device), 'waiting for the device'],
  ['talks to other ranks', ({ device }) => refuseInGraph(device, 'communication'), 'communication'],
  ['launches a graph', (_, graph) => graph.launch(), 'launching a graph'],
];

/** Tests the rules of graphs on every device that has them, in a group of tests of that device. */
export function graphRules(device: Device): void {
  const zeros = (): Tensor => Tensor.zeros({ shape: [4], dtype: 'float32', device });
  const double = (tensor: Tensor): void => add({ output: tensor, left: tensor, right: tensor });

  it.each(refused)('are not made of what %s', (_, body, message) => {
    using memory = new GraphMemory(device);
    using tensor = zeros();
    using graph = memory.capture(() => double(tensor));
    const record = (): DeviceGraph =>
      memory.capture(() => {
        double(tensor);
        body(tensor, graph);
      });
    expect(record).toThrow(
      expect.objectContaining({
        code: 'MTL_CAPTURE',
        message: `${message} cannot be part of a graph, and one is being recorded`,
      }),
    );
    // the next graph is recorded, and nothing is refused afterwards
    using next = memory.capture(() => double(tensor));
    next.launch();
    tensor.write(new Float32Array(4));
    refuseInGraph(device, 'communication');
    synchronize(device);
  });

  it('are not recorded within each other', () => {
    using memory = new GraphMemory(device);
    expect(() =>
      memory.capture(() => {
        using inner = new GraphMemory(device);
        inner.capture(() => {});
      }),
    ).toThrow();
    using graph = memory.capture(() => {});
    graph.launch();
  });

  it('count their FLOPs when they are launched', () => {
    using memory = new GraphMemory(device);
    const make = (): Tensor => Tensor.zeros({ shape: [2, 2], dtype: 'float32', device });
    using left = make();
    using output = make();
    const multiply = (): void => matmul({ output, left, right: left });
    multiply();
    const flops = 2 * 2 ** 3;
    const before = countedFlops();
    const counted = (): number => countedFlops() - before;
    using graph = memory.capture(() => {
      multiply();
      multiply();
    });
    expect(counted()).toBe(0);
    graph.launch();
    expect(counted()).toBe(2 * flops);
    multiply();
    graph.launch();
    expect(counted()).toBe(5 * flops);
    expect(() =>
      memory.capture(() => {
        multiply();
        throw new RangeError('of the body');
      }),
    ).toThrow(RangeError);
    expect(counted()).toBe(5 * flops);
  });
}

/** Tests what graphs compute, on every device that has graphs and values. */
export function graphValueRules(device: Device): void {
  const vector = (values: readonly number[]): Tensor =>
    Tensor.from(values, { shape: [values.length], dtype: 'float32', device });

  it('do nothing until they are launched, and then the same on what tensors hold by then', () => {
    using memory = new GraphMemory(device);
    using input = vector([1, 2, 3, 4]);
    using total = vector([0, 0, 0, 0]);
    using graph = memory.capture(() => add({ output: total, left: total, right: input }));
    expect(total.toArray()).toEqual([0, 0, 0, 0]);
    graph.launch();
    graph.launch();
    expect(total.toArray()).toEqual([2, 4, 6, 8]);
    input.write(Float32Array.of(10, 0, 0, 1));
    graph.launch();
    expect(total.toArray()).toEqual([12, 4, 6, 9]);
  });

  it('hold matmuls, kernels with scratch memory, and tensors that are gone since', () => {
    using memory = new GraphMemory(device);
    const shape = [16, 16];
    using left = Tensor.from(
      Array.from({ length: 256 }, (_, index) => (index % 7) - 3),
      { shape, dtype: 'float32', device },
    );
    using sum = Tensor.zeros({ shape: [1], dtype: 'float64', device });
    const compute = (): void => {
      using result = Tensor.empty({ shape, dtype: 'float32', device });
      matmul({ output: result, left, right: left });
      sumOfSquares({ output: sum, input: result });
    };
    memory.run(compute);
    const expected = sum.item();
    using graph = memory.capture(compute);
    sum.zero();
    // other tensors must not get memory that the graph uses
    const others = Array.from({ length: 64 }, () => Tensor.zeros({ shape, dtype: 'float32', device }));
    graph.launch();
    expect(sum.item()).toBe(expected);
    for (const other of others) {
      expect(new Set(other.toArray())).toEqual(new Set([0]));
      other.dispose();
    }
  });

  it('are not made within each other or launched within one, and errors of the body come through', () => {
    using memory = new GraphMemory(device);
    using other = new GraphMemory(device);
    using tensor = vector([1, 2, 3, 4]);
    const double = (): void => add({ output: tensor, left: tensor, right: tensor });
    using graph = memory.capture(double);
    expect(() => memory.capture(() => graph.launch())).toThrow('cannot be part of a graph');
    expect(() => memory.run(() => other.run(double))).toThrow('entered twice');
    expect(() =>
      memory.capture(() => {
        throw new RangeError('of the body');
      }),
    ).toThrow(RangeError);
    double();
    graph.launch();
    expect(tensor.toArray()).toEqual([4, 8, 12, 16]);
  });

  it('have memory that counts as in use until it is given back, which waits for its tensors', () => {
    const { bytesInUse } = memoryStatistics(device);
    const memory = new GraphMemory(device);
    const tensor = memory.run(() => Tensor.empty({ shape: [3 << 20], dtype: 'float32', device }));
    const held = memoryStatistics(device).bytesInUse - bytesInUse;
    expect(held).toBeGreaterThanOrEqual(12 << 20);
    expect(() => memory.dispose()).toThrow(expect.objectContaining({ code: 'MTL_ARGUMENT' }));
    tensor.dispose();
    expect(memoryStatistics(device).bytesInUse - bytesInUse).toBe(held);
    memory.dispose();
    memory.dispose();
    expect(memoryStatistics(device).bytesInUse).toBe(bytesInUse);
    expect(() => memory.run(() => {})).toThrow('after dispose()');
  });

  it('cannot be launched after dispose()', () => {
    using memory = new GraphMemory(device);
    const graph = memory.capture(() => {});
    graph.launch();
    graph.dispose();
    graph.dispose();
    expect(() => graph.launch()).toThrow('after dispose()');
  });
}
